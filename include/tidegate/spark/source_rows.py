"""The rows of a source, lake or files, with the expressions of a pipeline computed on them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.spark import expressions, lake_rows
from tidegate.spark.egress_job import LINE, WHOLE, RowSource
from tidegate.spark.expressions import ALL, NotAllowed
from tidegate.spark.row_frame import RowFrame


def select_rows(
    spark: SparkSession, source: RowSource, columns: Mapping[str, Column | str]
) -> DataFrame:
    """Return `columns` of every row (text is SQL, WHOLE or LINE), its identity, `fault`, `text`.

    `file` is the plan's name of the file, or `<topic id>/<partition>` in a lake. `row` the position
    in the file from 0, or the offset. Raises NotAllowed, NotComputable and NotRepeatable for an
    expression that may not be used, OtherFormat for files of a format that is not here.
    """
    texts = _texts(columns)
    for name, sql in texts.items():
        if sql not in (WHOLE, LINE):
            expressions.refuse_disallowed(spark, f"columns: {name}", sql)
    if source.is_lake:
        rows = lake_rows.read_lake(spark, source)
    else:
        from tidegate.spark import formats

        named = _named(spark, columns)
        whole, line = (each in texts.values() for each in (WHOLE, LINE))
        if line and ALL in named:
            raise NotAllowed(
                "columns: `*` in an expression, beside the line of a file: name the columns"
            )
        files = formats.format_of_files(source.format)
        if why := files.complaint(source.columns, whole=whole, named=named):
            raise NotAllowed(f"columns: {why}")
        rows = files.read(spark, source, whole=whole, line=line)
    return rows.frame.select(
        *(_computed(rows, name, column) for name, column in columns.items()),
        rows.file.alias("file"),
        rows.row.alias("row"),
        rows.fault.alias("fault"),
        rows.text.cast("binary").alias("text"),  # it may not be UTF-8
    )


def _texts(columns: Mapping[str, Column | str]) -> dict[str, str]:
    return {name: column for name, column in columns.items() if isinstance(column, str)}


def _named(spark: SparkSession, columns: Mapping[str, Column | str]) -> set[str]:
    texts = {*_texts(columns).values()} - {WHOLE, LINE}
    return {name for sql in texts for name in expressions.columns_named(spark, sql)}


def _computed(rows: RowFrame, name: str, column: Column | str) -> Column:
    if isinstance(column, str) and column in (WHOLE, LINE):
        whole = rows.as_json if column == WHOLE else rows.line
        if whole is None:
            raise NotAllowed(f"columns: {name}: {column!r} is of a file; a lake has columns")
        return whole.alias(name)
    if isinstance(column, str):
        key = "order_by" if name.startswith("order") else f"columns.{name}"
        column = expressions.compute_column(rows.frame, column, key, rows.hidden)
    computed = column.alias(name)
    expressions.refuse_nondeterministic(rows.frame, computed, "columns")
    return computed
