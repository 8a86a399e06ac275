"""What a cluster says of the topics that are to be written to, before anything is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource

from tidegate.broker.cluster import NO_SUCH_TOPIC, TOPIC_FORBIDDEN, Cluster, topic_id
from tidegate.broker.settings import KafkaSettings
from tidegate.errors import BrokerError, NotAuthorised, UnknownTopic

_NEEDED = ("READ", "WRITE", "DESCRIBE_CONFIGS")
_DEFAULT_LARGEST = 1_048_588


@dataclass(frozen=True)
class TargetState:
    """A topic as a target: `ends` are high watermarks, `largest` the bytes that a batch may have.

    In a `compacted` one an older record of a key may vanish at any moment. The id is empty of one
    that is still to be made. `compression` is the codec that brokers store its records with;
    `producer`: as they come.
    """

    topic_id: str
    ends: Mapping[int, int]
    largest: int
    compacted: bool
    compression: str = "producer"

    @property
    def partitions(self) -> int:
        return len(self.ends)


@dataclass(frozen=True)
class TargetSurvey:
    """What a cluster has of the topics that are to be written to."""

    cluster_id: str
    topics: Mapping[str, TargetState]


def survey_target(
    settings: KafkaSettings, topics: Iterable[str], *, create_with: int | None, make: bool = True
) -> TargetSurvey:
    """Look at the topics; make those that are missing only with `create_with` partitions.

    UnknownTopic where one is missing otherwise, NotAuthorised with the operations that are. Unless
    told to `make` them, they are as they would be made.
    """
    names = sorted(topics)
    where = f"Kafka at {settings.bootstrap_servers} ({settings.connection})"
    with Cluster(settings) as cluster:
        described = _described(cluster, names)
        missing = [name for name in names if name not in described]
        if missing and create_with is None:
            raise UnknownTopic(
                f"{where} has no topic {', '.join(missing)}, or this user may not DESCRIBE it: "
                "create it, or set target.partitions and Tidegate does",
                topics=missing,
            )
        if missing and make:
            with cluster.refusals("CREATE on the cluster"):
                _create(cluster, dict.fromkeys(missing, create_with or 1))
            described = _described(cluster, names)
            if late := [name for name in missing if name not in described]:
                raise BrokerError(f"{where}: made {', '.join(late)}, and does not show it yet")
        wanted, names = names, [name for name in names if name in described]
        forbidden = [
            f"{', '.join(operations)} on {name}"
            for name in names
            if (operations := _denied(described[name]))
        ]
        if forbidden:
            raise NotAuthorised(
                f"{where}: not permitted: {'; '.join(forbidden)}. WRITE is for sending, READ for "
                "reading back what came, DESCRIBE_CONFIGS for the largest record",
                operations=forbidden,
            )
        partitions = {n: sorted(p["partition_index"] for p in described[n]["partitions"])
                      for n in names}  # fmt: skip
        marks = cluster.watermarks(partitions, "read_uncommitted") if names else {}
        configs = _configs(cluster, names) if names else {}
        found = {
            name: TargetState(
                topic_id(described[name], where),
                {p: m.high for p, m in marks[name].items()},
                int(_value(configs, name, "max.message.bytes") or _DEFAULT_LARGEST),
                _is_compacted(configs, name),
                _value(configs, name, "compression.type") or "producer",
            )
            for name in names
        }
        empty = dict.fromkeys(range(create_with or 0), 0)
        to_be = TargetState("", empty, _DEFAULT_LARGEST, compacted=False)
        return TargetSurvey(cluster.id(), {name: found.get(name, to_be) for name in wanted})


def compacted(settings: KafkaSettings, topics: Iterable[str]) -> set[str]:
    """Return those of the topics in which an older record of a key may vanish at any moment."""
    names = sorted(topics)
    with Cluster(settings) as cluster:
        configs = _configs(cluster, names)
    return {name for name in names if _is_compacted(configs, name)}


def _described(cluster: Cluster, names: list[str]) -> dict[str, dict[str, Any]]:
    with cluster.refusals("DESCRIBE on the topics"):
        answer = cluster.admin.describe_topics(names)
    for topic in answer:
        code = topic["error_code"]
        if code and code not in (NO_SUCH_TOPIC, TOPIC_FORBIDDEN):
            raise BrokerError(f"{topic['name']}: {kafka_errors.for_code(code).__name__}")
    return {topic["name"]: topic for topic in answer if not topic["error_code"]}


def _create(cluster: Cluster, partitions: Mapping[str, int]) -> None:
    wanted = {name: {"num_partitions": count} for name, count in partitions.items()}
    with contextlib.suppress(kafka_errors.TopicAlreadyExistsError):  # another run was quicker
        cluster.admin.create_topics(wanted, wait_for_metadata=True)


def _denied(topic: Mapping[str, Any]) -> list[str]:
    """Return the operations that the broker says this user may not do; none where it does not."""
    allowed = topic.get("authorized_operations")
    return [each for each in _NEEDED if each not in allowed] if allowed else []


def _configs(cluster: Cluster, names: list[str]) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    asked = [ConfigResource("TOPIC", name) for name in names]
    with cluster.refusals("DESCRIBE_CONFIGS on the topics"):
        found = cluster.admin.describe_configs(asked, config_filter="all")
    return dict(found.get("topic", {}))


def _is_compacted(configs: Mapping[str, Mapping[str, Mapping[str, str]]], topic: str) -> bool:
    return "compact" in (_value(configs, topic, "cleanup.policy") or "")


def _value(configs: Mapping[str, Mapping[str, Mapping[str, str]]], topic: str, name: str) -> str:
    return configs.get(topic, {}).get(name, {}).get("value", "")
