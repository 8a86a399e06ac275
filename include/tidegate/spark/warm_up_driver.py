"""Load the classes that ingest and egress need, without a broker, for the JVM's CDS archive."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidegate.core import columns
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark import ingest_driver, preflight, records, session
from tidegate.spark.egress_job import EgressJob, RowSource, TargetTopic
from tidegate.spark.ingest_job import Chunk, IngestJob

_NO_BROKER = {
    "kafka.bootstrap.servers": "127.0.0.1:9",  # the discard port
    "kafka.isolation.level": "read_committed",
    "kafka.default.api.timeout.ms": "500",
    "kafka.request.timeout.ms": "400",
    "fetchOffset.numRetries": "0",
}
_VALUES = {
    "array<struct<key:string,value:binary>>": "array(struct('h' AS key, X'00' AS value))",
    "bigint": "id",
    "binary": "encode(string(id), 'utf-8')",
    "int": "0",
    "timestamp": "timestamp_millis(id)",
}
"""An expression for a type of the lake's columns. Null for another."""
_MODES = (("true", "FALLBACK", "tu"), ("false", "NO_CODEGEN", "t"))
"""Big windows are run with generated code. The writers for many topics and for one differ."""
_CLIENT = (
    "org/apache/kafka/clients/",
    "org/apache/kafka/common/",
    "org/apache/spark/sql/kafka010/",
)


def main() -> None:
    """Write some generated rows, try to read from no broker, and load its client by class names."""
    spark = session.start("tidegate warm-up")
    with tempfile.TemporaryDirectory() as directory:
        for number, (whole_stage, factory, topics) in enumerate(_MODES):
            spark.conf.set("spark.sql.codegen.wholeStage", whole_stage)
            spark.conf.set("spark.sql.codegen.factoryMode", factory)
            window = tuple(OffsetRange(topic, 0, 0, 100) for topic in topics)
            chunk = Chunk(number, window, f"{directory}/{number}")
            job = IngestJob(
                "warm-up",
                (chunk,),
                ParquetSettings("zstd", 1, 1_000_000),
                app_name="tidegate warm-up",
                options=_NO_BROKER,
                records=100,
            )
            ingest_driver.write_chunk(spark, job, chunk, lambda _: _rows(spark))
            with contextlib.suppress(Exception):
                ingest_driver.read_chunk(spark, job, chunk).collect()
        _prepare_to_send(spark, Path(directory))
    load_kafka_client(spark)
    spark.stop()


def _prepare_to_send(spark: SparkSession, directory: Path) -> None:
    """Do what an egress does with its rows, except sending them."""
    path = min(directory.glob("1/topic=t/*.parquet"))
    rows = RowSource("parquet", {}, None, ((path.name, str(path)),), (path.name,), {}, (), {})
    target = {"t": TargetTopic(1, {0: 0}, 1 << 20, compacted=False)}
    columns = dict.fromkeys((*records.RECORD[1:], records.TIMESTAMP), "null") | {"value": "value"}
    job = EgressJob(
        "warm-up", rows, columns, "t", (), False, False, None, target, {}, "", "",
        app_name="tidegate warm-up", options={}, records=100,
    )  # fmt: skip
    checked = preflight.preflight(spark, job)
    shaped = records.add_provenance(checked.records, job)
    shaped.repartition(2, "key").sortWithinPartitions("value").collect()


def _rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 100, 1, 4).selectExpr(
        "'t' AS topic", *(f"{_VALUES.get(c.type, 'null')} AS `{c.name}`" for c in columns.COLUMNS)
    )


def load_kafka_client(spark: SparkSession) -> None:
    """Load the classes that the consumer loads only when it reaches a broker."""
    jvm = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for known in (
        "org.apache.kafka.clients.consumer.KafkaConsumer",
        "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    ):
        source = loader.loadClass(known).getProtectionDomain().getCodeSource().getLocation()
        with zipfile.ZipFile(source.getPath()) as jar:
            names = [n for n in jar.namelist() if n.endswith(".class") and n.startswith(_CLIENT)]
        for name in names:
            with contextlib.suppress(Exception):  # it needs a library that is not installed
                loader.loadClass(name.removesuffix(".class").replace("/", "."))
