"""The state of an egress's target topics, before anything is written to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import errors as kafka_errors

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster, topic_id
from tidegate.core.cluster_answers import TargetState, TargetSurvey, TimeLimits
from tidegate.core.unreadable_records import LATEST_MS
from tidegate.errors import BrokerError, NotAuthorised, UnknownTopic

_NEEDED = ("READ", "WRITE", "DESCRIBE_CONFIGS")
_CONFIGS = (
    "max.message.bytes", "cleanup.policy", "compression.type", "retention.ms",
    "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
)  # fmt: skip
_DEFAULT_LARGEST = 1_048_588
_DIRECTIONS = ("before", "after", "difference")


def survey_target(
    settings: KafkaSettings, topics: Iterable[str], *, create_with: int | None, make: bool = True
) -> TargetSurvey:
    """Return the state of the topics. Create the missing ones with `create_with` partitions.

    Raises UnknownTopic for a missing topic without `create_with`, and NotAuthorised naming the
    operations that are not permitted. If not `make`, the broker only judges whether it would create
    a missing topic, whose state is that which it would be created with.
    """
    names = sorted(topics)
    with Cluster(settings) as cluster:
        described = cluster.describe(names)
        missing = [name for name in names if name not in described]
        if missing and create_with is None:
            raise UnknownTopic(
                f"{settings.cluster} has no topic {', '.join(missing)}, or this user may not "
                "DESCRIBE it: create it, or set target.partitions and Tidegate does"
                + cluster.nearest(missing),
                topics=missing,
            )
        if missing:
            _create(cluster, missing, create_with or 1, make=make)
        if missing and make:
            described = cluster.describe(names)
            if late := [name for name in missing if name not in described]:
                raise BrokerError(
                    f"{settings.cluster}: made {', '.join(late)}, and does not show it yet"
                )
        _refuse_forbidden(settings, described)
        partitions = {
            name: sorted(p["partition_index"] for p in topic["partitions"])
            for name, topic in described.items()
        }
        marks, _ = cluster.watermarks(partitions, "read_uncommitted")
        configs = cluster.configs(described, _CONFIGS) if described else {}
        empty = dict.fromkeys(range(create_with or 0), 0)
        states = dict.fromkeys(names, TargetState("", empty, _DEFAULT_LARGEST, compacted=False))
        for name, topic in described.items():
            config = configs.get(name, {})
            states[name] = TargetState(
                topic_id(topic, settings.cluster),
                {p: m.high for p, m in marks[name].items()},
                int(config.get("max.message.bytes") or _DEFAULT_LARGEST),
                _is_compacted(config),
                config.get("compression.type") or "producer",
                config.get("message.timestamp.type") == "LogAppendTime",
                _time_limits(config),
            )
        return TargetSurvey(cluster.id(), states)


def compacted(settings: KafkaSettings, topics: Iterable[str]) -> set[str]:
    """Return those of the topics that are compacted."""
    with Cluster(settings) as cluster:
        configs = cluster.configs(topics, _CONFIGS)
    return {topic for topic, config in configs.items() if _is_compacted(config)}


def auto_creates(settings: KafkaSettings) -> bool | None:
    """Return whether the brokers make missing topics. None if this user may not see it."""
    with Cluster(settings) as cluster:
        return cluster.auto_creates()


def _create(cluster: Cluster, topics: Sequence[str], partitions: int, *, make: bool) -> None:
    new = {name: {"num_partitions": partitions} for name in topics}
    with (
        cluster.request(f"CREATE on {', '.join(topics)}"),
        contextlib.suppress(kafka_errors.TopicAlreadyExistsError),  # by another run, meanwhile
    ):
        cluster.admin.create_topics(new, validate_only=not make, wait_for_metadata=make)


def _refuse_forbidden(settings: KafkaSettings, described: Mapping[str, Mapping[str, Any]]) -> None:
    forbidden = []
    for name, topic in sorted(described.items()):
        allowed = topic.get("authorized_operations")  # none where the broker does not name them
        denied = [each for each in _NEEDED if each not in allowed] if allowed else []
        if denied:
            forbidden.append(f"{', '.join(denied)} on {name}")
    if forbidden:
        raise NotAuthorised(
            f"{settings.cluster}: not permitted: {'; '.join(forbidden)}. WRITE is for sending, READ"
            " for reading back what came, DESCRIBE_CONFIGS for the largest record",
            operations=forbidden,
        )


def _time_limits(config: Mapping[str, str]) -> TimeLimits:
    """Return what a topic takes. Brokers before Kafka 4.0 also have one limit for both directions.
    Later than Spark reads is no limit: such rows are bad.
    """
    known = {name: int(value) for name, value in config.items() if name.endswith(".ms") and value}
    given = (known.get(f"message.timestamp.{name}.max.ms") for name in _DIRECTIONS)
    before, after, both = (
        each if each is not None and each < LATEST_MS else None for each in given
    )
    kept = known.get("retention.ms", -1)
    return TimeLimits(
        min((each for each in (before, both) if each is not None), default=None),
        min((each for each in (after, both) if each is not None), default=None),
        kept if kept >= 0 and "delete" in config.get("cleanup.policy", "delete") else None,
    )


def _is_compacted(config: Mapping[str, str]) -> bool:
    return "compact" in config.get("cleanup.policy", "")
