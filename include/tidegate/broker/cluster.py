"""Questions to a Kafka cluster, each in few round trips, each answer or refusal in seconds."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import tenacity
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient, OffsetSpec

from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import OffsetRange
from tidegate.core.planning import Watermarks
from tidegate.errors import (
    BrokerError,
    BrokerUnreachable,
    NotAuthenticated,
    NotAuthorised,
    TidegateError,
    UnknownTopic,
)

_PATIENCE_MS = 8_000  # to find a broker, and for one request
NO_SUCH_TOPIC, TOPIC_FORBIDDEN = 3, 29  # Kafka's error codes

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TopicIdentity:
    """A topic's id, and the leader epoch of each of its partitions."""

    topic_id: str
    epochs: Mapping[int, int]


@dataclass(frozen=True)
class Survey:
    """What a cluster has of some topics now; topics that do not exist (for us) are missing."""

    cluster_id: str
    identities: Mapping[str, TopicIdentity]
    watermarks: Mapping[str, Mapping[int, Watermarks]]

    @property
    def topic_ids(self) -> dict[str, str]:
        return {topic: each.topic_id for topic, each in self.identities.items()}


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(BrokerError),  # connecting has a patience of its own
    stop=tenacity.stop_after_attempt(3),
    wait=tenacity.wait_exponential(multiplier=0.5),
    reraise=True,
)
def survey(settings: KafkaSettings, topics: Iterable[str], isolation: str) -> Survey:
    """Ask for cluster id, topic ids and watermarks in one connection, three times at most."""
    with Cluster(settings) as cluster:
        identities = cluster.identities(topics)
        partitions = {topic: sorted(each.epochs) for topic, each in identities.items()}
        return Survey(cluster.id(), identities, cluster.watermarks(partitions, isolation))


class Cluster:
    """An open connection to one cluster; use it as a context manager."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        with _cause_of_failure(settings):
            self.admin = KafkaAdminClient(
                **{"request_timeout_ms": _PATIENCE_MS, **settings.for_python()},
                bootstrap_timeout_ms=_PATIENCE_MS,
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def id(self) -> str:
        """Return the cluster id."""
        with self.refusals("DESCRIBE on the cluster"):
            return str(self.admin.describe_cluster()["cluster_id"])

    def identities(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """Return the topics that exist and may be described; others are missing from the answer."""
        with self.refusals("DESCRIBE on the topics"):
            described = self.admin.describe_topics(sorted(topics))
        found = {}
        for topic in described:
            code = topic["error_code"]
            if code in (NO_SUCH_TOPIC, TOPIC_FORBIDDEN):
                continue
            if code:
                raise BrokerError(f"{topic['name']}: {kafka_errors.for_code(code).__name__}")
            found[topic["name"]] = TopicIdentity(
                topic_id=str(uuid.UUID(str(topic["topic_id"]))),
                epochs={p["partition_index"]: p["leader_epoch"] for p in topic["partitions"]},
            )
        return found

    def watermarks(
        self, partitions: Mapping[str, Iterable[int]], isolation: str
    ) -> dict[str, dict[int, Watermarks]]:
        """Return log start, end under `isolation`, and high watermark of each partition."""
        asked = [TopicPartition(t, p) for t, ps in partitions.items() for p in ps]
        with self.refusals("DESCRIBE on the topics"):
            starts = self._offsets(asked, OffsetSpec.EARLIEST, "read_uncommitted")
            highs = self._offsets(asked, OffsetSpec.LATEST, "read_uncommitted")
            ends = highs
            if isolation == "read_committed":
                ends = self._offsets(asked, OffsetSpec.LATEST, isolation)
        marks: dict[str, dict[int, Watermarks]] = {}
        for tp in asked:
            marks.setdefault(tp.topic, {})[tp.partition] = Watermarks(
                starts[tp], ends[tp], max(highs[tp], ends[tp])
            )
        return marks

    def offsets_at(
        self, partitions: Mapping[str, Iterable[int]], timestamp_ms: int
    ) -> dict[str, dict[int, int | None]]:
        """Return the first offset at or after a moment; None where no record is that late."""
        asked = {TopicPartition(t, p): timestamp_ms for t, ps in partitions.items() for p in ps}
        with self.refusals("DESCRIBE on the topics"):
            answer = self.admin.list_partition_offsets(asked)
        found: dict[str, dict[int, int | None]] = {}
        for tp in asked:
            offset = answer[tp].offset
            found.setdefault(tp.topic, {})[tp.partition] = None if offset < 0 else offset
        return found

    def _offsets(
        self, asked: list[TopicPartition], spec: OffsetSpec, isolation: str
    ) -> dict[TopicPartition, int]:
        answer = self.admin.list_partition_offsets(dict.fromkeys(asked, spec), isolation)
        return {tp: each.offset for tp, each in answer.items()}

    @property
    def _where(self) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} ({self._settings.connection})"

    @contextmanager
    def refusals(self, operation: str) -> Iterator[None]:
        """Turn what the broker refuses into an error that names the operation it denied."""
        try:
            yield
        except kafka_errors.KafkaError as error:
            raise _named(error, self._where, operation) from error


@dataclass(frozen=True)
class Probe:
    """What an independent consumer found in a hole: nothing, a record, or no proof any more."""

    hole: OffsetRange
    outcome: Literal["empty", "visible", "unprovable"]
    offset: int | None = None  # of the first visible record


def probe(
    settings: KafkaSettings, holes: Iterable[OffsetRange], isolation: str, *, patience: float = 10.0
) -> list[Probe]:
    """Look into holes with a consumer of its own; BrokerError when it cannot finish in time.

    A hole is empty only when the consumer's position has passed its end, or its first record does.
    `patience` is in seconds for each hole.
    """
    with _cause_of_failure(settings):
        consumer = KafkaConsumer(
            **settings.for_python(),
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            bootstrap_timeout_ms=_PATIENCE_MS,
        )
    try:
        return [_probe_one(consumer, hole, patience) for hole in holes]
    except kafka_errors.KafkaError as error:
        where = f"Kafka at {settings.bootstrap_servers} ({settings.connection})"
        raise _named(error, where, "READ on the topic") from error
    finally:
        consumer.close()


def _probe_one(consumer: Any, hole: OffsetRange, patience: float) -> Probe:
    partition = TopicPartition(hole.topic, hole.partition)
    consumer.assign([partition])
    consumer.seek(partition, hole.start)
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        try:
            records = consumer.poll(timeout_ms=200, max_records=1).get(partition, [])
        except kafka_errors.OffsetOutOfRangeError:
            return Probe(hole, "unprovable")
        if records:
            offset = records[0].offset
            found = offset < hole.end
            return Probe(hole, "visible", offset) if found else Probe(hole, "empty")
        if consumer.position(partition) >= hole.end:
            return Probe(hole, "empty")
    raise BrokerError(
        f"{hole}: no answer in {patience:.0f} s whether it holds a record; try again",
        position=consumer.position(partition),
    )


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
def _cause_of_failure(settings: KafkaSettings) -> Iterator[None]:
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
            f"{where}: no broker answered within {_PATIENCE_MS // 1000} s; check that it runs, "
            "bootstrap.servers and security.protocol",
        ) from None
    except (OSError, ValueError) as error:
        raise BrokerUnreachable(f"{where}: {error}") from None
    finally:
        kafka_log.removeHandler(listener)


def _named(error: kafka_errors.KafkaError, where: str, operation: str) -> TidegateError:
    name = type(error).__name__
    if "Authorization" in name:
        return NotAuthorised(f"{where}: not permitted: {operation}", operation=operation)
    if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
        return UnknownTopic(f"{where}: {error}")
    return BrokerError(f"{where}: {error or name}")
