"""Options of Spark's Kafka source, read back from the objects of Spark that work with them."""

from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.topic_records import numbers
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.pipelines.spec import Egress, Ingest, parse_spec
from tidegate.spark import ingest_driver, target_records
from tidegate.spark.egress_job import EgressJob, RowSource, TargetTopic
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker

PACKAGE = "org.apache.spark.sql.kafka010."
GIVEN = {
    "KAFKACONSUMER.pollTimeoutMs": 41_000,
    "fetchOffset.NUMRETRIES": 7,
    "fetchoffset.retryIntervalMs": 123,
}


class Times(NamedTuple):
    """What Spark has made of the options: times in milliseconds."""

    poll: int
    tries: int
    pause: int


DEFAULTS, EXPECTED = Times(30_000, 3, 1_000), Times(41_000, 7, 123)


def read_by_ingest(
    spark: SparkSession, broker: Broker, topic: str, options: dict[str, Any]
) -> DataFrame:
    """Return the ten records of a topic of one partition, as a chunk of a pipeline reads them."""
    numbers(broker.bootstrap, topic, 10, partitions=1)
    form = {"name": "p", "kind": "ingest", "topics": [topic], "lake": "/lake", "options": options}
    spec = parse_spec(form)
    assert isinstance(spec, Ingest)
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        **spec.source_options,
    }
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 10),), "/nowhere")
    parquet = ParquetSettings("zstd", 1, 1_000_000)
    job = IngestJob(topic, (chunk,), parquet, app_name="tests", options=given, records=10)
    return ingest_driver.read_chunk(spark, job, chunk)


def read_by_egress(
    spark: SparkSession, broker: Broker, topic: str, options: dict[str, Any]
) -> DataFrame:
    """Return the ten records of a topic of one partition, as an egress reads its target."""
    numbers(broker.bootstrap, topic, 10, partitions=1)
    source = {"path": "/in", "format": "text"}
    target = {"topic": topic, "options": options}
    spec = parse_spec(
        {"name": "p", "kind": "egress", "lake": "/l", "source": source, "target": target}
    )
    assert isinstance(spec, Egress)
    job = EgressJob(
        plan_id=topic, app_name="tests", source=RowSource("text", {}, None, (), (), {}, (), {}),
        columns={}, topic=topic, order_by=(), strict_order=False, tombstones=False,
        quarantine=None, target={topic: TargetTopic(1, {0: 0}, 1_000_000, compacted=False)},
        options={"kafka.bootstrap.servers": broker.bootstrap}, producer={}, client_id="tests",
        mark="/l/mark", records=10,
        reading=spec.target.reading_options,
    )  # fmt: skip
    rows = target_records.all_records(spark, job, {topic: {0: 10}})
    assert rows is not None
    return rows


@pytest.mark.parametrize(("options", "expected"), [({}, DEFAULTS), (GIVEN, EXPECTED)])
@pytest.mark.parametrize("read", [read_by_ingest, read_by_egress])
def test_polling_and_tries(
    spark: SparkSession, broker: Broker, topic: str,
    read: Any, options: dict[str, Any], expected: Times,
) -> None:  # fmt: skip
    """In any letter case: the time-out of the tasks, and the tries of the driver's reader of
    offsets, which Spark makes from the same options for each query.
    """
    batch = batch_of(read(spark, broker, topic, options))
    (poll,) = {each.pollTimeoutMs() for each in batch.planInputPartitions()}
    params = module(spark, "KafkaSourceProvider").kafkaParamsForDriver(
        field(batch, "specifiedKafkaParams")
    )
    reader = module(spark, "KafkaOffsetReader").build(
        field(batch, "strategy"), params, field(batch, "sourceOptions"), "tests"
    )
    found = Times(poll, reader.maxOffsetFetchAttempts(), reader.offsetFetchAttemptIntervalMs())
    reader.close()
    assert found == expected


@pytest.mark.parametrize(
    ("options", "group"),
    [
        ({}, "tidegate-TOPIC"),
        ({"groupIdPrefix": "ours"}, "ours-TOPIC"),
        ({"Kafka.group.ID": "theirs"}, "theirs"),
    ],
)
def test_the_group_and_the_place_of_a_task(
    spark: SparkSession, broker: Broker, topic: str, options: dict[str, Any], group: str
) -> None:
    """The group id is the user's, or has the plan's id; a batch prefers no executor, whatever it
    has read before.
    """
    batch = batch_of(read_by_ingest(spark, broker, topic, options))
    tasks = list(batch.planInputPartitions())
    found = {each.executorKafkaParams().get("group.id") for each in tasks}
    assert found == {group.replace("TOPIC", topic)}
    assert [list(each.preferredLocations()) for each in tasks] == [[]] * len(tasks)


def batch_of(rows: DataFrame) -> Any:
    """Return the one batch that Spark reads for the rows."""
    leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
    (scan,) = (leaves.apply(n) for n in range(leaves.size()))
    return scan.batch()


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
