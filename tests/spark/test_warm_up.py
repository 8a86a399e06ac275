"""What the application does from which the archive of Spark's classes is made."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.spark import session, warm_up_driver


class Kept:
    """A session of its own, whose context goes on for other tests."""

    def __init__(self, spark: SparkSession) -> None:
        self._own = spark.newSession()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def stop(self) -> None:
        pass


def test_it_does_what_runs_do(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the functions of runs: an error here is no archive, and each start is slower."""
    monkeypatch.setattr(session, "start", lambda _: Kept(spark))
    loaded = []
    monkeypatch.setattr(warm_up_driver, "load_kafka_client", loaded.append)
    warm_up_driver.main()
    assert len(loaded) == 1
