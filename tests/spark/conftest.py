"""One Spark session for all of the directory's tests, and a topic of its own for each."""

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidegate import jars
from tidegate.spark.session import configure


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, the connector on the class path, and the settings of a real application."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("tidegate tests")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.driver.extraClassPath", ":".join(map(str, jars.paths("spark-kafka"))))
            .getOrCreate()
        )
    yield configure(session)
    session.stop()


@pytest.fixture
def topic() -> str:
    """Return a topic's name that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"
