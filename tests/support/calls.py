"""Calls of spark-submit for jobs of which only the call matters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.core.parquet_settings import ParquetSettings
from tidegate.launch.submission import Submission, make_submission
from tidegate.settings import spark_conf
from tidegate.spark.egress_job import EgressJob, RowSource
from tidegate.spark.ingest_job import IngestJob


def staging(
    job_file: Path, conf: Mapping[str, str], records: int, *, name: str = "tests", **given: Any
) -> Submission:
    """Return the call that stages a job file's chunks."""
    job = IngestJob(
        "f00d", (), ParquetSettings("zstd", 1, 1), app_name=name, options={}, records=records
    )
    return make_submission(job, job_file, conf, **given)


def sending(
    job_file: Path, conf: Mapping[str, str], *, rows: int = 0, name: str = "tests", **given: Any
) -> Submission:
    """Return the call that sends a job file's rows, as an egress submits it."""
    job = EgressJob(
        "f00d", RowSource("text", {}, None, (), (), {}, (), {}), {}, "t", (), False, False, None,
        {}, {}, "", "", app_name=name, options={}, records=rows,
    )  # fmt: skip
    return make_submission(job, job_file, {**conf, **spark_conf.RUN_ONCE}, **given)
