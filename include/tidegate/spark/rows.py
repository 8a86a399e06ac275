"""Rows of files, or of a lake, each with an identity that is the same whoever reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.offsets import OffsetRange
from tidegate.spark import expressions, file_rows
from tidegate.spark.egress_job import Rows
from tidegate.spark.expressions import NotAllowed
from tidegate.spark.file_rows import JUST_THESE
from tidegate.spark.locations import located

WHOLE = "*"
"""What a pipeline's columns say for the whole row of a file, as JSON."""

_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_PLAIN = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9/._=-]*")

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


def select(spark: SparkSession, rows: Rows, columns: Mapping[str, Column | str]) -> DataFrame:
    """Return `columns` (a text is SQL, or WHOLE) of every row, and its identity: `file`, as the
    plan names it, and `row`.

    `row` is the offset in a lake, else the place in the file, from 0. `fault` is null, or what is
    wrong with the row by itself; `text` is then what is known of it. Raises NotAllowed and
    NotRepeatable for an expression that may not be used.
    """
    for name, column in columns.items():
        if isinstance(column, str) and column != WHOLE:
            expressions.refuse_others(spark, f"columns: {name}", column)
    return _of_lake(spark, rows, columns) if rows.is_lake else _of_files(spark, rows, columns)


def files_read(rows: Rows, selected: DataFrame) -> set[str]:
    """Return the plan's names of the files that Spark reads for what was selected."""
    return {name_of(rows, uri) for uri in selected.inputFiles()}


def name_of(rows: Rows, uri: str) -> str:
    """Return the plan's name of the file that Spark calls so."""
    return re.sub(_SLASHES, "/", unquote(uri)).removeprefix(_root(rows))


def _of_files(spark: SparkSession, rows: Rows, columns: Mapping[str, Column | str]) -> DataFrame:
    whole = any(isinstance(column, str) and column == WHOLE for column in columns.values())
    if whole and rows.format == "text":
        raise NotAllowed("columns: '*' is the row of a file as JSON; a line of text is its `value`")
    path = F.col("_metadata.file_path")  # of lines of JSON, before they have columns
    read = file_rows.read(spark, rows, _name(rows, path), whole=whole)
    return read.frame.select(
        *_shaped(read.frame, columns, read.whole),
        _name(rows, read.path).alias("file"),
        read.row.alias("row"),
        read.fault.alias("fault"),
        read.text.alias("text"),
    )


def _shaped(
    frame: DataFrame, columns: Mapping[str, Column | str], whole: Column | None
) -> list[Column]:
    """Return the columns with their names; those that change by themselves are refused."""
    shaped = []
    for name, column in columns.items():
        if isinstance(column, str) and column == WHOLE:
            if whole is None:
                raise NotAllowed(f"columns: {name}: '*' is the row of a file; a lake has columns")
            shaped.append(whole.alias(name))
            continue
        made = (F.expr(column) if isinstance(column, str) else column).alias(name)
        expressions.refuse_changing(frame, made, "columns")
        shaped.append(made)
    return shaped


def _name(rows: Rows, path: Column) -> Column:
    """Return the plan's name of the file that a row is from: its path without the root."""
    root = _root(rows)
    if root != "/" and all(_PLAIN.fullmatch(path) for _, path in rows.files):
        # The URI has the path as it is, behind file:, file://, or nothing.
        begin = F.locate(root, path) + len(root)
        return F.substring(path, begin, F.lit(1 << 20))
    # Of a URI: a plus is one, and no space.
    uri = F.replace(path, F.lit("+"), F.lit("%2B"))
    known = F.regexp_replace(F.url_decode(uri), _SLASHES, "/")
    return F.substring(known, len(root) + 1, 1 << 20)


def _root(rows: Rows) -> str:
    name, path = rows.files[0]
    return re.sub(_SLASHES, "/", path).removesuffix(name)


def _of_lake(spark: SparkSession, rows: Rows, columns: Mapping[str, Column | str]) -> DataFrame:
    # A range of nothing but control records has no file; what is wrong with `where` is told here.
    nothing = _nothing(spark)
    if rows.where is not None:
        expressions.refuse_others(spark, "where", rows.where)
        expressions.refuse_changing(nothing, F.expr(rows.where), "where")
        nothing = nothing.where(F.expr(rows.where))
    parts = []
    for topic, topic_id in rows.topic_ids.items():
        paths = [located(path) for name, path in rows.files if name == topic]
        ranges = [r for r in rows.window if r.topic == topic]
        if paths:
            read = spark.read.options(**JUST_THESE).parquet(*paths)
            read = read.withColumn("topic", F.lit(topic)).withColumn("topic_id", F.lit(topic_id))
            parts.append(_kept(read, _within(ranges), rows.where))
    read = reduce(DataFrame.unionByName, parts, nothing)
    return read.select(
        *_shaped(read, columns, None),
        F.concat_ws("/", "topic_id", "partition").alias("file"),
        F.col("offset").alias("row"),
        F.lit(None).cast("string").alias("fault"),
        F.lit(None).cast("string").alias("text"),
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
