"""Errors of Kafka clients, translated into Tidegate's: their own often do not name the cause."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from tidegate.broker import security
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.mechanism import find_refusal
from tidegate.errors import (
    BrokerError,
    BrokerUnreachable,
    NotAuthenticated,
    NotAuthorised,
    UnknownTopic,
)

_UNTRUSTED = re.compile(r"certificate verify failed: ([^\n]{0,500}?)\.?(?: \(_ssl| \(backoff|$)")
_ATTEMPT = re.compile(r"Bootstrap connection to \S+ failed: ([^\n]{0,500}?) \(backoff")
_TLS = re.compile(r"\[SSL: ([A-Z0-9_]+)\]")
_ANSWERED = "Broker version identified"
TIMEOUT_MS = 8_000  # to find a broker, and for one request
REFUSED_FOR = 2.0  # seconds: one of several brokers may refuse what the others accept
FIRST_LINE_AFTER, LINES_APART = 0.9, 1.8  # seconds until, and between, lines about a silent broker
_REFUSALS = 3
_waited_for: set[str] = set()
logger = logging.getLogger(__name__)
# The client's dozens of lines about a connection are in no log: errors have what they say.
logging.getLogger("kafka").propagate = False
logging.getLogger("kafka").setLevel(logging.INFO)
logging.getLogger("kafka").addHandler(logging.NullHandler())


class _ClientLog(logging.Handler):
    """Collects what kafka-python logs while it connects: its exception does not say the cause.

    It would try again until its time is over. If a login, or a certificate, is refused for
    REFUSED_FOR, an error that is raised here ends the attempts: the line about one is logged
    between them. While several clients connect, none is ended: they share the log.
    """

    connecting = 0

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(logging.INFO)
        self._settings = settings
        self._messages: list[tuple[int | None, str]] = []
        self._refused: list[float] = []  # when
        self._others = {each.ident for each in threading.enumerate()} - {threading.get_ident()}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._messages.append((record.thread, text))
        if not _ATTEMPT.search(text) or record.thread in self._others or self.connecting > 1:
            return
        # A broker that has refused a login may close the next connections before it says so.
        closed = self._refused and "socket disconnected" in text
        if closed or _refusal(self._settings, text):
            self._refused.append(time.monotonic())
            lasted = self._refused[-1] - self._refused[0]
            if len(self._refused) >= _REFUSALS and lasted >= REFUSED_FOR:
                raise kafka_errors.KafkaTimeoutError("refused")  # the messages say how

    def about(self, servers: str) -> str:
        """Return the messages of threads that named these servers: others connect too."""
        given = filter(None, map(str.strip, servers.split(",")))
        addresses = [form for each in given for form in (each, re.sub(r"[][]", "", each))]
        threads = {t for t, text in self._messages if any(a in text for a in addresses)}
        return " ".join(text for t, text in self._messages if t in threads)


@contextmanager
def _told(cluster: str) -> Iterator[None]:
    """Log again and again that the block waits for a cluster; of several such blocks, one does."""
    if cluster in _waited_for:
        yield
        return
    answered = threading.Event()

    def tell() -> None:
        began = time.monotonic()
        while not answered.wait(LINES_APART if time.monotonic() - began > 1 else FIRST_LINE_AFTER):
            logger.info("waiting for %s: %.0f s", cluster, time.monotonic() - began)

    _waited_for.add(cluster)
    threading.Thread(target=tell, name="tidegate-waiting", daemon=True).start()
    try:
        yield
    finally:
        answered.set()
        _waited_for.discard(cluster)


@contextmanager
def connection_errors(settings: KafkaSettings) -> Iterator[None]:
    """Translate the errors of opening a client.

    Raises NotAuthenticated if credentials or the TLS handshake failed, else BrokerUnreachable.
    """
    kafka_logger, log = logging.getLogger("kafka"), _ClientLog(settings)
    kafka_logger.addHandler(log)
    _ClientLog.connecting += 1
    try:
        with _told(settings.cluster):
            yield
    except kafka_errors.KafkaError as error:
        messages = log.about(settings.bootstrap_servers) + str(error)
        if refusal := _refusal(settings, messages):
            raise NotAuthenticated(f"{settings.cluster}: {refusal}") from None
        if settings.login_error:
            raise settings.login_error from None
        if unresolved := re.findall(r"DNS lookup failed for (\S+?):\d", messages):
            hosts = ", ".join(dict.fromkeys(unresolved))
            raise BrokerUnreachable(
                f"{settings.cluster}: {hosts} cannot be resolved (DNS), and no other broker "
                f"answered within {TIMEOUT_MS // 1000} s; check bootstrap.servers"
            ) from None
        if "socket disconnected" in messages or "EOF occurred" in messages:
            protocol = settings.extra.get("security.protocol", "PLAINTEXT")
            raise BrokerUnreachable(
                f"{settings.cluster}: the connection was opened, and closed again without an "
                f"answer; check security.protocol (now {protocol}), and that the broker runs"
            ) from None
        raise BrokerUnreachable(
            f"{settings.cluster}: no broker answered within {TIMEOUT_MS // 1000} s; check that it "
            "runs, bootstrap.servers and security.protocol"
        ) from None
    except (OSError, ValueError) as error:
        raise BrokerUnreachable(f"{settings.cluster}: {error}") from None
    finally:
        _ClientLog.connecting -= 1
        kafka_logger.removeHandler(log)


def _refusal(settings: KafkaSettings, messages: str) -> str | None:
    """Return what was refused, by the broker or by this client, and what to check; else None."""
    mechanism = settings.mechanism
    if said := find_refusal(messages):
        return said
    if mechanism and "UnsupportedSaslMechanism" in messages:
        return f"the broker does not offer sasl.mechanism {mechanism.name}"
    # An end without a reason may be that of a proxy whose broker is away.
    reasons = sorted({*_TLS.findall(messages)} - {"UNEXPECTED_EOF_WHILE_READING"})
    # A broker may close the connection before its refusal of a login has been read. A proxy whose
    # broker is away closes it before any answer. One that restarts then refuses most of the others.
    attempts = _ATTEMPT.findall(messages)
    closed = sum("socket disconnected" in each for each in attempts) > len(attempts) / 2
    refused = "SaslAuthenticationFailed" in messages
    if mechanism and (refused or (closed and not reasons and _ANSWERED in messages)):
        other = "" if refused else ", and security.protocol"
        return f"the broker refused the credentials; check {mechanism.check}{other}"
    if "CERTIFICATE_VERIFY_FAILED" in reasons:
        untrusted = _UNTRUSTED.search(messages)
        why = untrusted[1] if untrusted else "it is not trusted"
        is_dated = "expired" in why or "not yet valid" in why
        places = "ssl.ca.location and the host name in the certificate"
        return (
            f"the TLS handshake failed: the broker's certificate is not accepted: {why}; check "
            f"{'its dates, and the clock of this machine' if is_dated else places}"
        )
    if alerts := [each for each in reasons if "ALERT" in each]:
        given = any(name in settings.extra for name in security.CERTIFICATES)
        check = (
            "the client certificate of the connection"
            if given
            else "whether it demands a client certificate (ssl.certificate.location)"
        )
        return f"the broker refused the TLS handshake ({', '.join(alerts)}); check {check}"
    if reasons:
        return f"the TLS handshake failed ({', '.join(reasons)}); check security.protocol"
    return None


@contextmanager
def request_errors(settings: KafkaSettings, operation: str) -> Iterator[None]:
    """Translate the errors of a request. `operation` is the permission that it needs.

    Raises NotAuthorised, which names the operation, UnknownTopic or BrokerError.
    """
    try:
        yield
    except kafka_errors.KafkaError as error:
        if "Authorization" in type(error).__name__:
            message = f"{settings.cluster}: not permitted: {operation}"
            raise NotAuthorised(message, operation=operation) from error
        if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
            raise UnknownTopic(f"{settings.cluster}: {error}") from error
        raise BrokerError(f"{settings.cluster}: {error or type(error).__name__}") from error
