"""The Spark session, with the settings on which the bytes and the speed of files depend."""

from __future__ import annotations

import functools

from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import ConfigurationError
from tidegate.settings import spark_lines
from tidegate.spark.task_size import WRITERS

_V1_SOURCES = "spark.sql.sources.useV1SourceList"


def start(app_name: str) -> SparkSession:
    """Start the session; the options of spark-submit (master, memory, jars) hold."""
    return configure(SparkSession.builder.appName(app_name).getOrCreate())


def configure(spark: SparkSession) -> SparkSession:
    """Set what every chunk needs, regardless of the cluster's defaults.

    ConfigurationError for an older Spark, whose Kafka source and sink were not tested.
    """
    if spark_lines.is_too_old(spark.version):
        raise ConfigurationError(
            f"Spark {spark.version}: {spark_lines.OLDEST} or later is needed; "
            "is SPARK_HOME another Spark's?"
        )
    # Read Kafka through V2: the same rows as V1 in every tested case, and faster.
    v1 = spark.conf.get(_V1_SOURCES) or ""
    spark.conf.set(_V1_SOURCES, ",".join(s for s in v1.split(",") if s.strip() != "kafka"))
    # The default, INT96, has no statistics to prune by.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # The legacy layout of lists differs from that of docs/storage.md.
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "false")
    # Decoding keeps the fields that fit.
    spark.conf.set("spark.sql.json.enablePartialResults", "true")
    # With an open writer per topic, tasks need not sort by topic.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(WRITERS))
    return spark


@functools.cache
def versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of Spark, its Kafka connector, the Kafka client and Tidegate."""
    jvm = spark.sparkContext._jvm
    # Not Class.forName: jars given with --jars are only known to the context's loader.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    connector = loader.loadClass("org.apache.spark.sql.kafka010.KafkaSourceProvider")
    return {
        "spark": spark.version,
        "connector": str(connector.getPackage().getImplementationVersion()),
        "kafka-clients": jvm.org.apache.kafka.common.utils.AppInfoParser.getVersion(),
        "tidegate": tidegate.__version__,
    }
