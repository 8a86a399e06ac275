"""Rows of files: Parquet, JSON lines, CSV and text, and the plan's names of these files."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.schema import parse
from tidegate.spark import csv_rows, json_lines, row_json
from tidegate.spark.compatibility import metadata_column
from tidegate.spark.egress_job import RowSource
from tidegate.spark.hadoop_files import located
from tidegate.spark.row_frame import RowFrame, no_text

# Read exactly these paths: `*` in a name is no pattern, and `day=1/` no column (looking for those,
# Spark would read a file beside such a directory twice).
EXACT_PATHS = {"__globPaths__": "false", "recursiveFileLookup": "true"}
# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_PLAIN = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9/._=-]*")
_LINE_SEPARATOR = "linesep"
_INEXACT = "text that is not UTF-8, or a year before 1: JSON cannot hold it; set columns.value"


def read(spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
    """Read a plan's files; `whole`: the pipeline sends rows as JSON, which must be exact; `line`:
    it sends the lines of JSON.
    """
    if source.format == "parquet":
        return _parquet(spark, source, whole=whole)
    _one_task_a_file(spark)
    if source.format == "csv":
        file = _name(source, F.input_file_name())  # known behind Python, too
        return csv_rows.read(spark, csv_lines(spark, source), source, file, _row_in_task())
    row = _row_in_task()
    if source.format == "json":
        return _json(spark, source, row, line=line)
    reader = spark.read.format("text").options(**source.options, **EXACT_PATHS)
    frame = reader.load(_paths(source))
    return RowFrame(frame, _file(source, frame), row, _all_as_json(frame), no_text(), no_text())


def files_read(spark: SparkSession, source: RowSource, selected: DataFrame) -> set[str]:
    """Return the plan's names of the files that Spark reads for a frame."""
    read = csv_lines(spark, source) if source.format == "csv" else selected
    return {name_of(source, uri) for uri in read.inputFiles()}


def _one_task_a_file(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.files.maxPartitionBytes", _ONE_FILE)
    spark.conf.set("spark.sql.files.openCostInBytes", _ONE_FILE)


def _row_in_task() -> Column:
    return F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)


def name_of(source: RowSource, uri: str) -> str:
    """Return the plan's name of the file at a URI."""
    return re.sub(_SLASHES, "/", unquote(uri)).removeprefix(_root(source))


def _parquet(spark: SparkSession, source: RowSource, *, whole: bool) -> RowFrame:
    reader = spark.read.format("parquet").options(**source.options, **EXACT_PATHS)
    frame = (reader.schema(source.columns) if source.columns else reader).load(_paths(source))
    row = metadata_column(frame)["row_index"]
    exact = row_json.is_exact(frame) if whole else F.lit(True)
    fault = F.when(~exact, F.lit(_INEXACT))
    return RowFrame(frame, _file(source, frame), row, _all_as_json(frame), fault, no_text())


def _json(spark: SparkSession, source: RowSource, row: Column, *, line: bool) -> RowFrame:
    fields = parse(source.columns) if source.columns else json_lines.NO_COLUMNS
    frame = json_lines.parsed(_lines(spark, source), fields, source.named_options, line=line)
    as_json = row_json.as_json([name for name, _ in fields], nulls=False)
    fault, text = F.col(json_lines.FAULT), F.col(json_lines.LINE)
    return RowFrame(
        frame, _file(source, frame), row, as_json, fault, F.when(fault.isNotNull(), text),
        (json_lines.FAULT, json_lines.LINE), text if line else None,
    )  # fmt: skip


def _lines(spark: SparkSession, source: RowSource) -> DataFrame:
    given = {k: v for k, v in source.options.items() if k.lower() == _LINE_SEPARATOR}
    return spark.read.format("text").options(**given, **EXACT_PATHS).load(_paths(source))


def csv_lines(spark: SparkSession, source: RowSource) -> DataFrame:
    """Return the lines of CSV files as `csv_records.Line`; each file is read by a task of its own.

    With a separator, Spark's reader keeps what it otherwise takes for the end of a line.
    """
    end = csv_rows.dialect(source).line_end
    frame = spark.read.format("text").options(lineSep=end, **EXACT_PATHS).load(_paths(source))
    of = F.xxhash64(metadata_column(frame)["file_path"])
    return frame.select(of, F.col("value").cast("binary"))


def _all_as_json(frame: DataFrame) -> Column:
    return row_json.as_json(frame.columns, nulls=True)


def _paths(source: RowSource) -> list[str]:
    return [located(path) for _, path in source.files]


def _file(source: RowSource, frame: DataFrame) -> Column:
    return _name(source, metadata_column(frame)["file_path"])


def _name(source: RowSource, path: Column) -> Column:
    """Return the plan's name of the file that a row is from: its path without the root."""
    root = _root(source)
    if root != "/" and all(_PLAIN.fullmatch(path) for _, path in source.files):
        # The URI has the path as it is, behind file:, file://, or nothing.
        begin = F.locate(root, path) + len(root)
        return path.substr(begin, F.lit(1 << 20))
    uri = F.replace(path, F.lit("+"), F.lit("%2B"))  # in a URI, a plus is no space
    decoded = F.regexp_replace(F.url_decode(uri), _SLASHES, "/")
    return F.substring(decoded, len(root) + 1, 1 << 20)


def _root(source: RowSource) -> str:
    name, path = source.files[0]
    return re.sub(_SLASHES, "/", path).removesuffix(name)
