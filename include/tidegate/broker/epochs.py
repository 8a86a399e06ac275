"""Leader epochs: whether a log was truncated and written again since it was read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.errors import BrokerError

_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_Partition = _Topic.OffsetForLeaderPartition


def epoch_ends(
    settings: KafkaSettings, epochs: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """Return, by (topic, partition), the offset at which a leader epoch ends in the log now.

    All that a client could read while that epoch was the latest is below its end, unless the log
    was truncated since. Partitions whose broker does not know it are missing. Raises
    BrokerError for a partition without a leader: it may have been truncated.
    """
    if not epochs:
        return {}
    asked = {TopicPartition(*key): epoch for key, epoch in epochs.items()}
    with Cluster(settings) as cluster, cluster.request("DESCRIBE on the topics"):
        # kafka-python has this request, and no call for it.
        ends: dict[tuple[str, int], int] = cluster.admin._manager.run(
            _request_ends, cluster.admin, asked
        )
    return ends


async def _request_ends(
    admin: Any, asked: Mapping[TopicPartition, int]
) -> dict[tuple[str, int], int]:
    """Send each leader one request for all its partitions."""
    ends = {}
    for leader, partitions in (await admin._async_get_leader_for_partitions(asked)).items():
        if leader < 0:
            names = ", ".join(sorted(f"{tp.topic}-{tp.partition}" for tp in partitions))
            raise BrokerError(
                f"{names}: no leader now, so nobody knows what its log lost; try again"
            )
        topics: dict[str, list[Any]] = defaultdict(list)
        for tp in partitions:
            topics[tp.topic].append(
                _Partition(partition=tp.partition, current_leader_epoch=-1, leader_epoch=asked[tp])
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[_Topic(topic=t, partitions=each) for t, each in topics.items()]
        )
        response = await admin._manager.send(request, node_id=leader)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    name = kafka_errors.for_code(each.error_code).__name__
                    raise BrokerError(f"leader epoch of {topic.topic}-{each.partition}: {name}")
                if each.end_offset >= 0:
                    ends[topic.topic, each.partition] = each.end_offset
    return ends
