"""Parquet files of a chunk: their compression, dictionaries, page checksums and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.hadoop_files import HadoopDirectory, located
from tidegate.spark.ingest_job import Chunk, ParquetSettings


def write_parquet(
    rows: DataFrame, chunk: Chunk, settings: ParquetSettings, hadoop: Mapping[str, str]
) -> None:
    """Write rows below the chunk's directory, each topic into `topic=<name>/`.

    `hadoop` are the settings of the directory's file system.
    """
    topics = {r.topic for r in chunk.window}
    directory = located(chunk.directory)
    if len(topics) == 1:
        # The same place as by partitionBy, which would copy every row to drop its topic.
        directory, writer = f"{directory}/topic={topics.pop()}", rows.drop("topic").write
    else:
        writer = rows.write.partitionBy("topic")
    (
        writer.options(**hadoop)
        .option("compression", settings.compression)
        .option(f"parquet.compression.codec.{settings.compression}.level", str(settings.level))
        .option("maxRecordsPerFile", str(settings.max_records_per_file))
        # Keys and values hardly repeat: a dictionary costs time and is given up anyway.
        .option("parquet.enable.dictionary#key", "false")
        .option("parquet.enable.dictionary#value", "false")
        # `verify` detects a corrupt page by its checksum.
        .option("parquet.page.write-checksum.enabled", "true")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        # The directory is this attempt's own, and no file counts before _done.json.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .parquet(directory)
    )


def written_files(spark: SparkSession, directory: HadoopDirectory) -> list[str]:
    """Return the paths written below a directory; the empty first file of Spark is deleted."""
    written = []
    for path, status in directory.files():
        # Below `topic=…/` committers leave files of their own (`__magic_job-…`).
        if not path.endswith(".parquet") or path.count("/") != 1:
            continue
        if "/part-00000-" in path and not _has_rows(spark, status, directory):
            directory.delete(path)
        else:
            written.append(path)
    return sorted(written)


def _has_rows(spark: SparkSession, status: Any, directory: HadoopDirectory) -> bool:
    parquet = spark.sparkContext._jvm.org.apache.parquet.hadoop
    file = parquet.util.HadoopInputFile.fromStatus(status, directory.configuration)
    reader = parquet.ParquetFileReader.open(file)
    try:
        return bool(reader.getRecordCount())
    finally:
        reader.close()
