"""A consumer group's committed offsets: for tools that watch lag, and to begin where one stopped.

Nothing here is the truth about progress; that is the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tenacity
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tidegate.broker.cluster import Cluster
from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import Offsets
from tidegate.errors import BrokerError

# The first question about any group on a fresh broker is answered with "not yet".
_twice_more = tenacity.retry(
    retry=tenacity.retry_if_exception_type(BrokerError),
    stop=tenacity.stop_after_attempt(3),
    wait=tenacity.wait_fixed(0.5),
    reraise=True,
)


@_twice_more
def committed(settings: KafkaSettings, group: str) -> dict[str, dict[int, int]]:
    """Return what a group has committed, by topic and partition; nothing for an unknown group."""
    with Cluster(settings) as cluster, cluster.refusals(f"DESCRIBE on group {group!r}"):
        answer: Mapping[Any, Any] = cluster.admin.list_group_offsets({group: None})[group]
    offsets: dict[str, dict[int, int]] = {}
    for tp, each in answer.items():
        if each.offset >= 0:
            offsets.setdefault(tp.topic, {})[tp.partition] = each.offset
    return offsets


@_twice_more
def commit(settings: KafkaSettings, group: str, offsets: Offsets) -> None:
    """Commit offsets for a group that nobody is a member of; BrokerError says which it refused."""
    wanted = {
        TopicPartition(topic, p): OffsetAndMetadata(offset, "tidegate", -1)
        for topic, partitions in offsets.items()
        for p, offset in partitions.items()
    }
    with Cluster(settings) as cluster, cluster.refusals(f"READ on group {group!r}"):
        answer = cluster.admin.alter_group_offsets(group, wanted)
    if refused := {tp: error.__name__ for tp, error in answer.items() if error.errno}:
        tp, why = next(iter(refused.items()))
        raise BrokerError(
            f"group {group!r}: {why} for {tp.topic}-{tp.partition} and {len(refused) - 1} more; it "
            "must have no members"
        )
