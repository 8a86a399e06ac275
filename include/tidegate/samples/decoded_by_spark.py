"""Decode a sample of records by Spark, as a run would."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.decoding import Decoding
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_submit import submit
from tidegate.launch.submission import decoding_submission
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.decode_job import DecodeJob, Sample
from tidegate.spark.job_files import terminal_if_refused

if TYPE_CHECKING:
    import pyarrow

KeyAndValue = tuple[bytes | None, bytes | None]

logger = logging.getLogger(__name__)


def decode_samples(
    records: Mapping[str, Sequence[KeyAndValue]],
    decode: Mapping[str, Decoding],
    spark: SparkConnection,
    conf: Mapping[str, str],
) -> dict[str, pyarrow.Table]:
    """Return the typed columns of records of topics. Each topic has records, and is in `decode`.

    A table has a row for each record, in their order: the columns of the decoding, `_undecodable`
    the last. It starts the connection's Spark on this machine, with `conf`, the pipeline's own
    settings, which takes seconds. Without topics it does not. Raises StageFailed, OutOfMemory, or
    ConfigurationError.
    """
    if not records:
        return {}
    from pyarrow import parquet

    with tempfile.TemporaryDirectory(prefix="tidegate-") as private:
        samples = {
            topic: Sample(
                tuple(tuple(b if b is None else b.hex() for b in each) for each in listed),
                decode[topic],
                f"{private}/{number}",
            )
            for number, (topic, listed) in enumerate(records.items())
        }
        job = Path(private, "job.json")
        DecodeJob(tuple(samples.values())).write(job)
        logger.info("Spark decodes a sample")
        with terminal_if_refused(LocalAnswers(Path(private)).read):
            submit(decoding_submission(job, conf, spark), master="local[1]", log=logger.debug)
        return {
            topic: parquet.read_table(sample.directory).sort_by("offset").drop_columns("offset")
            for topic, sample in samples.items()
        }
