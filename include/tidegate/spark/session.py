"""The Spark session, with the settings on which the bytes and the speed of files depend."""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import ConfigurationError
from tidegate.settings import spark_lines
from tidegate.settings.spark_conf import SAME_ROWS
from tidegate.spark.hadoop_files import give_secrets
from tidegate.spark.task_size import WRITERS

# Else PySpark asks Java several times for each expression, to tell its line in our code.
STATIC = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Settings of a session that can be given at its start only."""
_LEGACY = "spark.sql.legacy."
_V1_SOURCES = "spark.sql.sources.useV1SourceList"


def start(app_name: str) -> SparkSession:
    """Start the session. The options of spark-submit (master, memory, jars) hold."""
    return configure_session(create_session(app_name))


def create_session(app_name: str) -> SparkSession:
    """Return the session before it is configured."""
    spark = SparkSession.builder.config(map=STATIC).appName(app_name).getOrCreate()
    context: Any = spark.sparkContext
    give_secrets(context._jsc.hadoopConfiguration())
    return spark


def configure_session(spark: SparkSession) -> SparkSession:
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
    # The legacy layout of lists differs from that of docs/internals/storage.md.
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "false")
    # With an open writer per topic, tasks need not sort by topic.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(WRITERS))
    # Java compiles no method of more than 8,000 bytes. Spark's limit is that of a class file.
    spark.conf.set("spark.sql.codegen.hugeMethodLimit", "8000")
    _pin(spark)
    return spark


def _pin(spark: SparkSession) -> None:
    """Set what values depend on, regardless of the cluster's defaults."""
    session: Any = spark._jsparkSession
    names = session.conf().getAll().keysIterator()
    given = [names.next() for _ in iter(names.hasNext, False)]
    for name, value in SAME_ROWS.items():
        # The session's settings are Hadoop's, too, and override those with `spark.hadoop.`.
        own = name.removeprefix("spark.hadoop.")
        if value is not None:
            spark.conf.set(own, value)
        elif own in given:  # else Spark would warn of a name that is deprecated
            spark.conf.unset(own)
    # Refused in a pipeline and in its connection; spark-defaults.conf of a machine may have them.
    for name in (each for each in given if each.startswith(_LEGACY) and each not in SAME_ROWS):
        if spark.conf.isModifiable(name):
            spark.conf.unset(name)


@functools.cache
def read_versions(spark: SparkSession) -> dict[str, str]:
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
