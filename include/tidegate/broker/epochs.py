"""Leader epochs: whether a log was cut off and written again since somebody has read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from tidegate.broker.cluster import Cluster
from tidegate.broker.settings import KafkaSettings
from tidegate.errors import BrokerError

Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
Partition = Topic.OffsetForLeaderPartition


def epoch_ends(
    settings: KafkaSettings, epochs: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """Return, by (topic, partition), where a leader epoch ends in the log as it is now.

    All that a client could read while that epoch was the latest is below its end, unless the log
    was cut off since. Missing: partitions whose broker does not know. BrokerError for one without a
    leader: it may have been cut off.
    """
    asked = {TopicPartition(*key): epoch for key, epoch in epochs.items()}
    if not asked:
        return {}
    with Cluster(settings) as cluster, cluster.refusals("DESCRIBE on the topics"):
        # kafka-python has this request, and no call for it.
        found: dict[tuple[str, int], int] = cluster.admin._manager.run(_ask, cluster.admin, asked)
    return found


async def _ask(admin: Any, asked: Mapping[TopicPartition, int]) -> dict[tuple[str, int], int]:
    found = {}
    by_leader = await admin._async_get_leader_for_partitions(asked)
    for leader, partitions in by_leader.items():
        if leader < 0:
            names = ", ".join(sorted(f"{tp.topic}-{tp.partition}" for tp in partitions))
            raise BrokerError(
                f"{names}: no leader now, so nobody knows what its log lost; try again"
            )
        topics: dict[str, list[Any]] = defaultdict(list)
        for tp in partitions:
            topics[tp.topic].append(
                Partition(partition=tp.partition, current_leader_epoch=-1, leader_epoch=asked[tp])
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[Topic(topic=name, partitions=each) for name, each in topics.items()],
        )
        response = await admin._manager.send(request, node_id=leader)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    name = kafka_errors.for_code(each.error_code).__name__
                    raise BrokerError(f"leader epoch of {topic.topic}-{each.partition}: {name}")
                if each.end_offset >= 0:
                    found[topic.topic, each.partition] = each.end_offset
    return found
