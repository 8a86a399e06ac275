"""The ingest application: read exact offset ranges of topics and write them as Parquet."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidegate import faults
from tidegate.core import columns
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError
from tidegate.spark import delegation_tokens, kafka_source, session
from tidegate.spark.decoded_rows import decode_rows
from tidegate.spark.failures import report_failure
from tidegate.spark.hadoop_files import HadoopDirectory
from tidegate.spark.ingest_job import DONE, Chunk, IngestJob, StagedChunk
from tidegate.spark.job_files import merge_logins
from tidegate.spark.parquet_writer import add_directories, write_parquet, written_files
from tidegate.spark.received_job import receive_job
from tidegate.spark.record_size import record_size
from tidegate.spark.spark_versions import read_kafka
from tidegate.spark.task_size import divide_window, records_per_task

log = logging.getLogger(__name__)


def main(*args: str) -> int:
    """Stage all chunks of the job that the arguments name, in order. Return the exit code."""
    job, answers = receive_job(IngestJob, args)
    doing, staged = "starting Spark", 0
    try:
        with delegation_tokens.obtain_tokens(job.logins, job.records) as tokens:
            spark = session.start(job.app_name)
            try:
                with tokens.used_by(spark):
                    _log_no_advice(spark)
                    for i, chunk in enumerate(job.chunks, start=1):
                        doing = f"plan {job.plan_id} chunk {chunk.number} ({_topics(chunk)})"
                        stage_chunk(spark, job, chunk)
                        staged = i
                        faults.point("stage.half" if i < len(job.chunks) else "stage.done")
            finally:
                spark.stop()
    except Exception as error:
        secrets = merge_logins(job.options, job.logins)
        return report_failure(error, doing, secrets, answers, began=staged > 0)
    return 0


def stage_chunk(spark: SparkSession, job: IngestJob, chunk: Chunk) -> StagedChunk:
    """Write one chunk into its directory, then `_done.json`. Return the content of that file.

    A directory without `_done.json` is an unfinished attempt. Spark raises AnalysisException when
    the directory has files already: they may be of another attempt.
    """
    started = time.monotonic()
    done = write_chunk(spark, job, chunk, lambda part: read_chunk(spark, job, part))
    log.info(
        "plan %s chunk %d: %d rows in %d files, %.2f s",
        job.plan_id, chunk.number, done.rows, len(done.files), time.monotonic() - started,
    )  # fmt: skip
    return done


def read_chunk(spark: SparkSession, job: IngestJob, chunk: Chunk) -> DataFrame:
    """Return `topic` and the columns of a data file for exactly the chunk's window."""
    cores = spark.sparkContext.defaultParallelism
    prefix = job.options.get("groupIdPrefix", "tidegate")
    # One group for all chunks: Spark never forgets a group's partitions, and nothing joins it.
    given = {"kafka.group.id": f"{prefix}-{job.plan_id}", **job.options}
    parts = []
    most = job.parquet.max_records_per_file
    for window, tasks in divide_window(chunk.window, cores, most, job.options):
        limit = records_per_task(window, cores, job.options)
        options = kafka_source.source_options(window, given, max_records_per_task=limit)
        part = read_kafka(spark, options, window)
        parts.append(part.coalesce(tasks) if tasks else part)
    return reduce(DataFrame.union, parts).select("topic", *columns.NAMES)


def write_chunk(
    spark: SparkSession, job: IngestJob, chunk: Chunk, rows_of: Callable[[Chunk], DataFrame]
) -> StagedChunk:
    """Write and count the chunk's rows, then write `_done.json`. Return its content.

    `rows_of` returns the rows of a part of the chunk. Topics that are decoded alike are written
    together; of others the columns differ. ConfigurationError for a lake that executors do not
    share.
    """
    directory = HadoopDirectory.of(spark, chunk.directory)
    counts, largest = list[int](), list[int | None]()
    for part in _decoded_alike(job, chunk):
        # It costs 5 % of a stage, and stays because its count is one of the two that a seal
        # compares.
        counted = Observation()
        rows = rows_of(part).observe(
            counted, F.count(F.lit(1)).alias("rows"), F.max(record_size()).alias("largest")
        )
        if how := job.decode.get(part.window[0].topic):
            rows = decode_rows(rows, how)
        if fields := job.parquet.fields:
            rows = add_directories(rows, fields)
        write_parquet(rows, part, job.parquet, directory.settings, begun=bool(counts))
        found = counted.get
        counts.append(found["rows"])
        largest.append(found["largest"])
    files = tuple(written_files(directory, job.parquet))
    if sum(counts) and not files:  # Spark does not notice
        raise ConfigurationError(
            f"the executors have written {sum(counts)} rows, and none of their files is in "
            f"{chunk.directory}: it is not the same directory for driver and executors; mount the "
            "lake at this path everywhere"
        )
    done = StagedChunk(
        plan_id=job.plan_id,
        chunk=chunk.number,
        rows=sum(counts),
        largest=max((size for size in largest if size is not None), default=None),
        files=files,
        versions=session.read_versions(spark),
    )
    directory.create(DONE, json.dumps(done.to_json(), sort_keys=True, indent=1))
    return done


def _decoded_alike(job: IngestJob, chunk: Chunk) -> list[Chunk]:
    """Return the parts of a chunk whose topics have the same decoding."""
    groups: dict[str, list[OffsetRange]] = {}
    for r in chunk.window:
        how = job.decode.get(r.topic)
        groups.setdefault(how.sha256 if how else "", []).append(r)
    return [replace(chunk, window=tuple(ranges)) for ranges in groups.values()]


def _log_no_advice(spark: SparkSession) -> None:
    """Silence Spark's warnings about a group id, six lines a chunk, which concern group members,
    and about the length of a plan's text.
    """
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j.core.config.Configurator
    log4j.setLevel("org.apache.spark.sql.kafka010.KafkaSourceProvider", "ERROR")
    log4j.setLevel("org.apache.spark.sql.catalyst.util.SparkStringUtils", "ERROR")


def _topics(chunk: Chunk) -> str:
    topics = sorted({r.topic for r in chunk.window})
    return ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if topics[3:] else "")
