"""The Spark session and the settings that a chunk's bytes and speed depend on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate.errors import ConfigurationError

_OLDEST = (4, 0)
_V1_SOURCES = "spark.sql.sources.useV1SourceList"


def start(app_name: str) -> SparkSession:
    """Start the session; whatever spark-submit was told (master, memory, jars) holds."""
    return configure(SparkSession.builder.appName(app_name).getOrCreate())


def configure(spark: SparkSession) -> SparkSession:
    """Set what every chunk needs, whatever the cluster's defaults are.

    An older Spark is refused: nobody has seen that its source and sink behave as is relied on.
    """
    if tuple(int(part) for part in spark.version.split(".")[:2]) < _OLDEST:
        raise ConfigurationError(
            f"Spark {spark.version}: {'.'.join(map(str, _OLDEST))} or later is needed; "
            "is SPARK_HOME another Spark's?"
        )
    # Kafka through V2: the same rows as V1 in every case tried, and faster.
    v1 = spark.conf.get(_V1_SOURCES) or ""
    spark.conf.set(_V1_SOURCES, ",".join(s for s in v1.split(",") if s.strip() != "kafka"))
    # The default, INT96, has no statistics to prune by.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # Another layout of lists than the contract's, for readers of ten years ago.
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "false")
    # With a writer per topic at hand, tasks need not sort by topic.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "8")
    return spark


@contextmanager
def writing_v1(spark: SparkSession) -> Iterator[None]:
    """Let Kafka be written through V1: V2 would put the password into the event log."""
    before = spark.conf.get(_V1_SOURCES) or ""
    spark.conf.set(_V1_SOURCES, f"{before},kafka")
    try:
        yield
    finally:
        spark.conf.set(_V1_SOURCES, before)
