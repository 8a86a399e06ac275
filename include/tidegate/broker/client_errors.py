"""Errors of Kafka clients, translated into Tidegate's: their own often do not name the cause."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import (
    BrokerError,
    BrokerUnreachable,
    NotAuthenticated,
    NotAuthorised,
    UnknownTopic,
)

TIMEOUT_MS = 8_000  # to find a broker, and for one request
# The client's dozens of lines about a connection are in no log: errors have what they say.
logging.getLogger("kafka").propagate = False
logging.getLogger("kafka").addHandler(logging.NullHandler())


class _ClientLog(logging.Handler):
    """Collects what kafka-python logs while it connects: its exception does not say the cause."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._messages: list[tuple[int | None, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append((record.thread, record.getMessage()))

    def about(self, servers: str) -> str:
        """Return the messages of threads that named these servers: others connect too."""
        addresses = [address.strip() for address in servers.split(",")]
        threads = {t for t, text in self._messages if any(a in text for a in addresses)}
        return " ".join(text for t, text in self._messages if t in threads)


@contextmanager
def connection_errors(settings: KafkaSettings) -> Iterator[None]:
    """Translate the errors of opening a client.

    Raises NotAuthenticated if credentials or the TLS handshake failed, else BrokerUnreachable.
    """
    kafka_logger, log = logging.getLogger("kafka"), _ClientLog()
    kafka_logger.addHandler(log)
    try:
        yield
    except kafka_errors.KafkaError as error:
        messages = log.about(settings.bootstrap_servers) + str(error)
        # A broker may close the connection before its refusal of a login has been read.
        closed = "sasl.mechanism" in settings.extra and "socket disconnected" in messages
        if "SaslAuthenticationFailed" in messages or closed:
            raise NotAuthenticated(
                f"{settings.cluster}: the broker refused the credentials; check sasl.mechanism, "
                "sasl.username and sasl.password of the connection"
            ) from None
        if "certificate" in messages.lower() or "SSL" in messages:
            raise NotAuthenticated(
                f"{settings.cluster}: the TLS handshake failed; check ssl.ca.location and the host "
                "name in the broker's certificate"
            ) from None
        if unresolved := re.findall(r"DNS lookup failed for (\S+?):\d", messages):
            hosts = ", ".join(dict.fromkeys(unresolved))
            raise BrokerUnreachable(
                f"{settings.cluster}: {hosts} cannot be resolved (DNS), and no other broker "
                f"answered within {TIMEOUT_MS // 1000} s; check bootstrap.servers"
            ) from None
        raise BrokerUnreachable(
            f"{settings.cluster}: no broker answered within {TIMEOUT_MS // 1000} s; check that it "
            "runs, bootstrap.servers and security.protocol",
        ) from None
    except (OSError, ValueError) as error:
        raise BrokerUnreachable(f"{settings.cluster}: {error}") from None
    finally:
        kafka_logger.removeHandler(log)


@contextmanager
def request_errors(settings: KafkaSettings, operation: str) -> Iterator[None]:
    """Translate the errors of a request; `operation` is the permission that it needs.

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
