"""Stage chunks: read exact offset ranges of topics, write them as Parquet, say what was written."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import faults
from tidegate.errors import ConfigurationError
from tidegate.spark import kafka_source, session
from tidegate.spark.ingest_job import Bytes, Chunk, Job, refuse
from tidegate.spark.locations import located
from tidegate.spark.task_size import records_per_task

COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
DONE = "_done.json"

# On a local disk, no checksum file beside every file: the seal has digests. Elsewhere not, because
# the client of S3 wants the usual local file system for its buffers.
_NO_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",  # the cached one has checksums
}

_WRAPPERS = {
    "org.apache.spark.SparkException",
    "java.lang.reflect.InvocationTargetException",
    "java.util.concurrent.ExecutionException",
}

log = logging.getLogger(__name__)


def main(job_file: str) -> int:
    """Stage all chunks of a job file in order; return the exit code.

    A failure is told in one last line, `tidegate: <what>`, and without a secret.
    """
    job = Job.read(Path(job_file))
    Path(job_file).unlink()  # it may hold secrets, and whoever wrote it may be killed
    spark, doing = None, "starting Spark"
    try:
        spark = session.start(job.app_name)
        _allow_one_group(spark)
        for i, chunk in enumerate(job.chunks, start=1):
            doing = f"plan {job.plan_id} chunk {chunk.number} ({_topics(chunk)})"
            stage(spark, job, chunk)
            faults.point("stage.half" if i < len(job.chunks) else "stage.done")
    except Exception as error:
        told = f"{doing}: {kafka_source.redact(explain(error), job.options)}"
        log.error("tidegate: %s", told)
        if isinstance(error, ConfigurationError):
            refuse(Path(job_file).parent, told)
        return 1
    finally:
        if spark is not None:
            spark.stop()
    return 0


def stage(spark: SparkSession, job: Job, chunk: Chunk) -> Mapping[str, Any]:
    """Write one chunk into its directory, and then `_done.json`; return what that says.

    A directory without `_done.json` proves nothing. One that exists already is refused.
    """
    started = time.monotonic()
    done = write(spark, job, chunk, read(spark, job, chunk))
    log.info(
        "plan %s chunk %d: %d rows in %d files, %.2f s",
        job.plan_id, chunk.number, done["rows"], len(done["files"]), time.monotonic() - started,
    )  # fmt: skip
    return done


def read(spark: SparkSession, job: Job, chunk: Chunk) -> DataFrame:
    """Return the contract's columns, and `topic` to partition by, of exactly the chunk's window."""
    limit = job.max_records_per_task or records_per_task(
        chunk.window, spark.sparkContext.defaultParallelism
    )
    # One group for all chunks: Spark never forgets a group's partitions, and nothing joins it.
    given = {"kafka.group.id": f"tidegate-{job.plan_id}", **job.options}
    source = kafka_source.render(chunk.window, given, max_records_per_task=limit)
    return spark.read.format("kafka").options(**source).load().select("topic", *COLUMNS)


def write(spark: SparkSession, job: Job, chunk: Chunk, rows: DataFrame) -> Mapping[str, Any]:
    """Write rows as the chunk's files, count them on the way, and write `_done.json`."""
    root = _path(spark, chunk.directory)
    if root.getFileSystem(_hadoop(spark, chunk.directory)).exists(root):
        raise FileExistsError(f"{chunk.directory} already exists: another attempt may be in it")
    counted = Observation()
    _parquet(rows.observe(counted, F.count(F.lit(1)).alias("rows")), chunk, job.bytes)
    done = {
        "format": 1,
        "plan_id": job.plan_id,
        "chunk": chunk.number,
        "rows": counted.get["rows"],
        "files": _files(spark, chunk.directory),
        "versions": versions(spark),
    }
    _create(spark, chunk.directory, DONE, json.dumps(done, sort_keys=True, indent=1))
    return done


def explain(error: BaseException) -> str:
    """Return one line: the exception, or those of Java that it stands for, without wrappers."""
    thrown: Any = None
    if isinstance(error, CapturedException):
        thrown = error._origin
    elif isinstance(error, Py4JJavaError):
        thrown = error.java_exception
    told = [] if thrown else [_line(type(error).__name__, str(error))]
    while thrown is not None:
        line = _line(thrown.getClass().getSimpleName(), thrown.getMessage() or "")
        cause = thrown.getCause()
        if cause is None or thrown.getClass().getName() not in _WRAPPERS:
            told.append(line)
        thrown = cause
    return "; because of ".join(told)[:2000]


def _allow_one_group(spark: SparkSession) -> None:
    """Silence Spark's advice against a group id, six lines a chunk: it is about group members."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j.core.config.Configurator
    log4j.setLevel("org.apache.spark.sql.kafka010.KafkaSourceProvider", "ERROR")


def _line(name: str, message: str) -> str:
    # Lost data: after the advice to ignore it, the connector tells the reason.
    told = message.rpartition("Reason:")[2].partition("Driver stacktrace:")[0]
    return f"{name}: {' '.join(told.split())}"


def _topics(chunk: Chunk) -> str:
    topics = sorted({r.topic for r in chunk.window})
    return ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if topics[3:] else "")


def _parquet(rows: DataFrame, chunk: Chunk, settings: Bytes) -> None:
    topics = {r.topic for r in chunk.window}
    directory = located(chunk.directory)
    if len(topics) == 1:
        # The same place as by partition, but without a copy of every row to leave its topic out.
        directory, writer = f"{directory}/topic={topics.pop()}", rows.drop("topic").write
    else:
        writer = rows.write.partitionBy("topic")
    (
        writer.options(**_checksums(chunk.directory))
        .option("compression", settings.compression)
        .option(f"parquet.compression.codec.{settings.compression}.level", str(settings.level))
        .option("maxRecordsPerFile", str(settings.max_records_per_file))
        # Keys and values hardly repeat: a dictionary costs time and then falls back anyway.
        .option("parquet.enable.dictionary#key", "false")
        .option("parquet.enable.dictionary#value", "false")
        # `verify` knows a page that has rotted by its checksum.
        .option("parquet.page.write-checksum.enabled", "true")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        # The directory is this attempt's own, and no file counts before _done.json.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .parquet(directory)
    )


def _files(spark: SparkSession, directory: str) -> list[str]:
    """List what was written; a first file without rows, which Spark makes, is removed."""
    root = _path(spark, directory)
    hadoop = _hadoop(spark, directory)
    fs = root.getFileSystem(hadoop)
    base = fs.makeQualified(root).toUri()
    found = []
    listed = fs.listFiles(root, True)
    while listed.hasNext():
        file = listed.next()
        path = file.getPath()
        inner = base.relativize(path.toUri()).getPath()
        # Deeper than `topic=…/` lies what a committer left (`__magic_job-…`), and no data.
        if not path.getName().endswith(".parquet") or inner.count("/") != 1:
            continue
        if path.getName().startswith("part-00000-") and not _has_rows(spark, file, hadoop):
            fs.delete(path, False)
        else:
            found.append(inner)
    return sorted(found)


def _has_rows(spark: SparkSession, file: Any, hadoop: Any) -> bool:
    parquet = spark.sparkContext._jvm.org.apache.parquet.hadoop
    source = parquet.util.HadoopInputFile.fromStatus(file, hadoop)
    reader = parquet.ParquetFileReader.open(source)
    try:
        return bool(reader.getRecordCount())
    finally:
        reader.close()


def _create(spark: SparkSession, directory: str, name: str, text: str) -> None:
    """Write a file that is there as a whole or not at all."""
    final = _path(spark, directory, name)
    fs = final.getFileSystem(_hadoop(spark, directory))
    # An object of S3 is there when it is closed, and renaming it would be a copy.
    in_place = directory.startswith("s3a:")
    temporary = final if in_place else _path(spark, directory, f".{name}.tmp")
    out = fs.create(temporary, True)
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()
    if not in_place and not fs.rename(temporary, final):
        raise OSError(f"could not rename {temporary} to {name}")


def versions(spark: SparkSession) -> dict[str, str]:
    jvm = spark.sparkContext._jvm
    # Not Class.forName: jars given with --jars are only known to the context's loader.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    connector = loader.loadClass("org.apache.spark.sql.kafka010.KafkaSourceProvider")
    return {
        "spark": spark.version,
        "connector": str(connector.getPackage().getImplementationVersion()),
        "kafka-clients": jvm.org.apache.kafka.common.utils.AppInfoParser.getVersion(),
        "tidegate": tidegate.__version__,
    }


def _path(spark: SparkSession, directory: str, *name: str) -> Any:
    return spark.sparkContext._jvm.org.apache.hadoop.fs.Path(located(directory), *name)


def _hadoop(spark: SparkSession, directory: str) -> Any:
    configuration = spark.sparkContext._jvm.org.apache.hadoop.conf.Configuration(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    for key, value in _checksums(directory).items():
        configuration.set(key, value)
    return configuration


def _checksums(directory: str) -> Mapping[str, str]:
    return {} if "://" in directory else _NO_CHECKSUMS
