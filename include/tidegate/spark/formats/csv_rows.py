"""Rows of CSV files: records that Python has read on the executors, and Spark's types of them."""

from __future__ import annotations

from functools import partial

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.schema import Type, parse_columns
from tidegate.spark import source_files
from tidegate.spark.decoded import hidden_name
from tidegate.spark.egress_job import RowSource
from tidegate.spark.formats import csv_records, row_json
from tidegate.spark.formats.csv_records import Dialect
from tidegate.spark.row_frame import WHOLE_FILE, RowFrame
from tidegate.spark.spark_versions import metadata_column
from tidegate.spark.typed_texts import convert_with_options

# Executors may have no Tidegate.
cloudpickle.register_pickle_by_value(csv_records)
_ROW = "row bigint, values array<string>, fault string, text binary"
_BAD_ROW = hidden_name("values", "bad row")
_STRING = Type("string")
_OTHER_TYPE = "a value of another type than its column: see "


def dialect_of(source: RowSource) -> Dialect:
    """Return how the files are written, by the options of the source."""
    given = source.named_options
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


def read_lines(spark: SparkSession, source: RowSource) -> DataFrame:
    """Return the lines of CSV files as `csv_records.Line`. Each file is read by a task of its own.

    With a separator, Spark's reader keeps what it otherwise takes for the end of a line.
    """
    end = dialect_of(source).line_end
    frame = source_files.load_files(spark.read.format("text").options(lineSep=end), source)
    of = F.xxhash64(metadata_column(frame)["file_path"])
    return frame.select(of, F.col("value").cast("binary"))


def read_csv(spark: SparkSession, source: RowSource) -> RowFrame:
    """Return the rows of all files, in the declared columns."""
    assert source.columns, "validation refuses CSV without its columns"
    fields = parse_columns(source.columns)
    names = [name for name, _ in fields]
    is_typed = any(kind != _STRING for _, kind in fields)
    read_rows = partial(
        csv_records.parse_rows, dialect=dialect_of(source), columns=names, with_text=is_typed
    )
    source_files.read_each_by_one_task(spark)
    records = read_lines(spark, source).rdd.mapPartitions(read_rows)
    found = spark.createDataFrame(records, _ROW, verifySchema=False)
    options = source.named_options
    given = [F.get("values", F.lit(i)) for i in range(len(fields))]
    found = found.select(
        *(
            convert_with_options(value, kind, options).alias(name)
            for value, (name, kind) in zip(given, fields, strict=True)
        ),
        F.struct("row", "fault", "text", "values").alias(_BAD_ROW),
    )
    record = F.col(_BAD_ROW)
    other_types = F.concat_ws(
        ", ",
        *(
            F.when(
                F.get(record["values"], F.lit(i)).isNotNull()
                & row_json.column_named(name).isNull(),
                F.lit(name),
            )
            for i, (name, kind) in enumerate(fields)
            if kind != _STRING
        ),
    )
    fault = F.coalesce(
        record["fault"], F.when(other_types != "", F.concat(F.lit(_OTHER_TYPE), other_types))
    )
    # Null in a good row: an expression may have `*`, all columns of the frame.
    is_bad = F.when(
        fault.isNotNull(), F.struct(record["row"], fault.alias("fault"), record["text"])
    )
    frame = found.select(*map(row_json.column_named, names), is_bad.alias(_BAD_ROW))
    as_json = row_json.as_json(names, nulls=True)
    file = source_files.name_at(source, F.input_file_name())  # known behind Python, too
    is_file = record["row"].isNotNull()
    number = F.when(is_file, F.lit(WHOLE_FILE)).otherwise(source_files.row_in_task())
    return RowFrame(frame, file, number, as_json, record["fault"], record["text"], (_BAD_ROW,))


def _unescaped(sep: str) -> str:
    """Return a separator: a tab may be written as in Spark's options, with a backslash."""
    return {"\\t": "\t", "\\\\": "\\"}.get(sep, sep)
