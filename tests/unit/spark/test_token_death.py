"""What the driver says of a token that is not obtained, or dies; without a JVM."""

import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tidegate.errors import ConfigurationError, NotAuthenticated
from tidegate.spark import delegation_tokens
from tidegate.spark.delegation_tokens import NoToken, Tokens
from tidegate.spark.job_files import Login

LOGIN = Login("a", "Kafka at a:9093 (kafka_a)", {"sasl.jaas.config": "hunter2"})


class Thrown:
    """A Java exception."""

    def __init__(self, name: str, message: str = "", cause: Any = None) -> None:
        self._name, self._message, self._cause = name, message, cause
        self._target_id, self._gateway_client = "o1", SimpleNamespace(garbage_collect_object=id)

    def getClass(self) -> Any:
        last = self._name.rpartition(".")[2]
        return SimpleNamespace(getName=lambda: self._name, getSimpleName=lambda: last)

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> Any:
        return self._cause


def error(*names: str, message: str = "") -> Py4JJavaError:
    """Return what py4j raises for an exception, given with its causes."""
    thrown = None
    for name in reversed(names):
        thrown = Thrown(name, message, thrown)
    return Py4JJavaError("", thrown)


class Token:
    """A token; it counts its renewals, by which it comes to the end of its lifetime."""

    def __init__(self, *, expiry: float, last: float) -> None:
        now = time.time()
        self.login, self.renewals = LOGIN, 0
        self.expiry, self.last = now + expiry, now + last

    def renew(self) -> None:
        self.renewals += 1
        self.expiry = self.last


def token(*, expiry: float, last: float) -> Any:
    return Token(expiry=expiry, last=last)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("SaslAuthenticationException", NotAuthenticated, "check sasl.* and ssl.*"),
        ("SslAuthenticationException", NotAuthenticated, "check sasl.* and ssl.*"),
        ("DelegationTokenDisabledException", ConfigurationError, "delegation.token.secret.key"),
    ],
)
def test_what_a_retry_would_not_mend_is_terminal(name: str, kind: Any, said: str) -> None:
    found = delegation_tokens._terminal(
        error("java.util.concurrent.ExecutionException", f"org.apache.kafka.common.errors.{name}"),
        LOGIN,
    )
    assert type(found) is kind
    assert "Kafka at a:9093 (kafka_a): no delegation token" in str(found)
    assert said in str(found)


def test_a_proxy_user_is_refused_in_sparks_words() -> None:
    words = "requirement failed: Obtaining delegation token for proxy user is not yet supported."
    found = delegation_tokens._terminal(
        error("java.lang.IllegalArgumentException", message=words), LOGIN
    )
    assert isinstance(found, ConfigurationError)
    assert words in str(found)


def test_what_may_pass_is_left_as_it_is() -> None:
    timeout = error("java.util.concurrent.ExecutionException", "o.TimeoutException")
    away = error("o.SaslAuthenticationException", message="GSS: Cannot contact any KDC")
    for each in (timeout, away):
        assert delegation_tokens._terminal(each, LOGIN) is None


@pytest.mark.parametrize(
    ("expiry", "last", "said"),
    [
        (-5, -5, r"expired at .* UTC, the end of its maximum lifetime; a retry obtains a new one"),
        (-5, 900, r"expired at [^,]* UTC; a retry obtains a new one"),
        (900, 900, "is no longer accepted: it was cancelled; a retry obtains a new one"),
    ],
)
def test_a_dead_token_is_named(
    expiry: float, last: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokens, "give_to", lambda *_: None)
    tokens = Tokens([token(expiry=expiry, last=last)])
    refused = "org.apache.kafka.common.errors.SaslAuthenticationException"
    in_executor = error("org.apache.spark.SparkException", message=f"Lost task 0.0: {refused}: …")
    for failure in (error("org.apache.spark.SparkException", refused), in_executor):
        with pytest.raises(NoToken, match=said), tokens.used_by(None):  # type: ignore[arg-type]
            raise failure


def test_another_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tokens, "give_to", lambda *_: None)
    failure = error("org.apache.kafka.common.errors.TimeoutException")
    for tokens in (Tokens([token(expiry=-5, last=-5)]), Tokens()):
        with pytest.raises(Py4JJavaError), tokens.used_by(None):  # type: ignore[arg-type]
            raise failure


def test_a_warning_if_a_token_may_not_live_long_enough(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten minutes, and a second for each 5,000 records."""
    day = token(expiry=86_400, last=86_400)
    with caplog.at_level(logging.WARNING):
        delegation_tokens._warn_if_too_short(day, 5_000 * 85_000)
        assert not caplog.messages
        delegation_tokens._warn_if_too_short(day, 5_000 * 86_000)
    (said,) = caplog.messages
    assert "delegation.token.max.lifetime.ms" in said
    assert "430000000 records may take up to 1d" in said


def test_a_token_is_renewed_in_the_middle_of_its_life() -> None:
    """Not earlier, and not at all once it lives for its maximum."""
    short, long, at_its_end = (token(expiry=e, last=n) for e, n in ((2, 90), (60, 90), (2, 2)))
    ended = threading.Event()
    threading.Timer(3, ended.set).start()
    delegation_tokens._renew([short, long, at_its_end], ended)
    assert (short.renewals, long.renewals, at_its_end.renewals) == (1, 0, 0)


def test_an_admin_client_does_not_wait_a_minute() -> None:
    assert delegation_tokens._patient({}) == {
        "request.timeout.ms": "8000", "default.api.timeout.ms": "15000",
    }  # fmt: skip
    slow = delegation_tokens._patient({"request.timeout.ms": "60000"})
    assert slow["default.api.timeout.ms"] == "60000", "Kafka's client refuses less"
