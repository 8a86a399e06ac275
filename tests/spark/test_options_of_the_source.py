"""Options of Spark's Kafka source, read back from the objects of Spark that work with them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.topic_records import numbers
from tidegate.core.offsets import OffsetRange
from tidegate.pipelines.spec import Ingest, parse
from tidegate.spark import ingest
from tidegate.spark.ingest_job import Chunk, IngestJob, ParquetSettings
from tidegate_local.kafka import Broker

PACKAGE = "org.apache.spark.sql.kafka010."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (30_000, 3, 1_000)),
        (
            {
                "KAFKACONSUMER.pollTimeoutMs": 41_000,
                "fetchOffset.NUMRETRIES": 7,
                "fetchoffset.retryIntervalMs": 123,
            },
            (41_000, 7, 123),
        ),
    ],
    ids=["defaults", "given"],
)
def test_polling_and_tries(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path,
    options: dict[str, Any], expected: tuple[int, int, int],
) -> None:  # fmt: skip
    """In any letter case: the time-out of the tasks, and the tries of the driver's reader of
    offsets, which Spark makes from the same options for each query (req 1.5, 0.28).
    """
    numbers(broker.bootstrap, topic, 10, partitions=1)
    form = {"name": "p", "kind": "ingest", "topics": [topic], "lake": "/lake", "options": options}
    spec = parse(form)
    assert isinstance(spec, Ingest)
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        **spec.source_options,
    }
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "0"))
    job = IngestJob(topic, "tests", given, (chunk,), ParquetSettings("zstd", 1, 1_000_000))
    rows = ingest.read(spark, job, chunk)
    (scan,) = of_seq(rows._jdf.queryExecution().executedPlan().collectLeaves())
    batch = scan.batch()
    tasks = {each.pollTimeoutMs() for each in batch.planInputPartitions()}
    params = module(spark, "KafkaSourceProvider").kafkaParamsForDriver(
        field(batch, "specifiedKafkaParams")
    )
    reader = module(spark, "KafkaOffsetReader").build(
        field(batch, "strategy"), params, field(batch, "sourceOptions"), "tests"
    )
    found = reader.maxOffsetFetchAttempts(), reader.offsetFetchAttemptIntervalMs()
    reader.close()
    assert (tasks, found) == ({expected[0]}, expected[1:])


def of_seq(seq: Any) -> list[Any]:
    return [seq.apply(n) for n in range(seq.size())]


def module(spark: SparkSession, name: str) -> Any:
    """Return a Scala object of the connector, which only the context's class loader knows."""
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass(f"{PACKAGE}{name}$").getField("MODULE$").get(None)


def field(instance: Any, name: str) -> Any:
    """Return the value of a field, whatever package Scala has put before its name."""
    fields = instance.getClass().getDeclaredFields()
    found = next(each for each in fields if each.getName().split("$$")[-1] == name)
    found.setAccessible(True)
    return found.get(instance)
