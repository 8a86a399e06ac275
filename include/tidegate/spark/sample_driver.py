"""The application that decodes samples of records, as an ingest decodes its chunks."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.core import schema
from tidegate.spark import session
from tidegate.spark.decode_job import DecodeJob, Sample
from tidegate.spark.decoded_rows import decode_rows
from tidegate.spark.failures import report_failure
from tidegate.spark.hadoop_files import with_scheme
from tidegate.spark.received_job import receive_job


def main(*args: str) -> int:
    """Write the rows of the job's samples, as Parquet. Return the exit code."""
    job, answers = receive_job(DecodeJob, args)
    try:
        spark = session.start("tidegate sample")
        try:
            for sample in job.samples:
                _write(spark, sample)
        finally:
            spark.stop()
    except Exception as error:
        return report_failure(error, "decoding a sample", {}, answers)
    return 0


def _write(spark: SparkSession, sample: Sample) -> None:
    given = spark.createDataFrame(
        [(offset, *record) for offset, record in enumerate(sample.records)],
        "offset INT, key STRING, value STRING",
    )
    both = (F.unhex(name).alias(name) for name in ("key", "value"))
    rows = decode_rows(given.select("offset", *both), sample.decoding)
    columns = (schema.quote_name(field.name) for field in sample.decoding.columns)
    rows.select("offset", *columns).write.parquet(with_scheme(sample.directory))
