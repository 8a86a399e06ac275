"""Rows of CSV files: records that Python has read on the executors, and Spark's types of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.spark import csv_records, row_json
from tidegate.spark.compatibility import struct
from tidegate.spark.csv_records import Dialect
from tidegate.spark.egress_job import RowSource
from tidegate.spark.row_frame import RowFrame

# Executors may have no Tidegate.
cloudpickle.register_pickle_by_value(csv_records)
_ROW = "row bigint, values array<string>, fault string, text binary"
_OTHER_TYPE = "a value of another type than its column: see "
# What `from_csv` is given: one value, in which nothing is special.
_ONE_VALUE = {"sep": "\u0001", "quote": "", "escape": "\u0002", "nullValue": "\uffff"}
_SPECIAL = "[\u0000-\u0002\r\n]"  # in a value of another type than text: it is none
_OF_VALUES = {
    "dateformat", "timestampformat", "timestampntzformat", "timezone", "locale", "nanvalue",
    "positiveinf", "negativeinf",
}  # fmt: skip


def dialect(source: RowSource) -> Dialect:
    """Return how the files are written, by the options of the source."""
    given = {name.lower(): value for name, value in source.options.items()}
    is_on = {name for name, value in given.items() if value.strip().lower() == "true"}
    quote = given.get("quote", '"')
    return Dialect(
        sep=_unescaped(given.get("sep", given.get("delimiter", ","))),
        quote=quote,
        escape=given.get("escape", quote) or quote,
        comment=given.get("comment", ""),
        null=given.get("nullvalue"),
        empty=given.get("emptyvalue", ""),
        encoding=given.get("encoding", given.get("charset", "utf-8")),
        skip_leading="ignoreleadingwhitespace" in is_on,
        skip_trailing="ignoretrailingwhitespace" in is_on,
        line_end=given.get("linesep", "\n"),
        header="header" in is_on or "header" not in given,
    )


def read(
    spark: SparkSession, lines: DataFrame, source: RowSource, file: Column, row: Column
) -> RowFrame:
    """Return the rows of all files; `lines` are `csv_records.Line`, those of a file in a task.

    `file` and `row` are the identity of a row of that task.
    """
    if source.columns:
        schema = struct(source.columns)
    else:
        names = source.header or ("_c0",)  # Spark needs one, also of empty files
        schema = StructType([StructField(name, StringType()) for name in names])
    values = {field.name: F.get("values", F.lit(i)) for i, field in enumerate(schema.fields)}
    typed = [field for field in schema.fields if not isinstance(field.dataType, StringType)]
    read_rows = partial(
        csv_records.rows, dialect=dialect(source), columns=schema.names, with_text=bool(typed)
    )
    found = spark.createDataFrame(lines.rdd.mapPartitions(read_rows), _ROW, verifySchema=False)
    given = {k: v for k, v in source.options.items() if k.lower() in _OF_VALUES} | _ONE_VALUE
    read_values = values | {field.name: _typed(values[field.name], field, given) for field in typed}
    bad = "_bad_row"
    while bad in {name.lower() for name in schema.names}:
        bad += "_"
    found = found.select(
        *(value.alias(name) for name, value in read_values.items()),
        F.struct("row", "fault", "text", "values").alias(bad),
    )
    record = F.col(bad)
    other_types = F.concat_ws(
        ", ",
        *(
            F.when(
                F.get(record["values"], F.lit(i)).isNotNull()
                & row_json.column(field.name).isNull(),
                F.lit(field.name),
            )
            for i, field in enumerate(schema.fields)
            if field in typed
        ),
    )
    fault = F.coalesce(
        record["fault"], F.when(other_types != "", F.concat(F.lit(_OTHER_TYPE), other_types))
    )
    # Null in a good row: an expression may have `*`, all columns of the frame.
    is_bad = F.when(
        fault.isNotNull(), F.struct(record["row"], fault.alias("fault"), record["text"])
    )
    frame = found.select(*map(row_json.column, schema.names), is_bad.alias(bad))
    as_json = row_json.as_json(schema.names, nulls=True)
    number = F.coalesce(record["row"], row)
    return RowFrame(frame, file, number, as_json, record["fault"], record["text"], (bad,))


def names(spark: SparkSession, lines: DataFrame, source: RowSource, file: Column) -> list[Row]:
    """Return `file` and `names` of each file whose first record names its columns."""
    read_names = partial(csv_records.names, dialect=dialect(source))
    found = lines.rdd.mapPartitions(read_names)
    frame = spark.createDataFrame(found, "names array<string>", verifySchema=False)
    collected: list[Row] = frame.select(file.alias("file"), "names").collect()
    return collected


def _typed(value: Column, field: StructField, options: Mapping[str, str]) -> Column:
    """Return a value as the type of its column; null if it has another one."""
    form = f"v {field.dataType.simpleString()}"
    one = F.when(~value.rlike(_SPECIAL) & (value != ""), value)
    return F.from_csv(one, form, options).getField("v")


def _unescaped(sep: str) -> str:
    """Return a separator: a tab may be written as in Spark's options, with a backslash."""
    return {"\\t": "\t", "\\\\": "\\"}.get(sep, sep)
