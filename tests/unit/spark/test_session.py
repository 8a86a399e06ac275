"""The version and the settings of a Spark session."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from tidegate.core.parquet_settings import ParquetSettings
from tidegate.errors import ConfigurationError
from tidegate.spark import egress_driver, ingest_driver, session
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.ingest_job import IngestJob
from tidegate.spark.job_files import read_refusal


@pytest.mark.parametrize("version", ["2.4.8", "3.4.10-SNAPSHOT"])
def test_an_old_spark_is_refused(version: str) -> None:
    """Before 3.0 a producer of a task of ten minutes was closed under it."""
    old: Any = SimpleNamespace(version=version)
    with pytest.raises(ConfigurationError, match=rf"Spark {version}: 3\.5 or later is needed"):
        session.configure_session(old)


def test_an_old_spark_fails_an_ingest_without_retry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The application writes a refusal beside its job file: a retry would have the same Spark."""
    old: Any = SimpleNamespace(version="3.4.1", stop=lambda: None)
    monkeypatch.setattr(session, "start", lambda _: session.configure_session(old))
    job = tmp_path / "job.json"
    IngestJob(
        "f00d", (), ParquetSettings("zstd", 1, 1), app_name="tests", options={}, records=0
    ).write(job)
    assert ingest_driver.main(str(job)) == 1
    assert "Spark 3.4.1: 3.5 or later is needed" in str(read_refusal(LocalAnswers(tmp_path).read))


def test_an_old_spark_fails_an_egress_without_retry(tmp_path: Path) -> None:
    old: Any = SimpleNamespace(version="3.4.1")
    job: Any = SimpleNamespace(plan_id="f00d", options={})
    assert egress_driver.attempt_sending(old, job, LocalAnswers(tmp_path)) == 1
    assert "Spark 3.4.1: 3.5 or later is needed" in str(read_refusal(LocalAnswers(tmp_path).read))


@pytest.mark.parametrize("version", ["3.5.7", "3.10.0", "4.0.4", "4.1.0-preview1", "10.0.1"])
def test_a_newer_one_is_not(version: str) -> None:
    """Its settings are set, and Kafka is not in the list of V1 sources."""
    made: dict[str, str] = {}
    conf = SimpleNamespace(get=lambda _: "avro, kafka,csv", set=made.__setitem__)
    java = mock.MagicMock()
    java.conf().getAll().keysIterator().hasNext.return_value = False
    session.configure_session(
        cast(Any, SimpleNamespace(version=version, conf=conf, _jsparkSession=java))
    )
    assert made["spark.sql.sources.useV1SourceList"] == "avro,csv"
