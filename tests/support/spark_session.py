"""The one Spark session of a test process."""

import os
from unittest import mock

from pyspark.sql import SparkSession

from tidegate.launch import jars
from tidegate.spark.kafka_source import CONSUMER_CACHES
from tidegate.spark.session import configure

_started: list[SparkSession] = []


def shared() -> SparkSession:
    """Return the session: two cores, the connector on the class path, an application's settings."""
    if not _started:
        connector = ":".join(map(str, jars.paths("spark-kafka")))
        with mock.patch.dict(os.environ, SPARK_LOCAL_IP="127.0.0.1"):
            session = (
                SparkSession.builder.master("local[2]")
                .appName("tidegate tests")
                .config("spark.ui.enabled", "false")
                .config("spark.log.level", "ERROR")
                .config(map=dict(CONSUMER_CACHES))
                .config("spark.driver.extraClassPath", connector)
                .getOrCreate()
            )
        _started.append(configure(session))
    return _started[0]


def stop() -> None:
    """Stop the session, if there is one."""
    while _started:
        _started.pop().stop()
