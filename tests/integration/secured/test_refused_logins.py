"""What a connection gets wrong, and what goes away: an error by name within seconds.

It is terminal or transient as it really is, and lake and topic stay as they were.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support import oracle_client, topic_reader, topic_records
from support.certificates import EXPIRED, NOT_YET_VALID, Authority
from support.cli_user import Terminal
from support.kdc import wrong_keytab
from support.secured_broker import PASSWORD, SECRETS, USER, SecuredBroker
from tidegate_local.ports import free_port

RECORDS = 400
SECONDS = 20
WRONG = "canary-wrong-2f6a"

Extra = dict[str, str]


@dataclass(frozen=True)
class Case:
    """A change of a way to log in, and the error that it makes.

    `says` is a pattern in the message. With `listener`, another one is asked.
    """

    name: str
    way: str
    error: str
    says: str
    change: Callable[[SecuredBroker], Extra] = lambda _: {}
    listener: str | None = None
    meanwhile: Callable[[SecuredBroker], AbstractContextManager[object]] = lambda _: nullcontext()
    environ: Callable[[SecuredBroker], Extra] = lambda _: {}
    """What a process of its own needs."""
    drop: tuple[str, ...] = field(default=())

    @property
    def kind(self) -> str:
        return "transient" if self.error == "BrokerUnreachable" else "terminal"


def other_ca(secured: SecuredBroker) -> Extra:
    return {"ssl.ca.location": secured.write("other-ca.pem", Authority.create().pem)}


def client_of(secured: SecuredBroker, authority: Authority, days: tuple[int, int]) -> Extra:
    chain, key = authority.client(USER, days=days).write(secured.files, "refused-client")
    return {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}


def expired_client(secured: SecuredBroker) -> Extra:
    return client_of(secured, secured.authority, EXPIRED)


def unknown_client(secured: SecuredBroker) -> Extra:
    return client_of(secured, Authority.create(), (-1, 1))


def expired_token(secured: SecuredBroker) -> Extra:
    token = secured.issuer.token(USER, lifetime=-3600)
    return {"tidegate.oauthbearer.token.file": secured.write("expired-token", token)}


def early_client(secured: SecuredBroker) -> Extra:
    return client_of(secured, secured.authority, NOT_YET_VALID)


def early_token(secured: SecuredBroker) -> Extra:
    token = secured.issuer.token(USER, ahead=3600)
    return {"tidegate.oauthbearer.token.file": secured.write("early-token", token)}


def no_endpoint(_: SecuredBroker) -> Extra:
    url = f"http://localhost:{free_port()}/token"
    return {"sasl.oauthbearer.token.endpoint.url": url}


class Overloaded:
    """Lets the token endpoint answer 503."""

    def __init__(self, secured: SecuredBroker) -> None:
        self.issuer = secured.issuer

    def __enter__(self) -> None:
        self.issuer.status = 503

    def __exit__(self, *_: object) -> None:
        self.issuer.status = 200


def keytab_of_others(secured: SecuredBroker) -> Extra:
    right = Path(secured.ways["kerberos"]["sasl.kerberos.keytab"])
    return {"sasl.kerberos.keytab": str(wrong_keytab(right))}


def unknown_principal(secured: SecuredBroker) -> Extra:
    return {"sasl.kerberos.principal": f"nobody@{secured.kdc.realm}"}


def without_kdc(secured: SecuredBroker) -> Extra:
    return {"KRB5_CONFIG": str(secured.kdc.configuration_without_kdc())}


CERTIFICATE = ("ssl.certificate.location", "ssl.key.location", "ssl.key.password")
TLS = "(?i)certificate"
LOGIN = "refused the (credentials|login)"
CASES = [
    Case("wrong password", "scram-512", "NotAuthenticated", LOGIN,
         lambda _: {"sasl.password": WRONG}),
    Case("wrong password of PLAIN", "plain", "NotAuthenticated", LOGIN,
         lambda _: {"sasl.password": WRONG}),
    Case("wrong user", "scram-256", "NotAuthenticated", LOGIN,
         lambda _: {"sasl.username": "nobody"}),
    Case("wrong CA", "scram-512", "NotAuthenticated", TLS, other_ca),
    Case("wrong CA without a login", "ssl", "NotAuthenticated", TLS, other_ca),
    Case("wrong host name", "ssl", "NotAuthenticated", "(?i)host ?name", listener="MISNAMED"),
    Case("expired server", "ssl", "NotAuthenticated", "(?i)expired", listener="EXPIRED"),
    Case("no client certificate", "ssl", "NotAuthenticated", TLS, listener="CERTIFICATE"),
    Case("clock behind the broker's", "ssl", "NotAuthenticated", "not yet valid", listener="EARLY"),
    Case("expired client", "ssl-certificate", "ConfigurationError", "certificate expired at",
         expired_client, drop=CERTIFICATE),
    Case("clock behind the CA's", "ssl-certificate", "ConfigurationError",
         "certificate is not valid before", early_client, drop=CERTIFICATE),
    Case("unknown client", "ssl-certificate", "NotAuthenticated", TLS, unknown_client,
         drop=CERTIFICATE),
    Case("expired token", "oauth-file", "NotAuthenticated", "(?i)token|expired", expired_token),
    Case("clock behind the issuer's", "oauth-file", "NotAuthenticated", "token", early_token),
    Case("wrong client secret", "oauth-client", "NotAuthenticated", "(?i)client",
         lambda _: {"sasl.oauthbearer.client.secret": WRONG}),
    Case("no token endpoint", "oauth-loopback", "BrokerUnreachable", "token", no_endpoint),
    Case("overloaded token endpoint", "oauth-loopback", "BrokerUnreachable", "token",
         meanwhile=Overloaded),
    Case("wrong keytab", "kerberos", "NotAuthenticated", "(?i)keytab", keytab_of_others),
    Case("clock unlike the KDC's", "kerberos", "NotAuthenticated", "(?i)clock",
         meanwhile=lambda secured: secured.kdc.skewed(), environ=lambda s: s.environ),
    Case("unknown principal", "kerberos", "NotAuthenticated", "(?i)principal", unknown_principal),
    Case("no KDC", "kerberos", "BrokerUnreachable", "KDC", environ=without_kdc),
    Case("silent KDC", "kerberos", "BrokerUnreachable", "KDC",
         meanwhile=lambda secured: secured.kdc.paused(), environ=lambda s: s.environ),
    Case("no encryption asked for", "ssl", "BrokerUnreachable", "security.protocol",
         lambda _: {"security.protocol": "PLAINTEXT"}, drop=("ssl.ca.location",)),
    Case("encryption not offered", "scram-unencrypted", "BrokerUnreachable", "security.protocol",
         lambda s: {"security.protocol": "SASL_SSL", "ssl.ca.location": str(s.files / "ca.pem")}),
]  # fmt: skip
CODES = {
    "ConfigurationError": 2, "NotAuthenticated": 3, "NotAuthorised": 3,
    "BrokerUnreachable": 4, "StageFailed": 4,
}  # fmt: skip
SAMPLE = ("wrong password",)
EGRESS = ("wrong password", "expired client", "wrong client secret", "wrong keytab")
"""What the target's cluster refuses as well; how a connection is opened is the same."""


def cases() -> Iterator[Any]:
    for case in CASES:
        marks = () if case.name in SAMPLE else pytest.mark.slow
        yield pytest.param(case, "ingest", marks=marks, id=f"ingest, {case.name}")
    for case in CASES:
        if case.name in EGRESS:
            yield pytest.param(case, "egress", marks=pytest.mark.slow, id=f"egress, {case.name}")


@pytest.mark.parametrize(("case", "kind"), cases())
def test_a_refused_login(
    secured: SecuredBroker, tmp_path: Path, case: Case, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secured.environ.items():
        monkeypatch.setenv(name, value)
    extra = {k: v for k, v in secured.ways[case.way].items() if k not in case.drop}
    if case.listener:
        extra["bootstrap.servers"] = secured.address(case.listener)
    extra |= case.change(secured)
    topic = re.sub(r"\W+", "-", f"{kind}-{case.name}")
    topic_records.numbers(secured.admin, topic, RECORDS, partitions=2)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra, environ=case.environ(secured))
    terminal.lake.mkdir()
    if kind == "ingest":
        terminal.pipeline("p", [topic])
    else:
        (tmp_path / "in").mkdir()
        (tmp_path / "in/a").write_text("1\n2\n")
        source = {"path": str(tmp_path / "in"), "format": "text"}
        terminal.egress("p", source=source, target={"topic": topic})
    before = terminal.tree()
    with case.meanwhile(secured):
        started = time.monotonic()
        done = terminal.run("run", "p", "--run-id", "r", "--json", code=None)
        seconds = time.monotonic() - started
    error = json.loads(done.stdout).get("error")
    assert error, done.stderr
    print(f"{kind}, {case.name}: {seconds:.1f} s, {error['name']}: {error['message']}")
    assert (error["name"], error["kind"]) == (case.error, case.kind), error["message"]
    assert done.returncode == CODES[case.error]
    assert re.search(case.says, error["message"]), error["message"]
    assert seconds < SECONDS
    assert terminal.tree() == before
    assert sum(topic_reader.ends(secured.admin, topic).values()) == RECORDS
    shown = done.stdout + done.stderr
    assert not [secret for secret in (*SECRETS, WRONG) if secret in shown]


@pytest.mark.slow
def test_a_host_name_that_is_not_checked(secured: SecuredBroker, tmp_path: Path) -> None:
    """`ssl.endpoint.identification.algorithm: none` accepts another name, not another CA."""
    extra = secured.connection("MISNAMED") | {"ssl.endpoint.identification.algorithm": "none"}
    topic_records.numbers(secured.admin, "unchecked-name", RECORDS, partitions=2)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra)
    terminal.pipeline("p", ["unchecked-name"])
    assert terminal.json("run", "p")["rows"] == RECORDS
    terminal.extra |= other_ca(secured)
    error = terminal.json("run", "p", code=3)["error"]
    assert error["name"] == "NotAuthenticated"


@dataclass
class Half:
    """A user with the documented rights, whose run is disturbed half-way."""

    secured: SecuredBroker
    terminal: Terminal
    user: str

    def password(self, password: str) -> None:
        self.secured.set_password(self.user, password)

    def withdraw(self, topic: str, operation: str) -> None:
        self.secured.withdraw(self.user, "topic", topic, operation)

    def refused(
        self, name: str, says: str, at: str = "", happens: Callable[[], None] | None = None
    ) -> None:
        """Run `p`; assert that it is refused at once; terminally, unless it is StageFailed.

        With `at`, something happens while the run waits at that fault point.
        """
        gate = self.terminal.home / f"gate-{at}"
        fault = {"TIDEGATE_FAULT": f"{at}:wait={gate}"} if at else {}
        started = time.monotonic()
        with self.terminal.start("run", "p", "--run-id", "r", "--json", **fault) as process:
            if happens:
                while not list(gate.parent.glob(f"{gate.name}.reached.*")):
                    assert process.poll() is None, process.communicate()
                    assert time.monotonic() - started < 90
                    time.sleep(0.05)
                happens()
                started = time.monotonic()
                gate.touch()
            out, err = process.communicate(timeout=90)
        seconds = time.monotonic() - started
        error = json.loads(out).get("error")
        assert error, out + err
        print(
            f"{says} at {at or 'the start'}: {seconds:.1f} s, {error['name']}: {error['message']}"
        )
        kind = "transient" if name == "StageFailed" else "terminal"
        assert (error["name"], error["kind"]) == (name, kind), error["message"]
        assert process.returncode == CODES[name]
        assert re.search(says, error["message"]), error["message"]
        assert seconds < SECONDS
        assert PASSWORD not in out + err


@pytest.fixture
def half(secured: SecuredBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Half:
    user = re.sub(r"\W+", "-", request.node.name)
    secured.set_password(user, PASSWORD)
    for topic, rights in (("source", ("READ",)), ("target", ("READ", "WRITE", "DESCRIBE_CONFIGS"))):
        topic_records.create(secured.admin, f"{user}-{topic}", partitions=2)
        secured.allow(user, "topic", f"{user}-{topic}", "DESCRIBE", *rights)
    topic_records.numbers(secured.admin, f"{user}-source", RECORDS)
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": user, "sasl_password": PASSWORD}
    extra = secured.connection("LOGIN", **login)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra)
    return Half(secured, terminal, user)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["READ", "password"])
def test_an_ingest_that_may_not_go_on(half: Half, what: str) -> None:
    """READ is withdrawn, or the password changed, when one chunk of four is staged.

    Nothing is visible in the lake, but what was complete. A login that was accepted before is
    worth a retry: it may have the new password. Given back, the same run finishes its plan.
    """
    topic = f"{half.user}-source"
    half.terminal.pipeline("p", [topic], max_records=100)
    if what == "READ":
        half.refused("NotAuthorised", "READ", "stage.half", lambda: half.withdraw(topic, "READ"))
        half.secured.allow(half.user, "topic", topic, "READ")
    else:
        half.refused("StageFailed", "credentials", "stage.half", lambda: half.password(WRONG))
        half.refused("NotAuthenticated", "credentials")
        half.terminal.extra["sasl.password"] = WRONG  # rotated there, and now here
    (frozen,) = (half.terminal.lake / "p/_tidegate/runs").rglob("1.json")
    report = half.terminal.json("run", "p", "--run-id", "r")
    assert report["rows"] == RECORDS
    assert report["plan_id"] in frozen.read_text()
    oracle_client.agree(half.secured.admin, half.terminal.lake, "p", [topic])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "at", "sent"), [("WRITE", "send.before", 0), ("READ", "send.sent", RECORDS)]
)
def test_an_egress_that_may_not_go_on(half: Half, operation: str, at: str, sent: int) -> None:
    """Without WRITE nothing is sent; without READ nothing is read back.

    Given back, the same run sends the missing rows.
    """
    target, home = f"{half.user}-target", half.terminal.home
    (home / "in").mkdir()
    (home / "in/a").write_text("\n".join(map(str, range(RECORDS))))
    source = {"path": str(home / "in"), "format": "text"}
    half.terminal.egress("p", source=source, target={"topic": target})
    half.refused("NotAuthorised", operation, at, lambda: half.withdraw(target, operation))
    assert sum(topic_reader.ends(half.secured.admin, target).values()) == sent
    half.secured.allow(half.user, "topic", target, operation)
    report = half.terminal.json("run", "p", "--run-id", "r")
    assert (report["rows"], report["duplicates"]) == (RECORDS, 0)
    records = topic_reader.read(half.secured.admin, target)
    assert sorted(record.value for record in records) == sorted(b"%d" % n for n in range(RECORDS))


@pytest.mark.slow
def test_a_token_endpoint_that_goes_away_meanwhile(secured: SecuredBroker, tmp_path: Path) -> None:
    """Before Spark asks for its token. Java calls that a failed login; the retry finishes."""
    extra = secured.ways["oauth-loopback"]
    topic_records.numbers(secured.admin, "endpoint-away", RECORDS, partitions=2)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra)
    terminal.pipeline("p", ["endpoint-away"])
    gate = tmp_path / "gate"
    run = ("run", "p", "--run-id", "r", "--json")
    with terminal.start(*run, TIDEGATE_FAULT=f"plan.frozen:wait={gate}") as process:
        while not list(tmp_path.glob("gate.reached.*")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        with Overloaded(secured):
            gate.touch()
            out, err = process.communicate(timeout=120)
    error = json.loads(out).get("error")
    assert error, out + err
    assert (error["kind"], process.returncode) == ("transient", 4), error
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == RECORDS
    oracle_client.agree(secured.admin, terminal.lake, "p", ["endpoint-away"])


@pytest.mark.slow
def test_a_password_that_changed_between_runs(half: Half) -> None:
    """The next run, with the new password in the connection, goes on; the old one is refused."""
    topic = f"{half.user}-source"
    half.terminal.pipeline("p", [topic])
    assert half.terminal.json("run", "p", "--run-id", "first")["rows"] == RECORDS
    half.password(WRONG)
    topic_records.numbers(half.secured.admin, topic, RECORDS, first=RECORDS)
    half.refused("NotAuthenticated", LOGIN)
    half.terminal.extra["sasl.password"] = WRONG
    assert half.terminal.json("run", "p", "--run-id", "r")["rows"] == RECORDS
    oracle_client.agree(half.secured.admin, half.terminal.lake, "p", [topic])
