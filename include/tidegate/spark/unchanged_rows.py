"""Rows of a lake that are sent as they are: what the look at all rows would find is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.spark import records, source_rows
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.row_frame import FileRows
from tidegate.spark.sink import OBSERVED

_AS_IT_IS = {name: name for name in ("key", "value", "headers", "partition", records.TIMESTAMP)}
_MOST_FILES = 64  # partitions, each with a digest, for which every row is asked


def known_inputs(job: EgressJob) -> list[FileRows] | None:
    """Return what the look would find, if no row is bad. None if that is not known.

    The ledger has the rows of each partition, and manifests the largest record. Tombstones are
    sent, a target that is not compacted takes any key, and each partition of the one topic has its
    own.
    """
    source, target = job.source, [*job.target.values()]
    columns = {name: job.columns[name].strip() for name in _AS_IT_IS}
    if (
        not source.is_lake
        or source.where is not None
        or source.largest is None
        or columns != _AS_IT_IS
        or not job.tombstones
        or len(target) != 1
        or len(source.topic_ids) != 1
        or job.topic is None
        or target[0].compacted
        or len(source.counts) > _MOST_FILES
    ):
        return None
    largest = records.largest_bytes(job, source.largest)
    partitions = {f"{source.topic_ids[r.topic]}/{r.partition}": r.partition for r in source.window}
    if largest > target[0].largest or max(partitions.values()) >= target[0].partitions:
        return None  # the look says which rows
    return [
        FileRows(file, rows, largest=largest, placed={partitions[file]: (rows, 0)})
        for file, rows in sorted(source.counts.items())
        if rows
    ]


def are_in_time(spark: SparkSession, job: EgressJob) -> bool:
    """Say whether the target takes every row with its timestamp, which alone is read."""
    rows = source_rows.select_rows(
        spark, job.source, {"timestamp": F.expr("unix_millis(timestamp)")}
    )
    late = rows.where(records.late_or_early(job).isNotNull())
    return not late.limit(1).count()


def observe_digests(job: EgressJob, rows: DataFrame, inputs: Sequence[FileRows]) -> DataFrame:
    """Return the rows, whose digests are taken while they are sent."""
    partition, digest = F.col("partition"), F.col("digest")
    of_files = (
        F.bit_xor(F.when(partition == p, digest)).alias(f"digest{p}")
        for each in inputs
        for p in each.placed
    )
    return rows.withColumn("digest", records.content_digest(job)).observe(OBSERVED, *of_files)


def add_digests(inputs: Sequence[FileRows], digests: Sequence[int | None]) -> list[FileRows]:
    """Return what is known of each file with the digest of the rows that were sent."""
    return [
        replace(each, placed={p: (rows, digest or 0) for p, (rows, _) in each.placed.items()})
        for each, digest in zip(inputs, digests, strict=True)
    ]
