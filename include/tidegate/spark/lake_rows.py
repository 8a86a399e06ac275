"""Rows of a window of a lake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core import columns
from tidegate.core.offsets import OffsetRange
from tidegate.spark import expressions
from tidegate.spark.egress_job import RowSource
from tidegate.spark.hadoop_files import with_scheme
from tidegate.spark.row_frame import RowFrame, no_text
from tidegate.spark.source_files import EXACT_PATHS


def read_lake(spark: SparkSession, source: RowSource) -> RowFrame:
    """Read the rows of the window for which `where` is true.

    Raises NotAllowed, NotComputable or NotRepeatable for it.
    """
    # No rows, yet all columns: a window of nothing but control records has no file. Errors of
    # `where` are raised here too.
    types = {column.name: column.type for column in columns.COLUMNS} | columns.FROM_THE_LEDGER
    rows = spark.range(0).selectExpr(
        *(f"cast(null as {kind}) as `{name}`" for name, kind in types.items())
    )
    if source.where is not None:
        expressions.refuse_disallowed(spark, "where", source.where)
        where = expressions.compute_column(rows, source.where, "where")
        expressions.refuse_nondeterministic(rows, where, "where")
        rows = rows.where(F.expr(source.where))
    parts = [rows]
    for topic, topic_id in source.topic_ids.items():
        if paths := [with_scheme(path) for name, path in source.files if name == topic]:
            part = spark.read.schema(columns.data_file_ddl()).options(**EXACT_PATHS).parquet(*paths)
            part = part.withColumn("topic", F.lit(topic)).withColumn("topic_id", F.lit(topic_id))
            within = _within([r for r in source.window if r.topic == topic])
            parts.append(_filtered(part, within, source.where))
    return RowFrame(
        frame=reduce(DataFrame.unionByName, parts),
        file=F.concat_ws("/", "topic_id", "partition"),
        row=F.col("offset"),
        as_json=None,
        fault=no_text(),
        text=no_text(),
    )


def _filtered(rows: DataFrame, within: Column, where: str | None) -> DataFrame:
    """Return the rows within the window for which `where` is true.

    `where` may fail on other rows and is not evaluated on them. Nor are the expressions of the
    pipeline, since the condition is false there and not null.
    """
    condition = within if where is None else F.when(within, F.expr(where))
    return rows.where(F.coalesce(condition, F.lit(False)))


def _within(ranges: Sequence[OffsetRange]) -> Column:
    """Return whether a row is in the window, by two arrays indexed by its partition.

    Not by a join: expressions behind a join are evaluated also on rows that it drops.
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
