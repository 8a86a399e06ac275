"""Why a client could not be opened: found in what kafka-python logs, for its error does not say."""

import logging
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from support.certificates import Authority
from tidegate.broker import client_errors
from tidegate.broker.client_errors import connection_errors
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import BrokerUnreachable, NotAuthenticated, TidegateError

TLS = {"bootstrap.servers": "b-1:9093,b-2:9093", "security.protocol": "SSL"}
CLIENT = Authority.create().client("alice")
MUTUAL = TLS | {"ssl.certificate.pem": CLIENT.chain_pem, "ssl.key.pem": CLIENT.key_pem()}
LOGIN = {
    "bootstrap.servers": "b-1:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
    "sasl.username": "u", "sasl.password": "hunter2",
}  # fmt: skip
TOKEN = {key: LOGIN[key] for key in ("bootstrap.servers", "security.protocol")} | {
    "sasl.mechanism": "OAUTHBEARER", "tidegate.oauthbearer.token.callable": "acme:token",
}  # fmt: skip
VERIFY = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed:"
REFUSED = "SaslAuthenticationFailedError: no"
# Part of any message about a connection with TLS: no sign of an error.
TRANSPORT = "<KafkaSSLTransport [10.0.0.1:9093<-5432]>: Abort"

ANSWERED = "b-1:9093: Broker version identified as 4.3"


def fail(*messages: str) -> None:
    """Log as kafka-python does, and give up."""
    for message in messages:
        logging.getLogger("kafka.net.manager").error("%s", message)
    raise KafkaTimeoutError("Unable to bootstrap")


def error_of(extra: dict[str, Any], *messages: str) -> TidegateError:
    """Return the error if the client logs this, about one of its brokers, and gives up."""
    named = "Initializing connection for node_id bootstrap-0 at b-1:9093 (rack=None)"
    failed_attempt = "Bootstrap connection to bootstrap-0 failed: {} (backoff 0.05 secs)"
    with pytest.raises(TidegateError) as failed, connection_errors(KafkaSettings("k", extra)):
        fail(named, *map(failed_attempt.format, messages))
    assert "hunter2" not in str(failed.value)
    return failed.value


@pytest.mark.parametrize(
    ("extra", "message", "expected"),
    [
        (LOGIN, "SaslAuthenticationFailedError: no", "check sasl.mechanism, sasl.username and"),
        (
            LOGIN,
            f"{ANSWERED} failed: {TRANSPORT} (socket disconnected)",
            "the broker refused the credentials; check .*, and security.protocol",
        ),
        (TOKEN, "SaslAuthenticationFailedError: no", "check the token: its issuer, audience"),
        (LOGIN, "UnsupportedSaslMechanismError", "the broker does not offer sasl.mechanism PLAIN"),
        (
            LOGIN,
            "SaslAuthenticationFailedError: <refused: Kerberos refused the login: Clock skew>",
            r"\(k\): Kerberos refused the login: Clock skew$",
        ),
        (
            TLS,
            f"{VERIFY} unable to get local issuer certificate (_ssl.c:1006)",
            "is not accepted: unable to get local issuer certificate; check ssl.ca.location",
        ),
        (
            TLS,
            f"{VERIFY} Hostname mismatch, certificate is not valid for 'b-1'. (_ssl.c:1006)",
            "certificate is not valid for 'b-1'; check ssl.ca.location and the host name",
        ),
        (
            LOGIN,
            f"{VERIFY} certificate has expired (_ssl.c:1)",
            "certificate has expired; check its dates, and the clock",
        ),
        (
            TLS,
            f"{TRANSPORT} ([SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x (_ssl.c:1))",
            "whether it demands a client certificate",
        ),
        (
            MUTUAL,
            "[SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN] x (_ssl.c:1)",
            r"\(SSLV3_ALERT_CERTIFICATE_UNKNOWN\); check the client certificate",
        ),
        (
            TLS,
            "[SSL: WRONG_VERSION_NUMBER] x",
            r"\(WRONG_VERSION_NUMBER\); check security.protocol",
        ),
    ],
)
def test_a_refusal_is_named_with_its_cause(
    extra: dict[str, Any], message: str, expected: str
) -> None:
    error = error_of(extra, message)
    assert isinstance(error, NotAuthenticated)
    with pytest.raises(NotAuthenticated, match=expected):
        raise error


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (TLS, "Connection failed: [Errno 111] Connection refused"),
        (TLS, f"{TRANSPORT} (KafkaTimeoutError: request timed out)"),
        (TLS, f"{TRANSPORT} (socket disconnected)"),
        (TLS, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c)"),
        (LOGIN, "Connection failed: [Errno 111] Connection refused"),
        (LOGIN, f"{TRANSPORT} (KafkaTimeoutError: request timed out)"),
        (LOGIN, f"{TRANSPORT} (socket disconnected)"),
    ],
)
def test_a_broker_that_is_away_is_transient(extra: dict[str, Any], message: str) -> None:
    """Whatever the names in the log: that a connection has TLS is no refusal."""
    error = error_of(extra, message)
    assert isinstance(error, BrokerUnreachable)
    closed = "disconnected" in message or "EOF" in message
    assert ("opened, and closed again" in str(error)) == closed


def test_a_broker_that_restarts_has_not_refused_a_login() -> None:
    """It closes a connection, and then takes none; one that refuses closes them all."""
    closed, refused = f"{ANSWERED}; socket disconnected", "unable to connect: 111"
    restarts = error_of(LOGIN, closed, *[refused] * 5)
    assert isinstance(restarts, BrokerUnreachable)
    assert isinstance(error_of(LOGIN, *[closed] * 5, refused), NotAuthenticated)


@pytest.mark.parametrize("servers", ["a.invalid:9092", "a.invalid:1,127.0.0.1:1"])
def test_a_host_name_that_does_not_resolve_is_named(servers: str) -> None:
    """Also one of several."""
    kafka = KafkaSettings("k", {"bootstrap.servers": servers})
    with (
        pytest.raises(BrokerUnreachable, match=r"a\.invalid cannot be resolved"),
        connection_errors(kafka),
    ):
        fail(f"DNS lookup failed for {servers.partition(',')[0]}, gaierror()")


def test_a_login_that_another_client_failed_is_not_ours() -> None:
    """Two clients connect at once, in threads of their own; each has its own log."""
    with pytest.raises(BrokerUnreachable), connection_errors(KafkaSettings("k", LOGIN)):
        fail("c-9:9093: SaslAuthenticationFailedError")


def test_a_token_that_could_not_be_had_while_connecting_is_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kafka-python asks for it in a thread of its own, and says that no broker answered."""
    answers: list[str | OSError] = ["first", OSError("hunter2"), OSError("hunter2"), "later"]

    def token() -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    module = ModuleType("acme")
    vars(module)["token"] = token
    monkeypatch.setitem(sys.modules, "acme", module)
    kafka = KafkaSettings("k", TOKEN)
    provider = kafka.for_python()["sasl_oauth_token_provider"]

    def connect(logged: str) -> None:
        with suppress(BrokerUnreachable):
            provider.token()
        fail(logged)

    causes = []
    for logged in ("no token", "b-1:9093: SaslAuthenticationFailedError", "no answer"):
        with pytest.raises(TidegateError) as failed, connection_errors(kafka):
            connect(logged)
        assert "hunter2" not in str(failed.value)
        causes.append(str(failed.value))
    assert "acme:token failed: OSError" in causes[0]
    assert "the broker refused the credentials" in causes[1]
    assert "no broker answered" in causes[2]


def attempts_until_the_end(first: str, said: str, error: str = "Kafka") -> int:
    """Return after how many of nine attempts the client is ended."""
    log = logging.getLogger("kafka.net.manager")
    tried = []

    def connect() -> None:
        log.info("Attempting bootstrap to bootstrap-0 at b-1:9093 (rack None)")
        for n in range(9):
            tried.append(n)
            why = said if n else first
            log.warning("Bootstrap connection to bootstrap-0 failed: %s (backoff 0.1 secs)", why)
        raise KafkaTimeoutError("Unable to bootstrap")

    with pytest.raises(TidegateError, match=error), connection_errors(KafkaSettings("k", LOGIN)):
        connect()
    return len(tried)


@pytest.mark.parametrize(
    ("first", "said", "attempts", "error"),
    [
        (REFUSED, REFUSED, 3, "sasl.password"),
        (REFUSED, "socket disconnected", 3, "sasl.password"),
        ("socket disconnected", "socket disconnected", 9, "without an answer"),
        (VERIFY, VERIFY, 3, "certificate is not accepted"),
        ("no route", "no route", 9, "no broker answered"),
    ],
)
def test_what_is_refused_is_not_tried_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, first: str, said: str, attempts: int, error: str
) -> None:
    monkeypatch.setattr(client_errors, "REFUSED_FOR", 0.0)
    assert attempts_until_the_end(first, said, error) == attempts


def test_a_refusal_must_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several brokers may refuse what the others accept, and is drawn by chance."""
    assert attempts_until_the_end(REFUSED, REFUSED) == 9
    monkeypatch.setattr(client_errors, "REFUSED_FOR", 0.0)
    assert attempts_until_the_end(REFUSED, REFUSED) == 3


def test_of_several_clients_none_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals in the log may be another one's."""
    monkeypatch.setattr(client_errors, "REFUSED_FOR", 0.0)
    with connection_errors(KafkaSettings("other", LOGIN)):
        assert attempts_until_the_end(REFUSED, REFUSED) == 9
