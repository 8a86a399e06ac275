"""Kerberos: settings, JAAS for Java, and the login of kafka-python by a JVM's SASL client.

The JVM is made up here; a real one with a real KDC is in tests/integration.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import get_sasl_mechanism
from py4j.protocol import Py4JNetworkError

from support.java_errors import java_error
from tidegate.broker import kerberos
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import BrokerUnreachable, ConfigurationError, NotAuthenticated, TidegateError
from tidegate.launch.token_settings import client_options

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
BROKER = {
    "bootstrap.servers": "broker:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
}
LOGIN_EXCEPTION = "javax.security.auth.login.LoginException"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ticket cache, and a krb5.conf."""
    cache, configuration = tmp_path / "cache", tmp_path / "krb5.conf"
    cache.touch()
    configuration.touch()
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    monkeypatch.setenv("KRB5_CONFIG", str(configuration))
    return cache


@pytest.fixture
def keytab(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "alice.keytab"
    path.write_bytes(b"\5\2")
    return BROKER | {
        "sasl.kerberos.keytab": str(path),
        "sasl.kerberos.principal": "alice@EXAMPLE.COM",
    }


def complaints(extra: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("k", extra)
    return [line.removeprefix("  - ") for line in str(refused.value).splitlines()[1:]]


def test_a_keytab_for_spark(keytab: dict[str, str], tmp_path: Path) -> None:
    options = client_options(KafkaSettings("k", keytab), tmp_path)
    path = keytab["sasl.kerberos.keytab"]
    assert options["kafka.sasl.jaas.config"] == (
        f'{MODULE} useKeyTab="true" storeKey="true" keyTab="{path}"'
        ' principal="alice@EXAMPLE.COM" doNotPrompt="true";'
    )
    assert options["kafka.sasl.kerberos.service.name"] == "kafka"
    assert options["kafka.sasl.mechanism"] == "GSSAPI"


def test_a_ticket_cache_for_spark(surroundings: Path, tmp_path: Path) -> None:
    """Java does not read KRB5CCNAME in an executor: the path is given."""
    service = {"sasl.kerberos.service.name": "broker"}
    options = client_options(KafkaSettings("k", BROKER | service), tmp_path)
    assert options["kafka.sasl.jaas.config"] == (
        f'{MODULE} useTicketCache="true" ticketCache="{surroundings}" doNotPrompt="true";'
    )
    assert options["kafka.sasl.kerberos.service.name"] == "broker"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sasl.kerberos.keytab": "/none"}, "/none: No such file or directory"),
        ({"sasl.kerberos.keytab": "/dev/null"}, "/dev/null: not a keytab"),
        ({"sasl.kerberos.keytab": "/tmp"}, "/tmp: Is a directory"),
        ({"sasl.kerberos.keytab": "/none"}, "sasl.kerberos.principal: missing"),
        ({"sasl.kerberos.service.name": "kafka/host"}, "sasl.kerberos.service.name: 'kafka/host'"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, str], expected: str) -> None:
    assert any(expected in told for told in complaints(BROKER | settings))


def test_a_ticket_cache_that_java_cannot_read(
    monkeypatch: pytest.MonkeyPatch, surroundings: Path
) -> None:
    KafkaSettings("k", BROKER)
    monkeypatch.setenv("KRB5CCNAME", "KCM:0")
    assert complaints(BROKER)[0].startswith("KRB5CCNAME: Java reads ticket caches of the kind FILE")
    monkeypatch.setenv("KRB5CCNAME", str(surroundings))
    KafkaSettings("k", BROKER)
    surroundings.unlink()
    (told,) = complaints(BROKER)
    assert f"sasl.kerberos.keytab: missing, and there is no ticket cache {surroundings}" in told
    monkeypatch.setenv("KRB5_CONFIG", "/none/krb5.conf")
    assert complaints(BROKER)[1] == "KRB5_CONFIG: /none/krb5.conf: no such file, or not readable"


class Client:
    """A SASL client of Java that answers each challenge with the next of its messages."""

    def __init__(self, *messages: bytes | Exception) -> None:
        self.messages, self.challenges = list(messages), list[bytes]()

    def evaluateChallenge(self, challenge: bytes) -> bytes:
        self.challenges.append(challenge)
        message = self.messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def isComplete(self) -> bool:
        return not self.messages


def jvm(
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
    login: Callable[[], None] = lambda: None,
) -> list[tuple[Any, ...]]:
    """Put this client into the place of the JVM's; return the arguments that it is made with."""
    made: list[tuple[Any, ...]] = []

    def create(*arguments: Any) -> Client:
        made.append(arguments)
        return client

    packages = SimpleNamespace(
        java=SimpleNamespace(
            lang=SimpleNamespace(String=str), util=SimpleNamespace(HashMap=lambda: "settings")
        ),
        javax=SimpleNamespace(
            security=SimpleNamespace(
                auth=SimpleNamespace(
                    login=SimpleNamespace(LoginContext=lambda _: SimpleNamespace(login=login))
                ),
                sasl=SimpleNamespace(Sasl=SimpleNamespace(createSaslClient=create)),
            )
        ),
    )
    gateway = SimpleNamespace(jvm=packages, new_array=lambda _, n: [None] * n)
    monkeypatch.setattr(kerberos, "start_gateway", lambda _: gateway)
    return made


def mechanism(kafka: KafkaSettings) -> Any:
    """Return kafka-python's mechanism, as it makes one for the broker on `host`."""
    given = kafka.for_python()
    assert given["sasl_mechanism"] == "GSSAPI"
    others = {"sasl_plain_username": None, "security_protocol": "SASL_PLAINTEXT"}
    return get_sasl_mechanism("GSSAPI")(
        host="host", sasl_kerberos_name=given["sasl_kerberos_name"], **others
    )


def test_a_login_of_kafka_python(keytab: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM's messages go to the broker, and its answers to the JVM, until it is complete."""
    client = Client(b"request", b"", b"wrapped")
    made = jvm(monkeypatch, client)
    exchange = mechanism(KafkaSettings("k", keytab))
    sent = []
    for answer in (b"reply", b"layers", b""):
        assert not exchange.is_done()
        sent.append(exchange.auth_bytes())
        exchange.receive(answer)
    assert sent == [b"request", b"", b"wrapped"]
    assert client.challenges == [b"", b"reply", b"layers"]
    assert exchange.is_done()
    assert exchange.is_authenticated()
    assert made == [(["GSSAPI"], None, "kafka", "host", "settings", None)]


@pytest.mark.parametrize(
    ("message", "error", "expected"),
    [
        ("Connection refused", BrokerUnreachable, "the Kerberos KDC does not answer"),
        ("Receive timed out", BrokerUnreachable, "the Kerberos KDC does not answer"),
        ("Cannot contact any KDC for realm 'X'", BrokerUnreachable, "KDC does not answer"),
        ("Unable to obtain password from user\n", NotAuthenticated, "holds no key of"),
        ("Cannot locate KDC", NotAuthenticated, "set KRB5_CONFIG"),
        ("Clock skew too great (37)", NotAuthenticated, "the clocks of this machine"),
        (
            "Integrity check on decrypted field failed (31)",
            NotAuthenticated,
            "no longer the principal's",
        ),
        ("Client not found in Kerberos database (6)", NotAuthenticated, "Kerberos refused the"),
        ("Cannot get a KDC reply", BrokerUnreachable, "KDC does not answer"),
        (None, NotAuthenticated, "LoginException"),
    ],
)
def test_a_login_that_the_kdc_refuses(
    keytab: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    message: str | None,
    error: type[TidegateError],
    expected: str,
) -> None:
    """Before a broker is asked; only a KDC that does not answer is transient."""

    def login() -> None:
        raise java_error((LOGIN_EXCEPTION, message))

    jvm(monkeypatch, Client(), login)
    with pytest.raises(error, match=expected):
        KafkaSettings("k", keytab).for_python()


@pytest.mark.parametrize(
    "cause", [("java.net.PortUnreachableException", None), ("java.net.UnknownHostException", "kdc")]
)
def test_a_kdc_that_is_away(
    keytab: dict[str, str], monkeypatch: pytest.MonkeyPatch, cause: tuple[str, str | None]
) -> None:
    """By UDP, Java's default, or by name: only the class of Java's exception says it."""

    def login() -> None:
        raise java_error((LOGIN_EXCEPTION, "kdc"), cause)

    jvm(monkeypatch, Client(), login)
    with pytest.raises(BrokerUnreachable, match="the Kerberos KDC does not answer"):
        KafkaSettings("k", keytab).for_python()


def test_a_kdc_that_is_silent(keytab: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Java would ask it for 90 seconds: the JVM is given up."""
    ended: list[str] = []

    def login() -> None:
        raise Py4JNetworkError("timed out")

    jvm(monkeypatch, Client(), login)
    monkeypatch.setattr(kerberos, "end_gateway", ended.append)
    with pytest.raises(BrokerUnreachable, match="has not answered for 10 s"):
        KafkaSettings("k", keytab).for_python()
    assert len(ended) == 1


def test_a_service_that_the_kdc_does_not_know(
    keytab: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found while kafka-python connects: as the error of a refused login, with the cause."""
    failed = java_error(
        ("javax.security.sasl.SaslException", "GSS initiate failed"),
        ("org.ietf.jgss.GSSException", "Server not found in Kerberos database (7)"),
    )
    jvm(monkeypatch, Client(failed))
    with pytest.raises(SaslAuthenticationFailedError) as refused:
        mechanism(KafkaSettings("k", keytab))
    assert "<refused: Kerberos refused the login: GSS initiate failed; because of Server" in str(
        refused.value
    )
    assert "check sasl.kerberos.service.name" in str(refused.value)
