"""Parquet files of a chunk: their directories, compression, dictionaries, page checksums, names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core import schema
from tidegate.core.parquet_settings import (
    PLAIN_VALUE,
    ParquetSettings,
    PartitionField,
    staged_directories,
)
from tidegate.core.schema import Type
from tidegate.spark.hadoop_files import HadoopDirectory, with_scheme
from tidegate.spark.ingest_job import Chunk
from tidegate.spark.typed_texts import within_type


def write_parquet(
    rows: DataFrame,
    chunk: Chunk,
    settings: ParquetSettings,
    hadoop: Mapping[str, str],
    *,
    begun: bool = False,
) -> None:
    """Write rows below the chunk's directory, each topic into `topic=<name>/`.

    The rows have a column for each level of directories in it. `hadoop` are the settings of the
    directory's file system. `begun`: other topics of the chunk are there already.
    """
    topics = {r.topic for r in chunk.window}
    directory, levels = with_scheme(chunk.directory), [field.directory for field in settings.fields]
    if settings.sort_by:
        known = [schema.quote_name(name) for name in settings.sort_by if name in rows.columns]
        rows = rows.sortWithinPartitions("topic", *levels, *known)
    if len(topics) == 1:
        # The same place as by partitionBy, which would copy every row to drop its topic.
        directory, rows = f"{directory}/topic={topics.pop()}", rows.drop("topic")
    else:
        levels.insert(0, "topic")
    writer = rows.write.partitionBy(*levels) if levels else rows.write
    if settings.level is not None:
        writer = writer.option(
            f"parquet.compression.codec.{settings.compression}.level", str(settings.level)
        )
    (
        writer.mode("append" if begun and len(topics) > 1 else "error")
        .options(**hadoop)
        .option("compression", settings.compression)
        .option("maxRecordsPerFile", str(settings.max_records_per_file))
        # Keys and values hardly repeat: a dictionary costs time and is given up anyway.
        .option("parquet.enable.dictionary#key", "false")
        .option("parquet.enable.dictionary#value", "false")
        # Sizes are looked at after the first record, and then as often as they demand: by default
        # after 100, which may be of megabytes, so that a page and its copies fill the memory.
        .option("parquet.page.size.row.check.min", "1")
        # `verify` detects a corrupt page by its checksum.
        .option("parquet.page.write-checksum.enabled", "true")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        # The directory is this attempt's own, and no file counts before _done.json.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .parquet(directory)
    )


def written_files(directory: HadoopDirectory, settings: ParquetSettings) -> list[str]:
    """Return the paths of the data files below a directory."""
    return sorted(path for path in directory.files() if staged_directories(path, settings.fields))


def add_directories(rows: DataFrame, fields: Sequence[PartitionField]) -> DataFrame:
    """Return rows with a column for each field, named as its directories.

    It is null where the value is, for a topic without such a column, and for a time that readers
    may not know, outside of the years 1 to 9999. No value fails. Spark writes null as
    `__HIVE_DEFAULT_PARTITION__`, which readers take for null. The session's zone is UTC.
    """
    names = frozenset(rows.columns)
    return rows.withColumns({field.directory: _value(field, names) for field in fields})


def _value(field: PartitionField, names: Collection[str]) -> Column:
    if field.column not in names:
        return F.lit(None).cast("string")
    column = F.col(field.column)
    if field.transform != "identity":
        column = within_type(column, Type("timestamp"))
    day = column.cast("date").cast("string")
    match field.transform:
        case "day":
            return day
        case "month":
            return F.regexp_replace(day, "-[0-9]{2}$", "")
        case "hour":
            return F.concat(day, F.lit("-"), F.lpad(F.hour(column).cast("string"), 2, "0"))
    text = column.cast("string")
    digest = F.concat(F.lit("~"), F.substring(F.sha2(text.cast("binary"), 256), 1, 32))
    return F.when(text.rlike(PLAIN_VALUE), text).otherwise(digest)
