"""Rows of files, or of a lake, each with an identity that is the same whoever reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.core.offsets import OffsetRange
from tidegate.spark.locations import located
from tidegate.spark.send_job import Rows

CORRUPT = "_corrupt_record"
"""Where Spark's readers of JSON and CSV put a row that they cannot read."""

# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
# A name is not a pattern, whatever characters it has; nor is `day=1/` a column: looking for those,
# Spark reads a file twice that lies beside such a directory.
_JUST_THESE = {"__globPaths__": "false", "recursiveFileLookup": "true"}
_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_PLAIN = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9/._=-]*")
_IN_PARTITION = (1 << 33) - 1  # monotonically_increasing_id: the lower bits count within a task


_LAKE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "topic_id": "string",
}


class NotRepeatable(Exception):
    """A column would be another one the next time: no retry could tell what was sent."""


def configure(spark: SparkSession) -> None:
    """Set what the readers need, whatever the cluster's defaults are."""
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")
    # Which rows are malformed must not depend on the columns that are asked for.
    spark.conf.set("spark.sql.csv.parser.columnPruning.enabled", "false")
    spark.conf.unset("spark.sql.files.maxPartitionNum")  # it would put files together
    # A record must not depend on where it is made, and a retry may be made elsewhere.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "true")
    # Files are listed here: executors would need a job for it.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")


def select(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    """Return `columns` of every row, and its identity: `file`, as the plan names it, and `row`.

    `row` is the offset in a lake, else the place in the file, from 0. `bad` holds the text of a
    row that could not be read, else null.
    """
    return _of_lake(spark, rows, columns) if rows.is_lake else _of_files(spark, rows, columns)


def name_of(rows: Rows, uri: str) -> str:
    """Return the plan's name of the file that Spark calls so."""
    return re.sub(_SLASHES, "/", unquote(uri)).removeprefix(_root(rows))


def _of_files(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    source = _read(spark, rows)
    _refuse_changing(source, columns)
    if rows.format == "parquet":
        row: Column = F.col("_metadata.row_index")
    else:
        row = F.monotonically_increasing_id().bitwiseAND(_IN_PARTITION)
    bad = F.lit(None).cast("string")
    if CORRUPT in source.columns:
        bad = F.col(CORRUPT)
        # Which rows of JSON are malformed depends on the columns that are asked for: all, always.
        all_of_them = (F.col(f"`{name}`").isNull().cast("long") for name in source.columns)
        row = row + reduce(Column.__add__, all_of_them).bitwiseAND(0)
    return source.select(*columns, _name(rows).alias("file"), row.alias("row"), bad.alias("bad"))


def _name(rows: Rows) -> Column:
    """Return the plan's name of the file that a row is from: its path without the root."""
    root = _root(rows)
    if root != "/" and all(_PLAIN.fullmatch(path) for _, path in rows.files):
        # The URI has the path as it is, behind file:, file://, or nothing.
        begin = F.locate(root, F.col("_metadata.file_path")) + len(root)
        return F.substring(F.col("_metadata.file_path"), begin, F.lit(1 << 20))
    # Of a URI: a plus is one, and no space.
    uri = F.replace("_metadata.file_path", F.lit("+"), F.lit("%2B"))
    known = F.regexp_replace(F.url_decode(uri), _SLASHES, "/")
    return F.substring(known, len(root) + 1, 1 << 20)


def _root(rows: Rows) -> str:
    name, path = rows.files[0]
    return re.sub(_SLASHES, "/", path).removesuffix(name)


def _refuse_changing(source: DataFrame, columns: Sequence[Column], what: str = "columns") -> None:
    jvm: Any = source.sparkSession.sparkContext._jvm
    clock = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    for column in columns:
        one = source.select(column)
        plan = one._jdf.queryExecution().analyzed()
        if not plan.deterministic() or plan.containsPattern(clock):
            raise NotRepeatable(
                f"{what}: {one.columns[0]} would be another one each time that it is computed (by "
                "chance, or by the clock): what was sent could not be told from what was not"
            )


def _read(spark: SparkSession, rows: Rows) -> DataFrame:
    paths = [located(path) for _, path in rows.files]
    reader = spark.read.format(rows.format).options(**rows.options).options(**_JUST_THESE)
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
    schema = StructType.fromDDL(rows.columns) if rows.columns else _inferred(reader, rows, paths)
    known = [field for field in schema.fields if field.name != CORRUPT]
    # Nothing but malformed rows: Spark wants one column more.
    known = known or [StructField("_", StringType())]
    return reader.schema(StructType(known).add(CORRUPT, StringType())).load(paths)


def _inferred(reader: DataFrameReader, rows: Rows, paths: list[str]) -> StructType:
    """Return the columns that the files tell; of CSV the first file's, and all must have those."""
    typed = {name.lower(): value for name, value in rows.options.items()}.get("inferschema")
    if rows.format != "csv" or typed == "true":
        return reader.load(paths).schema
    schemas = (reader.load(path).schema for path in paths)
    return next((schema for schema in schemas if schema.fields), StructType())


def _of_lake(spark: SparkSession, rows: Rows, columns: Sequence[Column]) -> DataFrame:
    # A range of nothing but control records has no file; what is wrong with `where` is told here.
    nothing = _nothing(spark)
    if rows.where is not None:
        _refuse_changing(nothing, [F.expr(rows.where)], "where")
        nothing = nothing.where(F.expr(rows.where))
    parts = []
    for topic, topic_id in rows.topic_ids.items():
        paths = [located(path) for name, path in rows.files if name == topic]
        ranges = [r for r in rows.window if r.topic == topic]
        if paths:
            read = spark.read.options(**_JUST_THESE).parquet(*paths)
            read = read.withColumn("topic", F.lit(topic)).withColumn("topic_id", F.lit(topic_id))
            parts.append(_kept(read, _within(ranges), rows.where))
    read = reduce(DataFrame.unionByName, parts, nothing)
    _refuse_changing(read, columns)
    return read.select(
        *columns,
        F.concat_ws("/", "topic_id", "partition").alias("file"),
        F.col("offset").alias("row"),
        F.lit(None).cast("string").alias("bad"),
    )


def _kept(read: DataFrame, within: Column, where: str | None) -> DataFrame:
    """Return the rows within the window of which `where` is true.

    `where` may fail on other rows, so it is not tried on them; nor is what Spark puts behind this,
    for it is false of them, and not null.
    """
    kept = within if where is None else F.when(within, F.expr(where))
    return read.where(F.coalesce(kept, F.lit(False)))


def _within(ranges: Sequence[OffsetRange]) -> Column:
    """Return whether a row is in the window, by its partition's place in two lists.

    Not by a join: what comes behind one is tried on rows that it would drop.
    """
    starts = [0] * (1 + max(r.partition for r in ranges))
    ends = list(starts)
    for r in ranges:
        starts[r.partition], ends[r.partition] = r.start, r.end
    start, end = (
        F.get(F.from_json(F.lit(json.dumps(each)), "array<bigint>"), F.col("partition"))
        for each in (starts, ends)
    )
    return (F.col("offset") >= start) & (F.col("offset") < end)


def _nothing(spark: SparkSession) -> DataFrame:
    """Return no rows, without a Python on the executors."""
    fields = (f"cast(null as {kind}) as {name}" for name, kind in _LAKE_COLUMNS.items())
    return spark.range(0).selectExpr(*fields)
