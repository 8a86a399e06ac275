"""Rows of files, or of a lake, each with an identity that is the same whoever reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from tidegate.spark.send_job import Rows

CORRUPT = "_corrupt_record"
"""Where Spark's readers of JSON and CSV put a row that they cannot read."""

# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_IN_PARTITION = (1 << 33) - 1  # monotonically_increasing_id: the lower bits count within a task


def configure(spark: SparkSession) -> None:
    """Set what the readers need, whatever the cluster's defaults are."""
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")
    # Which rows are malformed must not depend on the columns that are asked for.
    spark.conf.set("spark.sql.csv.parser.columnPruning.enabled", "false")


def select(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    """Return `columns` of every row, and its identity: `file`, as the plan names it, and `row`.

    `row` is the offset in a lake, else the place in the file, from 0. `bad` holds the text of a
    row that could not be read, else null.
    """
    return _of_lake(spark, rows, columns) if rows.is_lake else _of_files(spark, rows, columns)


def _of_files(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    source = _read(spark, rows, [path for _, path in rows.files])
    if rows.format == "parquet":
        row: Column = F.col("_metadata.row_index")
    else:
        row = F.monotonically_increasing_id().bitwiseAND(_IN_PARTITION)
    bad = F.col(CORRUPT) if CORRUPT in source.columns else F.lit(None).cast("string")
    return source.select(*columns, _name(rows).alias("file"), row.alias("row"), bad.alias("bad"))


def _name(rows: Rows) -> Column:
    """Return the plan's name of the file that a row is from: its path without the root."""
    name, path = rows.files[0]
    root = re.sub(_SLASHES, "/", path).removesuffix(name)
    # Of a URI: a plus is one, and no space.
    uri = F.replace("_metadata.file_path", F.lit("+"), F.lit("%2B"))
    known = F.regexp_replace(F.url_decode(uri), _SLASHES, "/")
    return F.substring(known, len(root) + 1, 1 << 20)


def _read(spark: SparkSession, rows: Rows, paths: list[str]) -> DataFrame:
    reader = spark.read.format(rows.format).options(**rows.options)
    if rows.format == "parquet":
        return (reader.schema(rows.columns) if rows.columns else reader).load(paths)
    spark.conf.set("spark.sql.files.maxPartitionBytes", _ONE_FILE)
    spark.conf.set("spark.sql.files.openCostInBytes", _ONE_FILE)
    if rows.format == "text":
        return reader.load(paths)
    if rows.format == "csv":
        reader = reader.option("enforceSchema", "false")  # each file's header is looked at
        if "header" not in {name.lower() for name in rows.options}:
            reader = reader.option("header", "true")
    reader = reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    schema = (reader.schema(rows.columns) if rows.columns else reader).load(paths).schema
    known = [field for field in schema.fields if field.name != CORRUPT]
    return reader.schema(StructType(known).add(CORRUPT, StringType())).load(paths)


def _of_lake(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    parts = []
    for topic, topic_id in rows.topic_ids.items():
        paths = [path for name, path in rows.files if name == topic]
        ranges = [(r.partition, r.start, r.end) for r in rows.window if r.topic == topic]
        if paths:
            wanted = spark.createDataFrame(ranges, "p int, from long, until long")
            here = (F.col("partition") == F.col("p")) & F.col("offset").between(
                F.col("from"), F.col("until") - 1
            )
            read = spark.read.parquet(*paths).join(F.broadcast(wanted), here, "left_semi")
            parts.append(
                read.withColumn("topic", F.lit(topic)).withColumn("topic_id", F.lit(topic_id))
            )
    read = reduce(DataFrame.unionByName, parts)
    return read.select(
        *columns,
        F.concat_ws("/", "topic_id", "partition").alias("file"),
        F.col("offset").alias("row"),
        F.lit(None).cast("string").alias("bad"),
    )
