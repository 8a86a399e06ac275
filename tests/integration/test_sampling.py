"""The size of records, sampled from a broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.sampling import largest_mean_size
from tidegate.core.offsets import OffsetRange
from tidegate_local.kafka import Broker


@pytest.mark.slow
def test_the_largest_records_count(broker: Broker, topic: Callable[..., str]) -> None:
    """The largest records decide, at the beginning or in the middle of a range, compressed or not.
    Without a broker there is no size, and no error.
    """
    small, large = topic(partitions=1), topic(partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for i in range(2000):  # at most 500 are sampled
        producer.produce(small, b"x" * 100, headers={"h": b"123"})
        producer.produce(large, b"x" * (100 if i < 800 else 20_000))
        producer.poll(0)
    producer.flush()
    kafka = KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})
    ranges = [OffsetRange(small, 0, 0, 2000), OffsetRange(large, 0, 0, 2000)]
    assert largest_mean_size(kafka, ranges[:1], "read_committed") == 32 + 100 + 4
    found = largest_mean_size(kafka, ranges, "read_committed")
    assert found is not None
    assert 15_000 < found <= 20_032
    nowhere = KafkaCluster("kafka_default", {"bootstrap.servers": "127.0.0.1:9"})
    assert largest_mean_size(nowhere, ranges, "read_committed") is None
