"""Requests to a Kafka cluster about its topics. Each answers, or fails, within seconds."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import tenacity
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.protocol.metadata import MetadataRequest

from tidegate.broker import bootstrap_servers
from tidegate.broker.client_errors import TIMEOUT_MS, connection_errors, request_errors
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.throttling import PatientConnections
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.nearest import did_you_mean
from tidegate.core.unreadable_records import LATEST_MS
from tidegate.errors import BrokerError, BrokerTooOld, BrokerUnreachable, TidegateError

_DESCRIBE = "DESCRIBE on the topics"
_NO_SUCH_TOPIC, _TOPIC_FORBIDDEN = 3, 29  # Kafka's error codes
_OLDEST = "2.8"  # the first version with topic ids
_TOPIC_IDS = 10  # the first version of Metadata answers that have them
_TRIES = 3
_ELECTION = 1.0  # seconds that the election of a new leader may take

logger = logging.getLogger(__name__)


def with_retries(settings: KafkaSettings, request: str, least: int = 1) -> tenacity.Retrying:
    """Return what tries a request as often as `settings` say, as Spark does for its look-ups, and
    `least` times. Each try that fails is logged by the words of `request`.

    Connecting has a patience of its own, and is tried again only if they say how often.
    """
    most = max(settings.tries or _TRIES, least)

    def log(state: tenacity.RetryCallState) -> None:
        error = state.outcome and state.outcome.exception()
        logger.warning(
            "%s failed: try %d of %d; the next in %g s: %s: %s",
            request, state.attempt_number, most, settings.pause, type(error).__name__, error,
        )  # fmt: skip

    again = BrokerError if settings.tries is None else (BrokerError, BrokerUnreachable)
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(again),
        stop=tenacity.stop_after_attempt(most),
        wait=tenacity.wait_fixed(settings.pause),
        before_sleep=log,
        reraise=True,
    )


def survey(settings: KafkaSettings, topics: Iterable[str], isolation: str) -> Survey:
    """Return cluster id, topic ids and watermarks, by one connection. Tried several times."""
    return with_retries(settings, "the look-up of topics and offsets")(
        survey_once, settings, tuple(topics), isolation
    )


def survey_once(settings: KafkaSettings, topics: Iterable[str], isolation: str) -> Survey:
    with Cluster(settings) as cluster:
        identities = cluster.identities(topics)
        if any(each.leaderless for each in identities.values()):
            time.sleep(_ELECTION)
            identities = cluster.identities(identities)
        partitions = {
            topic: sorted(each.epochs.keys() - each.leaderless)
            for topic, each in identities.items()
        }
        marks, epochs = cluster.watermarks(partitions, isolation)
        too_late = {
            topic: {p: offset for p, offset in offsets.items() if offset is not None}
            for topic, offsets in cluster.offsets_at(partitions, LATEST_MS + 1).items()
        }
        identities = {t: replace(each, epochs=epochs[t]) for t, each in identities.items()}
        return Survey(cluster.id(), identities, marks, too_late)


class Cluster:
    """An admin client that is connected to one cluster. A context manager, which closes it.

    Raises BrokerTooOld if the broker that it connects to cannot give topic ids. Its methods raise
    NotAuthorised, naming the operation, or BrokerError.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        with connection_errors(settings):
            self.admin = KafkaAdminClient(
                **{
                    "request_timeout_ms": TIMEOUT_MS,
                    **settings.for_python(),
                    **bootstrap_servers.bootstrap_arguments(settings),
                }
            )
        self.admin._manager = PatientConnections(self.admin._manager)
        spoken = self._versions.api_versions[MetadataRequest.API_KEY][1]
        if spoken < _TOPIC_IDS:
            self.admin.close()
            raise BrokerTooOld(
                f"{settings.cluster}: the broker speaks Metadata up to version {spoken}, as Kafka "
                f"{self.version()} does; Tidegate needs version {_TOPIC_IDS}, as of Kafka "
                f"{_OLDEST}: topic ids, by which it sees that a topic was deleted and made again",
                needed=_OLDEST,
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def request(self, operation: str) -> AbstractContextManager[None]:
        """Translate the errors of a request that needs the permission `operation`."""
        return request_errors(self._settings, operation)

    @property
    def _versions(self) -> Any:
        """What the broker said of its versions when the connection was made."""
        return self.admin._manager.broker_version_data

    def _metadata(self) -> Mapping[str, Any]:
        """Return cluster id and brokers.

        kafka-python's describe_cluster asks otherwise, and fails with brokers before 3.7: their
        answer has no `endpoint_type`.
        """
        with self.request("DESCRIBE on the cluster"):
            answer: Mapping[str, Any] = self.admin._manager.run(
                self.admin._get_cluster_metadata, []
            )
        return answer

    def id(self) -> str:
        """Return the cluster id."""
        return str(self._metadata()["cluster_id"])

    def version(self) -> str:
        """Return the version of the broker, as far as its protocol shows it."""
        return str(self._versions.broker_version_str)

    def brokers(self) -> list[tuple[str, int]]:
        """Return the host and port of each broker, as the cluster names them to its clients."""
        return [
            (str(broker["host"]), int(broker["port"])) for broker in self._metadata()["brokers"]
        ]

    def topics(self) -> list[str]:
        """Return the names of all topics that may be described."""
        with self.request(_DESCRIBE):
            return sorted(self.admin.list_topics())

    def nearest(self, missing: Iterable[str]) -> str:
        """Return `; did you mean …?` with the existing topics that are nearest to missing ones."""
        with contextlib.suppress(TidegateError):
            return did_you_mean(missing, self.topics())
        return ""

    def describe(self, topics: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return the broker's description of each topic that exists and may be described."""
        with self.request(_DESCRIBE):
            answer = self.admin.describe_topics(sorted(topics))
        for topic in answer:
            if topic["error_code"] not in (0, _NO_SUCH_TOPIC, _TOPIC_FORBIDDEN):
                error = kafka_errors.for_code(topic["error_code"]).__name__
                raise BrokerError(f"{topic['name']}: {error}")
        return {topic["name"]: topic for topic in answer if not topic["error_code"]}

    def identities(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """Return the identity of each topic that exists and may be described."""
        return {
            name: TopicIdentity(
                topic_id=topic_id(topic, self._settings.cluster),
                epochs={p["partition_index"]: p["leader_epoch"] for p in topic["partitions"]},
                leaderless=frozenset(
                    p["partition_index"] for p in topic["partitions"] if p["leader_id"] < 0
                ),
                readable="READ" in (topic.get("authorized_operations") or ["READ"]),
            )
            for name, topic in self.describe(topics).items()
        }

    def operations(self, topics: Iterable[str]) -> dict[str, set[str]]:
        """Return the operations that this user may do on each topic that it may describe."""
        described = self.describe(topics)
        return {name: set(topic["authorized_operations"]) for name, topic in described.items()}

    def configs(self, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the named settings of topics, those that their brokers know. Topics without
        DESCRIBE_CONFIGS are missing.

        kafka-python passes over the broker's refusal, and returns no settings of such a topic.
        """
        asked = [ConfigResource("TOPIC", t, dict.fromkeys(names)) for t in sorted(topics)]
        with self.request("DESCRIBE_CONFIGS on the topics"):
            answer = self.admin.describe_configs(asked, config_filter="all").get("topic", {})
        return {
            topic: {name: config[name]["value"] for name in names if name in config}
            for topic, config in answer.items()
            if config
        }

    def auto_creates(self) -> bool | None:
        """Return whether brokers make topics that clients ask for. None if this user may not see
        their settings.
        """
        name = "auto.create.topics.enable"
        node = str(min(broker["node_id"] for broker in self._metadata()["brokers"]))
        asked = [ConfigResource("BROKER", node, {name: None})]
        with self.request("DESCRIBE_CONFIGS on the cluster"):
            answer = self.admin.describe_configs(asked, config_filter="all").get("broker", {})
        config = answer.get(node, {})
        return config[name]["value"] == "true" if name in config else None

    def watermarks(
        self, partitions: Mapping[str, Collection[int]], isolation: str
    ) -> tuple[dict[str, dict[int, Watermarks]], dict[str, dict[int, int]]]:
        """Return the log start, last stable offset and end of partitions, and the leader epochs."""
        asked = _asked(partitions)
        read_offsets = self.admin.list_partition_offsets
        with self.request(_DESCRIBE):
            starts = read_offsets(dict.fromkeys(asked, OffsetSpec.EARLIEST))
            ends = highs = read_offsets(dict.fromkeys(asked, OffsetSpec.LATEST))
            if isolation == "read_committed":
                ends = read_offsets(dict.fromkeys(asked, OffsetSpec.LATEST), isolation)
        marks: dict[str, dict[int, Watermarks]] = {topic: {} for topic in partitions}
        epochs: dict[str, dict[int, int]] = {topic: {} for topic in partitions}
        for tp in asked:
            start, end, high = (offsets[tp].offset for offsets in (starts, ends, highs))
            marks[tp.topic][tp.partition] = Watermarks(start, end, max(high, end))
            if ends[tp].leader_epoch is not None:
                epochs[tp.topic][tp.partition] = ends[tp].leader_epoch
        return marks, epochs

    def offsets_at(
        self, partitions: Mapping[str, Collection[int]], timestamp_ms: int
    ) -> dict[str, dict[int, int | None]]:
        """Return the first offset at or after a timestamp. None if no record is that late."""
        return self.offsets_since(
            {t: dict.fromkeys(ps, timestamp_ms) for t, ps in partitions.items()}
        )

    def offsets_since(
        self, timestamps_ms: Mapping[str, Mapping[int, int]]
    ) -> dict[str, dict[int, int | None]]:
        """Return the first offset at or after each partition's timestamp, or None.

        Before 1970, and so in Kafka before any record, that is the log start: negative timestamps
        have other meanings in its protocol (-1 is the end).
        """
        asked = {
            tp: OffsetSpec.EARLIEST if (ms := timestamps_ms[tp.topic][tp.partition]) < 0 else ms
            for tp in _asked(timestamps_ms)
        }
        with self.request(_DESCRIBE):
            answer = self.admin.list_partition_offsets(asked)
        offsets: dict[str, dict[int, int | None]] = {topic: {} for topic in timestamps_ms}
        for tp, each in answer.items():
            offsets[tp.topic][tp.partition] = None if each.offset < 0 else each.offset
        return offsets


def _asked(partitions: Mapping[str, Collection[int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for topic, of_topic in partitions.items() for p in of_topic]


def topic_id(described: Mapping[str, Any], cluster: str) -> str:
    """Return the id of a described topic. Raises BrokerTooOld if the brokers give none."""
    given = uuid.UUID(str(described.get("topic_id") or uuid.UUID(int=0)))
    if given.int == 0:
        raise BrokerTooOld(
            f"{cluster}: topic {described['name']} has no topic id: without one, a recreated topic "
            f"cannot be told from the one that was read. Tidegate needs brokers of {_OLDEST} or "
            f"later, with an inter-broker protocol or metadata version of {_OLDEST} or later",
            needed=_OLDEST,
        )
    return str(given)
