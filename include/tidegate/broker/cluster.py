"""Questions to a Kafka cluster, each in few round trips, each answer or refusal in seconds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import tenacity
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec

from tidegate.broker.client_errors import PATIENCE_MS, cause_of_failure, named
from tidegate.broker.settings import KafkaSettings
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable_records import LATEST_MS
from tidegate.errors import BrokerError, BrokerTooOld, NotAuthorised

NO_SUCH_TOPIC, TOPIC_FORBIDDEN = 3, 29  # Kafka's error codes
OLDEST = "2.8"  # the first with topic ids
_ELECTION = 1.0  # seconds that a new leader may take


@dataclass(frozen=True)
class TopicIdentity:
    """A topic's id, and the leader epoch of each partition; `leaderless` ones have none now."""

    topic_id: str
    epochs: Mapping[int, int]
    leaderless: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Survey:
    """What a cluster has of some topics now; topics that do not exist (for us) are missing.

    Of partitions without a leader there are no watermarks. Epochs are those of the answers that
    the ends came with: nothing below an end was written under a later one.
    `too_late` holds, of logs that have one, the first offset with a timestamp that Spark cannot
    convert.
    """

    cluster_id: str
    identities: Mapping[str, TopicIdentity]
    watermarks: Mapping[str, Mapping[int, Watermarks]]
    too_late: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def topic_ids(self) -> dict[str, str]:
        return {topic: each.topic_id for topic, each in self.identities.items()}

    @property
    def leaderless(self) -> dict[str, list[int]]:
        """The partitions without a leader, of topics that have any."""
        return {
            t: sorted(each.leaderless) for t, each in self.identities.items() if each.leaderless
        }


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
        if any(each.leaderless for each in identities.values()):
            time.sleep(_ELECTION)
            identities = cluster.identities(identities)
        partitions = {
            topic: sorted(each.epochs.keys() - each.leaderless)
            for topic, each in identities.items()
        }
        marks, epochs = cluster.ends(partitions, isolation)
        identities = {t: replace(each, epochs=epochs.get(t, {})) for t, each in identities.items()}
        first = cluster.offsets_at(marks, LATEST_MS + 1)
        too_late = {
            topic: {p: offset for p, offset in offsets.items() if offset is not None}
            for topic, offsets in first.items()
        }
        found: dict[str, Mapping[int, Watermarks]] = {t: marks.get(t, {}) for t in identities}
        return Survey(cluster.id(), identities, found, too_late)


class Cluster:
    """An open connection to one cluster; use it as a context manager."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        with cause_of_failure(settings):
            self.admin = KafkaAdminClient(
                **{"request_timeout_ms": PATIENCE_MS, **settings.for_python()},
                bootstrap_timeout_ms=PATIENCE_MS,
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
                topic_id=topic_id(topic, self._where),
                epochs={p["partition_index"]: p["leader_epoch"] for p in topic["partitions"]},
                leaderless=frozenset(
                    p["partition_index"] for p in topic["partitions"] if p["leader_id"] < 0
                ),
            )
        return found

    def watermarks(
        self, partitions: Mapping[str, Iterable[int]], isolation: str
    ) -> dict[str, dict[int, Watermarks]]:
        """Return log start, end under `isolation`, and high watermark of each partition."""
        return self.ends(partitions, isolation)[0]

    def ends(
        self, partitions: Mapping[str, Iterable[int]], isolation: str
    ) -> tuple[dict[str, dict[int, Watermarks]], dict[str, dict[int, int]]]:
        """Return the watermarks, and the leader epochs that came with the ends."""
        asked = [TopicPartition(t, p) for t, ps in partitions.items() for p in ps]
        with self.refusals("DESCRIBE on the topics"):
            starts = self._offsets(asked, OffsetSpec.EARLIEST, "read_uncommitted")
            highs = self._offsets(asked, OffsetSpec.LATEST, "read_uncommitted")
            ends = highs
            if isolation == "read_committed":
                ends = self._offsets(asked, OffsetSpec.LATEST, isolation)
        marks: dict[str, dict[int, Watermarks]] = {}
        epochs: dict[str, dict[int, int]] = {}
        for tp in asked:
            end = ends[tp].offset
            marks.setdefault(tp.topic, {})[tp.partition] = Watermarks(
                starts[tp].offset, end, max(highs[tp].offset, end)
            )
            if ends[tp].leader_epoch is not None:
                epochs.setdefault(tp.topic, {})[tp.partition] = ends[tp].leader_epoch
        return marks, epochs

    def offsets_at(
        self, partitions: Mapping[str, Iterable[int]], timestamp_ms: int
    ) -> dict[str, dict[int, int | None]]:
        """Return the first offset at or after a moment; None where no record is that late.

        Before 1970, and so in Kafka before any record, that is the log start: negative timestamps
        have other meanings in its protocol (-1 is the end).
        """
        since = OffsetSpec.EARLIEST if timestamp_ms < 0 else timestamp_ms
        asked = {TopicPartition(t, p): since for t, ps in partitions.items() for p in ps}
        with self.refusals("DESCRIBE on the topics"):
            answer = self.admin.list_partition_offsets(asked)
        found: dict[str, dict[int, int | None]] = {}
        for tp in asked:
            offset = answer[tp].offset
            found.setdefault(tp.topic, {})[tp.partition] = None if offset < 0 else offset
        return found

    def topics(self) -> list[str]:
        """Return the names of all topics that may be described."""
        with self.refusals("DESCRIBE on the topics"):
            return sorted(self.admin.list_topics())

    def version(self) -> str:
        """Return the version of the brokers, as far as their protocol tells it."""
        with self.refusals("DESCRIBE on the cluster"):
            broker = self.admin.describe_cluster()["brokers"][0]["broker_id"]
            return str(self.admin.get_broker_version_data(broker).broker_version_str)

    def operations(self, topics: Iterable[str]) -> dict[str, set[str]]:
        """Return what this user may do with each topic that it may describe."""
        with self.refusals("DESCRIBE on the topics"):
            described = self.admin.describe_topics(sorted(topics))
        return {
            topic["name"]: set(topic["authorized_operations"])
            for topic in described
            if not topic["error_code"]
        }

    def kept_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """Return how long records are kept, in ms; None where time does not decide."""
        names = {"cleanup.policy": None, "retention.ms": None}
        asked = [ConfigResource("TOPIC", topic, names) for topic in sorted(topics)]
        operation = "DESCRIBE_CONFIGS on the topics"
        with self.refusals(operation):
            found = self.admin.describe_configs(asked, config_filter="all").get("topic", {})
        if not all(config.keys() >= names.keys() for config in found.values()):
            # kafka-python passes over the broker's refusal, and returns no settings.
            raise NotAuthorised(f"{self._where}: not permitted: {operation}", operation=operation)
        return {
            topic: int(ms) if "delete" in policy and ms != "-1" else None
            for topic, config in found.items()
            for policy, ms in [(config[name]["value"] for name in names)]
        }

    def _offsets(
        self, asked: list[TopicPartition], spec: OffsetSpec, isolation: str
    ) -> Mapping[TopicPartition, Any]:
        """Return offsets, each with the leader epoch of the answer."""
        if not asked:
            return {}
        answer: Mapping[TopicPartition, Any] = self.admin.list_partition_offsets(
            dict.fromkeys(asked, spec), isolation
        )
        return answer

    @property
    def _where(self) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} ({self._settings.connection})"

    @contextmanager
    def refusals(self, operation: str) -> Iterator[None]:
        """Turn what the broker refuses into an error that names the operation it denied."""
        try:
            yield
        except kafka_errors.KafkaError as error:
            raise named(error, self._where, operation) from error


def topic_id(described: Mapping[str, Any], where: str) -> str:
    """Return a described topic's id; BrokerTooOld where brokers have none."""
    found = described.get("topic_id")
    if found is None or uuid.UUID(str(found)).int == 0:
        raise BrokerTooOld(
            f"{where}: topic {described['name']} has no topic id: without one, a recreated topic "
            f"cannot be told from the one that was read. Tidegate needs brokers of {OLDEST} or "
            f"later, with an inter-broker protocol or metadata version of {OLDEST} or later",
            needed=OLDEST,
        )
    return str(uuid.UUID(str(found)))


@dataclass(frozen=True)
class Probe:
    """What an independent consumer found in a hole: nothing, a record, or no proof any more."""

    hole: OffsetRange
    outcome: Literal["empty", "visible", "unprovable"]
    offset: int | None = None  # of the first visible record


def probe(
    settings: KafkaSettings, holes: Iterable[OffsetRange], isolation: str, *, patience: float = 10.0
) -> list[Probe]:
    """Look into holes with a consumer of its own; BrokerError when one does not get on.

    A hole is empty only when the consumer's position has passed its end, or its first record does.
    `patience` is how many seconds a position may stand still: a large aborted transaction takes as
    long as its bytes take to arrive. The consumer skips its batches by the broker's list of
    aborted transactions, which comes with each answer.
    """
    with cause_of_failure(settings):
        consumer = KafkaConsumer(
            **settings.for_python(),
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            bootstrap_timeout_ms=PATIENCE_MS,
        )
    try:
        return [_probe_one(consumer, hole, patience) for hole in holes]
    except kafka_errors.KafkaError as error:
        where = f"Kafka at {settings.bootstrap_servers} ({settings.connection})"
        raise named(error, where, "READ on the topic") from error
    finally:
        consumer.close()


def _probe_one(consumer: Any, hole: OffsetRange, patience: float) -> Probe:
    partition = TopicPartition(hole.topic, hole.partition)
    consumer.assign([partition])
    consumer.seek(partition, hole.start)
    at, give_up = hole.start, time.monotonic() + patience
    while time.monotonic() < give_up:
        try:
            records = consumer.poll(timeout_ms=200, max_records=1).get(partition, [])
        except kafka_errors.OffsetOutOfRangeError:
            return Probe(hole, "unprovable")
        if records:
            offset = records[0].offset
            found = offset < hole.end
            return Probe(hole, "visible", offset) if found else Probe(hole, "empty")
        position = consumer.position(partition)
        if position >= hole.end:
            return Probe(hole, "empty")
        if position > at:
            at, give_up = position, time.monotonic() + patience
    raise BrokerError(
        f"{hole}: no progress past offset {at} in {patience:.0f} s, so nobody knows whether it "
        "holds a record; try again",
        position=at,
    )
