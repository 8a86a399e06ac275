"""Why a Kafka client failed, by our names: its own exceptions often do not say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from tidegate.broker.settings import KafkaSettings
from tidegate.errors import (
    BrokerError,
    BrokerUnreachable,
    NotAuthenticated,
    NotAuthorised,
    TidegateError,
    UnknownTopic,
)

PATIENCE_MS = 8_000  # to find a broker, and for one request


class _Listener(logging.Handler):
    """Keeps what kafka-python logs while it connects: its exception does not say the cause."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._heard: list[tuple[int | None, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append((record.thread, record.getMessage()))

    def about(self, servers: str) -> str:
        """Return what was said by the threads that spoke of these servers: others connect too."""
        addresses = [each.strip() for each in servers.split(",")]
        threads = {t for t, said in self._heard if any(a in said for a in addresses)}
        return " ".join(said for t, said in self._heard if t in threads)


@contextmanager
def cause_of_failure(settings: KafkaSettings) -> Iterator[None]:
    """Name what keeps a client from connecting, from what it logs meanwhile."""
    where = f"Kafka at {settings.bootstrap_servers} ({settings.connection})"
    kafka_log = logging.getLogger("kafka")
    listener = _Listener()
    kafka_log.addHandler(listener)
    try:
        yield
    except kafka_errors.KafkaError as error:
        said = listener.about(settings.bootstrap_servers) + str(error)
        # A broker may hang up before its refusal of a login has been read.
        hung_up = "sasl.mechanism" in settings.extra and "socket disconnected" in said
        if "SaslAuthenticationFailed" in said or hung_up:
            raise NotAuthenticated(
                f"{where}: the broker refused the credentials; check sasl.mechanism, sasl.username "
                "and sasl.password of the connection"
            ) from None
        if "certificate" in said.lower() or "SSL" in said:
            raise NotAuthenticated(
                f"{where}: the TLS handshake failed; check ssl.ca.location and the host name in "
                "the broker's certificate"
            ) from None
        raise BrokerUnreachable(
            f"{where}: no broker answered within {PATIENCE_MS // 1000} s; check that it runs, "
            "bootstrap.servers and security.protocol",
        ) from None
    except (OSError, ValueError) as error:
        raise BrokerUnreachable(f"{where}: {error}") from None
    finally:
        kafka_log.removeHandler(listener)


def named(error: kafka_errors.KafkaError, where: str, operation: str) -> TidegateError:
    """Return a client's error by our name; `operation` is what may be forbidden."""
    name = type(error).__name__
    if "Authorization" in name:
        return NotAuthorised(f"{where}: not permitted: {operation}", operation=operation)
    if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
        return UnknownTopic(f"{where}: {error}")
    return BrokerError(f"{where}: {error or name}")
