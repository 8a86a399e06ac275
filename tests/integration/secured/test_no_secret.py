"""No secret of a connection is anywhere but where the user gave it.

Every command is a process of its own, looked at from outside: its children, their files, Spark's
pages, what is printed and what is left behind. Core dumps would hold what memory holds: no process
of Spark writes one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import process_list, spark_session, topic_records
from support.cli_user import TIDEGATE, Terminal
from support.secret_scan import (
    HOLDERS,
    Scan,
    forms,
    key_secrets,
    keytab_secrets,
    secrets_of,
    wait_for,
)
from support.secured_broker import CLIENT_SECRET, KEY_PASSWORD, PASSWORD, SecuredBroker
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.launch import jars, token_settings
from tidegate_local.ports import free_port

TESTS = Path(__file__).parents[2]
RECORDS = 400
WAYS = (
    "plain", "scram-512", "ssl-certificate", "ssl-keystore", "ssl-texts", "oauth-client",
    "oauth-file", "oauth-callable", "kerberos", "kerberos-cache", "delegation-token",
)  # fmt: skip
"""The ways to log in that have a secret, each kind of it once."""
WRONG = {
    "sasl.password": "NotAuthenticated",
    "sasl.oauthbearer.client.secret": "NotAuthenticated",
    "ssl.key.password": "ConfigurationError",
    "ssl.keystore.password": "ConfigurationError",
}
"""By each secret that a user may mistype, the error of a wrong one."""
RUNNING = "temporary files while it runs"
SEEN = (
    "command lines", "environment", HOLDERS, "stdout", "stderr", "message of a failure",
    "Spark's UI", "Spark's REST API", "Spark's output", "event log", RUNNING, "Kafka's log",
    "lake, log", "lake, plans",
)  # fmt: skip
"""Places that name pipeline or topic: if these are not found there, nothing was looked at."""
DONE = ("lake, staging", "lake, reports")
"""Those of a run that was finished."""


@dataclass
class Watched:
    """A terminal whose processes, pages and files are looked at; `name` is that of its pipeline
    and of its topic, and the control of the scan.
    """

    secured: SecuredBroker
    terminal: Terminal
    scan: Scan
    port: int = field(default_factory=free_port)
    modes: set[tuple[str, int]] = field(default_factory=set)
    given: list[bytes] = field(default_factory=list)
    """The connections that the commands had."""

    @property
    def name(self) -> str:
        return self.scan.control

    @property
    def temporary(self) -> Path:
        return self.terminal.home / "tmp"

    def prepare(self) -> None:
        """Write an ingest and an egress pipeline, with an event log and a UI; fill the topic."""
        events = self.terminal.home / "events"
        for directory in (self.temporary, events, self.terminal.lake):
            directory.mkdir()
        (self.temporary / "control").write_text(self.name)
        conf = {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self.port),
            "spark.log.level": "INFO",
            "spark.redaction.regex": "(?i)ssn",  # in the place of Spark's pattern for secrets
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",  # to be searched
            "spark.eventLog.dir": events.as_uri(),
        }
        topic_records.numbers(self.secured.admin, self.name, RECORDS, partitions=2)
        topic_records.create(self.secured.admin, f"{self.name}-out", partitions=2)
        spark = {"conf": conf}
        self.terminal.pipeline(self.name, [self.name], max_records=RECORDS // 2, spark=spark)
        target = {"topic": f"{self.name}-out"}
        self.terminal.egress(
            f"{self.name}_out", source={"lake": self.name}, target=target, spark=spark
        )

    def run(
        self,
        *args: str,
        at: str = "",
        meanwhile: Callable[[], object] = lambda: None,
        code: int | None = 0,
        fault: str = "",
    ) -> str:
        """Run a command, and return its stdout; let it wait at a fault point for a closer look."""
        gate = self.terminal.home / f"{at}-{secrets.token_hex(2)}"
        out, err = (self.terminal.home / f"{gate.name}.{kind}" for kind in ("out", "err"))
        java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={self.temporary}"
        env = self.terminal.env(
            **self.secured.environ,
            PYTHONPATH=os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            TMPDIR=str(self.temporary),
            SPARK_LOCAL_DIRS=str(self.temporary),
            JDK_JAVA_OPTIONS=java,
            TIDEGATE_TEST=self.name,
            TIDEGATE_FAULT=f"{at}:wait={gate}" if at else fault,
        )
        self.given.append(env["AIRFLOW_CONN_KAFKA_DEFAULT"].encode())
        # As on a machine where core dumps are on.
        command = ["sh", "-c", 'ulimit -S -c "$(ulimit -Hc)"; exec "$0" "$@"', str(TIDEGATE), *args]
        with (
            self.scan.processes(_was_given, self._look_at_private),
            out.open("wb") as stdout,
            err.open("wb") as stderr,
            subprocess.Popen(command, env=env, stdout=stdout, stderr=stderr) as process,
            _ended(process),
        ):
            if at:
                wait_for(
                    lambda: (
                        list(gate.parent.glob(f"{gate.name}.reached.*"))
                        or process.poll() is not None
                    )
                )
                assert process.poll() is None, err.read_text()
                self._look_closer(process.pid)
                meanwhile()
                gate.touch()
            process.wait(400)
        assert code in (None, process.returncode), out.read_text() + err.read_text()
        self.scan.look_at("stdout", " ".join(args), out.read_bytes())
        self.scan.look_at("stderr", " ".join(args), err.read_bytes())
        return out.read_text()

    def _look_closer(self, pid: int) -> None:
        """Look at Spark's pages and temporary files, and at the limit of each process."""
        self.scan.look_at_spark(f"http://127.0.0.1:{self.port}")
        self.scan.look_at_tree("temporary files while it runs", self.temporary)
        limits = {}
        for each in process_list.descendants(pid):
            argv = process_list.command_line(each)
            limit = re.search("Max core file size +(.*) bytes", _proc(each, "limits"))
            if "-XX:-CreateCoredumpOnCrash" not in argv or "SparkSubmit" in argv:
                limits[each, argv] = limit and limit[1].split()
        assert [argv for _, argv in limits if "SparkSubmit" in argv]
        drivers = [argv for _, argv in limits if "SparkSubmit" not in argv]
        assert any(map(process_list.is_job, drivers))
        assert all(limit == ["0", "0"] for limit in limits.values()), limits

    def _look_at_private(self) -> None:
        """Note the modes of the private files; learn the secrets that a job file has."""
        for directory in self.temporary.glob("tidegate-*"):
            for path in (directory, *directory.rglob("*")):
                with contextlib.suppress(OSError, ValueError):  # gone, or not written to the end
                    mode = path.stat().st_mode
                    name = re.sub(r"^kafka-.*\.", "kafka-*.", path.name)
                    kind = "the directory" if path == directory else name
                    self.modes.add((kind, stat.S_IMODE(mode)))
                    if path.name == "job.json":
                        self._learn(json.loads(path.read_text()))

    def _learn(self, job: Mapping[str, Mapping[str, str]]) -> None:
        settings = [job.get("options", {}), job.get("reader", {})]
        settings += [login["settings"] for login in job.get("logins", ())]  # type: ignore[call-overload]
        for each in settings:
            known = self.scan.secrets.values()
            new = {f"{n} {len(known)}": s for n, s in secrets_of(each).items() if s not in known}
            self.scan.add(**new)

    def failure(self, *args: str, at: str = "", fault: str = "",
                meanwhile: Callable[[], object] = lambda: None) -> str:  # fmt: skip
        """Run a command that fails, and return its error's name."""
        printed = self.run(*args, "--json", at=at, fault=fault, meanwhile=meanwhile, code=None)
        error = json.loads(printed)["error"]
        said = f"{self.name}: {error['message']}"
        self.scan.look_at("message of a failure", str(error["name"]), said)
        return str(error["name"])

    def judge(self, *seen: str) -> None:
        """Look at all that is left behind, and assert that no secret is anywhere."""
        self.scan.allowed[HOLDERS] = [
            name
            for name, secret in self.scan.secrets.items()
            if any(form in each for form in forms(secret).values() for each in self.given)
        ]
        for pipeline in self.terminal.lake.iterdir():
            for part in (*pipeline.glob("_tidegate/*"), pipeline / "data"):
                self.scan.look_at_tree(f"lake, {part.name}", part)
        home = self.secured.files.parent
        self.scan.look_at_tree("event log", self.terminal.home / "events")
        self.scan.look_at_tree("Kafka's log", home / "kafka/logs")
        self.scan.look_at("Kerberos's log", "log", (home / "kdc/log").read_bytes())
        for path in (jars.cache_dir() / "logs").glob(f"tidegate-{self.name}*"):
            self.scan.look_at("Spark's output", path.name, path.read_bytes())
        self.scan.nothing_found(seen=(*SEEN, *seen))
        assert not list(self.temporary.glob("tidegate-*"))
        print(f"modes: {sorted((kind, oct(mode)) for kind, mode in self.modes)}")
        assert ("the directory", 0o700) in self.modes
        assert ("job.json", 0o600) in self.modes
        private = ("the directory", "job.json", "kafka-")
        assert all(mode & 0o077 == 0 for kind, mode in self.modes if kind.startswith(private))


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process that the block leaves behind: it may wait for its gate."""
    try:
        yield
    finally:
        process.terminate()


def _was_given(argv: bytes) -> bool:
    """Return whether a process has the user's environment: a command, or the `file -b` with which
    croniter asks, when a command imports it, whether Python has 32 bits.
    """
    return b"/bin/tidegate\0" in argv or argv.startswith(b"file\0-b\0")


def _proc(pid: int, name: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text()
    return ""


def watched(secured: SecuredBroker, home: Path, extra: dict[str, str], name: str) -> Watched:
    terminal = Terminal(home, extra["bootstrap.servers"], extra)
    made = Watched(secured, terminal, Scan(f"control_{name.replace('-', '_')}"))
    made.prepare()
    return made


def known_secrets(secured: SecuredBroker) -> dict[str, bytes]:
    """Return all secrets of all ways to log in, tokens that were issued included."""
    found = {
        "password": PASSWORD.encode(),
        "client secret": CLIENT_SECRET.encode(),
        "password of the key": KEY_PASSWORD.encode(),
        **key_secrets((secured.files / "client.key").read_text()),
        **keytab_secrets(Path(secured.ways["kerberos"]["sasl.kerberos.keytab"])),
    }
    for number, token in enumerate(secured.issuer.issued):
        found[f"token {number}"] = token.encode()
        found[f"signature of token {number}"] = token.rpartition(".")[2].encode()
    return found


def delegation_secrets(extra: Mapping[str, str]) -> dict[str, bytes]:
    """Return the secrets of the user's delegation tokens, as the broker tells their owner."""
    jvm = spark_session.shared()._jvm
    _, (login,) = token_settings.split_logins(KafkaCluster("k", extra), Path("/private"))
    properties = jvm.java.util.Properties()
    properties.put("bootstrap.servers", extra["bootstrap.servers"])
    for name, value in login.settings.items():
        properties.put(name, value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        found = client.describeDelegationToken().delegationTokens().get()
        return {f"delegation token {t.tokenInfo().tokenId()}": bytes(t.hmac()) for t in found}
    finally:
        client.close()


@pytest.mark.slow
def test_a_login_that_is_refused_half_way(secured: SecuredBroker, tmp_path: Path) -> None:
    """The password is changed when one chunk of two is staged."""
    password, user = f'canary "of\\this" & <test> {secrets.token_hex(4)}', "refused-half-way"
    secured.set_password(user, password)
    secured.allow(user, "topic", "*", "DESCRIBE", "READ")
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": user, "sasl_password": password}
    it = watched(secured, tmp_path, secured.connection("LOGIN", **login), user)
    it.scan.add(**{"password": password, "its end": password[-8:]})

    def change() -> None:
        secured.set_password(user, "canary-changed")

    assert it.failure("run", it.name, at="stage.half", meanwhile=change) == "StageFailed"
    assert it.failure("run", it.name) == "NotAuthenticated"
    it.judge()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_secret_of_every_way_to_log_in(
    secured: SecuredBroker, tmp_path: Path, way: str
) -> None:
    """Ingest, egress, verify, doctor, a failure half-way, and a wrong secret."""
    extra = secured.ways[way]
    it = watched(secured, tmp_path, extra, way)
    it.scan.add(**known_secrets(secured))
    if way == "oauth-callable":  # the token of a function is a file while Spark runs
        it.scan.allowed[RUNNING] = ("token 0", "signature of token 0")

    def learn() -> None:
        if way == "delegation-token":
            it.scan.add(**delegation_secrets(extra))

    it.run("run", it.name, at="stage.half", meanwhile=learn)
    it.run("verify", it.name, "--against-kafka")
    it.run("run", f"{it.name}_out", at="send.sent", meanwhile=learn)
    it.run("doctor")
    topic_records.numbers(secured.admin, it.name, RECORDS, first=RECORDS)
    assert it.failure("run", it.name, fault="stage.half:raise") == "StageFailed"
    for setting in WRONG.keys() & extra.keys():
        wrong = f"canary-wrong-{secrets.token_hex(4)}"
        it.scan.add(wrong=wrong)
        it.terminal.extra = {**extra, setting: wrong}
        assert it.failure("run", it.name) == WRONG[setting]
    it.scan.add(**known_secrets(secured))  # tokens were issued meanwhile
    tokens = [name for name in it.scan.secrets if name.startswith("delegation token")]
    assert len(tokens) >= (2 if way == "delegation-token" else 0)
    it.judge(*DONE)
