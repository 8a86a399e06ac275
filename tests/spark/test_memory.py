"""The memory of an application does not grow with chunks, topics, partitions or records."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from support.topic_records import create
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark import ingest_driver
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker


class PoolSizes(NamedTuple):
    """The sizes of Spark's two pools of Kafka consumers, idle or in use, and their keys."""

    consumers: int
    fetched: int
    keys: int
    params: int


@pytest.fixture
def pool_sizes(spark: SparkSession) -> Callable[[], PoolSizes]:
    """Return a function that returns the pool sizes of this session."""
    consumers, fetched = _pools(spark)
    factory = _field(consumers.getClass(), consumers, "objectFactory")
    cache = _field(fetched.getClass(), fetched, "cache")
    return lambda: PoolSizes(
        consumers.size(), fetched.numTotal(), cache.size(), factory.keyToKafkaParams().size()
    )


def test_the_pools_have_tidegates_settings(spark: SparkSession) -> None:
    """Where a pipeline gives none: read back from the pools of this session."""
    consumers, fetched = _pools(spark)
    config = _field(consumers.getClass(), consumers, "poolConfig")
    assert config.softMaxSize() == 64
    assert config.getMinEvictableIdleDuration().toMillis() == 500
    assert config.getDurationBetweenEvictionRuns().toMillis() == 100
    assert config.getJmxEnabled() is False
    names = ("minEvictableIdleTimeMillis", "evictorThreadRunIntervalMillis")
    found = [_field(fetched.getClass(), fetched, name) for name in names]
    assert found == [0, 100]


def test_consumers_are_released_after_each_read(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    pool_sizes: Callable[[], PoolSizes],
) -> None:
    """Sixty reads of four partitions leave no consumer, and no more keys than partitions.

    One session reads four partitions of two topics chunk by chunk, with the options of a real job.
    """
    topics = [f"{topic}-a", f"{topic}-b"]
    for name in topics:
        create(broker.bootstrap, name, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for number in range(3_000):
        for name in topics:
            producer.produce(name, b"%d" % number * 50, partition=number % 2)
    producer.flush()
    before = pool_sizes()
    for number in range(15):
        window = tuple(
            OffsetRange(name, p, number * 100, number * 100 + 100)
            for name in topics
            for p in (0, 1)
        )
        chunk = Chunk(number, window, str(tmp_path / str(number)))
        assert ingest_driver.stage_chunk(spark, job(broker, topic, chunk), chunk).rows == 400
    after = pool_sizes()
    assert after.keys - before.keys <= 4
    assert after.params - before.params <= 4
    deadline = time.monotonic() + 5
    while (now := pool_sizes()) != now._replace(
        consumers=0, fetched=0
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (now.consumers, now.fetched) == (0, 0)


def test_fetched_records_are_those_of_running_tasks(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    pool_sizes: Callable[[], PoolSizes],
) -> None:
    """While one task reads a large partition, the pool holds the records of one fetch."""
    create(broker.bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for number in range(200_000):
        producer.produce(topic, b"%d" % number * 10)
        producer.poll(0)
    producer.flush()
    seen: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            seen.append(pool_sizes().fetched)

    watcher = threading.Thread(target=look)
    watcher.start()
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 200_000),), str(tmp_path / "0"))
    try:
        assert ingest_driver.stage_chunk(spark, job(broker, topic, chunk), chunk).rows == 200_000
    finally:
        ended.set()
        watcher.join()
    cores = spark.sparkContext.defaultParallelism
    assert 1 <= max(seen) <= cores
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # without it nobody answers
    groups = admin.list_consumer_groups().result(30)
    assert not [each.group_id for each in groups.valid if topic in each.group_id]


def job(broker: Broker, topic: str, chunk: Chunk) -> IngestJob:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
    }
    parquet = ParquetSettings("zstd", 1, 1_000_000)
    records = sum(map(len, chunk.window))
    return IngestJob(topic, (chunk,), parquet, app_name="tests", options=options, records=records)


def _pools(spark: SparkSession) -> tuple[Any, Any]:
    """Return the pools of consumers and of fetched records."""
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    companion = loader.loadClass("org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$")
    module = _field(companion, None, "MODULE$")
    consumers, fetched = (
        _field(companion, module, next(f for f in _names(companion) if f.endswith(name)))
        for name in ("consumerPool", "fetchedDataPool")
    )
    return consumers, fetched


def _names(of: Any) -> list[str]:
    return [field.getName() for field in of.getDeclaredFields()]


def _field(of: Any, instance: Any, name: str) -> Any:
    field = of.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(instance)
