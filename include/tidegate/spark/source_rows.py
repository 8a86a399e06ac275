"""The rows of a source, lake or files, with the expressions of a pipeline computed on them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.spark import expressions, file_rows, lake_rows
from tidegate.spark.egress_job import RowSource
from tidegate.spark.expressions import NotAllowed
from tidegate.spark.row_frame import RowFrame

WHOLE = "*"
"""A column's expression for the whole row of a file, as JSON."""


def configure(spark: SparkSession) -> None:
    """Set what the readers need, regardless of the cluster's defaults."""
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")
    # Which rows are malformed must not depend on the columns that are asked for.
    spark.conf.set("spark.sql.csv.parser.columnPruning.enabled", "false")
    spark.conf.unset("spark.sql.files.maxPartitionNum")  # it would merge files into one task
    # A record must not depend on the machine that makes it: a retry may run on another one.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "true")
    # List files in the driver: in executors it would be a Spark job of its own.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")


def select(
    spark: SparkSession, source: RowSource, columns: Mapping[str, Column | str]
) -> DataFrame:
    """Return `columns` of every row (text is SQL, or WHOLE), its identity, `fault` and `text`.

    `file` is the plan's name of the file, or `<topic id>/<partition>` in a lake; `row` the position
    in the file from 0, or the offset. Raises NotAllowed and NotRepeatable for an expression that
    may not be used.
    """
    for name, column in columns.items():
        if isinstance(column, str) and not _is_whole(column):
            expressions.refuse_disallowed(spark, f"columns: {name}", column)
    if source.is_lake:
        rows = lake_rows.read(spark, source)
    else:
        whole = any(map(_is_whole, columns.values()))
        if whole and source.format == "text":
            raise NotAllowed(
                "columns: '*' is the row of a file as JSON; a line of text is its `value`"
            )
        rows = file_rows.read(spark, source, whole=whole)
    return rows.frame.select(
        *(_computed(rows, name, column) for name, column in columns.items()),
        rows.file.alias("file"),
        rows.row.alias("row"),
        rows.fault.alias("fault"),
        rows.text.alias("text"),
    )


def _computed(rows: RowFrame, name: str, column: Column | str) -> Column:
    if _is_whole(column):
        if rows.as_json is None:
            raise NotAllowed(f"columns: {name}: '*' is the row of a file; a lake has columns")
        return rows.as_json.alias(name)
    computed = (F.expr(column) if isinstance(column, str) else column).alias(name)
    expressions.refuse_nondeterministic(rows.frame, computed, "columns")
    return computed


def _is_whole(column: Column | str) -> bool:
    return isinstance(column, str) and column == WHOLE
