"""A consumer group's committed offsets: a copy of progress for lag monitors, and a place to start.

Progress itself is recorded in the ledger alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster, with_retries
from tidegate.core.offsets import Offsets
from tidegate.errors import BrokerError

_LEAST = 3  # tries


def read_group_offsets(settings: KafkaSettings, group: str) -> dict[str, dict[int, int]]:
    """Return a group's committed offsets, by topic and partition. None of an unknown group.

    Tried three times at least: a fresh broker answers the first request about any group with "not
    available yet".
    """
    return with_retries(settings, f"the look-up of consumer group {group!r}", _LEAST)(
        _committed, settings, group
    )


def _committed(settings: KafkaSettings, group: str) -> dict[str, dict[int, int]]:
    with Cluster(settings) as cluster, cluster.request(f"DESCRIBE on group {group!r}"):
        answer: Mapping[Any, Any] = cluster.admin.list_group_offsets({group: None})[group]
    offsets: dict[str, dict[int, int]] = {}
    for tp, each in answer.items():
        if each.offset >= 0:
            offsets.setdefault(tp.topic, {})[tp.partition] = each.offset
    return offsets


def commit_offsets(settings: KafkaSettings, group: str, offsets: Offsets) -> None:
    """Commit offsets for a group without members. Tried as `committed`.

    Raises NotAuthorised, or BrokerError, which names those that were refused.
    """
    with_retries(settings, f"the commit to consumer group {group!r}", _LEAST)(
        _commit, settings, group, offsets
    )


def _commit(settings: KafkaSettings, group: str, offsets: Offsets) -> None:
    wanted = {
        TopicPartition(topic, p): OffsetAndMetadata(offset, "tidegate", -1)
        for topic, partitions in offsets.items()
        for p, offset in partitions.items()
    }
    with Cluster(settings) as cluster, cluster.request(f"READ on group {group!r}"):
        answer = cluster.admin.alter_group_offsets(group, wanted)
        for refused in answer.values():
            if "Authorization" in refused.__name__:
                raise refused
    if failed := {tp: error.__name__ for tp, error in answer.items() if error.errno}:
        tp, why = next(iter(failed.items()))
        raise BrokerError(
            f"group {group!r}: {why} for {tp.topic}-{tp.partition} and {len(failed) - 1} more; it "
            "must have no members"
        )
