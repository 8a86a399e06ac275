"""The values of rows by which data files are partitioned, as names of directories."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core.parquet_settings import PLAIN_VALUE, PartitionField


def with_values(rows: DataFrame, fields: Sequence[PartitionField]) -> DataFrame:
    """Return rows with a column for each field, named as its directories.

    It is null where the value is, and for a topic without such a column; no value fails. Spark
    writes null as `__HIVE_DEFAULT_PARTITION__`, which readers take for null.
    """
    names = frozenset(rows.columns)
    return rows.withColumns({field.directory: _value(field, names) for field in fields})


def _value(field: PartitionField, names: Collection[str]) -> Column:
    if field.column not in names:
        return F.lit(None).cast("string")
    column = F.col(field.column)
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
