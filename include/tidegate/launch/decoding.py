"""Decode a sample of records by Spark, as a run would."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.core.decoding import UNDECODABLE, Decoding
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_submit import submit, terminal_if_refused
from tidegate.launch.submission import decoding_submission
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.decode_job import DecodeJob, Sample

KeyAndValue = tuple[bytes | None, bytes | None]

logger = logging.getLogger(__name__)


class Decoded(NamedTuple):
    """The typed columns of a record, as PyArrow returns them, and what does not fit, or None."""

    columns: dict[str, Any]
    undecodable: str | None


def decoded(
    records: Mapping[str, Sequence[KeyAndValue]],
    decode: Mapping[str, Decoding],
    spark: SparkConnection,
) -> dict[str, list[Decoded]]:
    """Return the typed columns of records of topics, each of which has records and is in `decode`.

    It starts Spark on this machine, that of the connection, which takes seconds; without topics it
    does not. Raises StageFailed, OutOfMemory, or ConfigurationError.
    """
    if not records:
        return {}
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
            submit(decoding_submission(job, spark), master="local[1]", log=logger.warning)
        return {topic: _read(sample.directory) for topic, sample in samples.items()}


def _read(directory: str) -> list[Decoded]:
    from pyarrow import parquet

    rows = parquet.read_table(directory).sort_by("offset").drop_columns("offset")
    return [
        Decoded(row, undecodable=row.pop(UNDECODABLE))
        for row in rows.to_pylist(maps_as_pydicts="strict")
    ]
