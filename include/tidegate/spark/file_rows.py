"""Rows of files: Parquet, JSON lines, CSV and text, and the plan's names of these files."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.spark import json_lines, row_json
from tidegate.spark.compatibility import metadata_column, struct
from tidegate.spark.egress_job import RowSource
from tidegate.spark.hadoop_files import located
from tidegate.spark.row_frame import RowFrame, no_text

CORRUPT = "_corrupt_record"
"""Where Spark's readers of JSON and CSV put a row that they cannot read."""

# Read exactly these paths: `*` in a name is no pattern, and `day=1/` no column (looking for those,
# Spark would read a file beside such a directory twice).
EXACT_PATHS = {"__globPaths__": "false", "recursiveFileLookup": "true"}
# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_PLAIN = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9/._=-]*")
_LINE_SEPARATOR = "linesep"
_NO_JSON = f"not one JSON object in UTF-8 of at most {json_lines.MAX_DEPTH} levels"
_OTHER_TYPE = "or a value of another type than its column"
_UNCLEAR = "a key of source.columns is there twice, or in another case"
_NO_CSV = f"too few or too many values, {_OTHER_TYPE}"
_INEXACT = "text that is not UTF-8, or a year before 1: JSON cannot hold it; set columns.value"
_NOT_TEXT = "text that is not in UTF-8: set source.options.encoding"


def read(spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
    """Read a plan's files; `whole`: the pipeline sends rows as JSON, which must be exact; `line`:
    it sends the lines of JSON.
    """
    if source.format == "parquet":
        return _parquet(spark, source, whole=whole)
    spark.conf.set("spark.sql.files.maxPartitionBytes", _ONE_FILE)
    spark.conf.set("spark.sql.files.openCostInBytes", _ONE_FILE)
    row = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)  # counts within a task
    if source.format == "csv":
        return _csv(spark, source, row)
    if source.format == "json":
        return _json(spark, source, row, line=line)
    reader = spark.read.format("text").options(**source.options, **EXACT_PATHS)
    frame = reader.load(_paths(source))
    return RowFrame(frame, _file(source, frame), row, _all_as_json(frame), no_text(), no_text())


def files_read(source: RowSource, selected: DataFrame) -> set[str]:
    """Return the plan's names of the files that Spark reads for a frame."""
    return {name_of(source, uri) for uri in selected.inputFiles()}


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
    lines = _lines(spark, source)
    given = {k: v for k, v in source.options.items() if k.lower() != _LINE_SEPARATOR}
    schema = struct(source.columns) if source.columns else StructType()
    clear = partial(json_lines.is_clear, schema.names)
    schema = _without_corrupt(schema)
    fault = CORRUPT
    while {fault, f"{fault}_line"} & {name.lower() for name in schema.names}:
        fault += "_"
    sent = f"{fault}_line" if line else None
    frame = json_lines.parsed(lines, schema, given, fault, sent, clear())
    as_line = F.col(f"{fault}_line") if line else None
    as_json = row_json.as_json(schema.names, nulls=False)
    text = f"{_NO_JSON}, {_OTHER_TYPE}" if source.columns else _NO_JSON
    # Not a column of the frame: it would be one of `*` in an expression.
    reason = F.when(~clear(line=fault), F.lit(_UNCLEAR)).when(F.col(fault).isNotNull(), F.lit(text))
    hidden = (fault, f"{fault}_line")
    file = _file(source, frame)
    return RowFrame(frame, file, row, as_json, reason, F.col(fault), hidden, as_line)


def _lines(spark: SparkSession, source: RowSource) -> DataFrame:
    given = {k: v for k, v in source.options.items() if k.lower() == _LINE_SEPARATOR}
    return spark.read.format("text").options(**given, **EXACT_PATHS).load(_paths(source))


def _csv(spark: SparkSession, source: RowSource, row: Column) -> RowFrame:
    given = {name.lower() for name in source.options}
    reader = _csv_reader(spark, source)
    paths = _paths(source)
    if source.columns:
        schema = struct(source.columns)
    else:
        schema = StructType([StructField(name, StringType()) for name in source.header or ()])
    schema = _without_corrupt(schema)
    frame = reader.schema(StructType([*schema.fields]).add(CORRUPT, StringType())).load(paths)
    typed = [field.name for field in schema.fields if not isinstance(field.dataType, StringType)]
    empty = [F.when(row_json.column(name).isNull(), F.lit(name)) for name in typed]
    see = F.when(
        F.concat_ws(", ", *empty) != "", F.concat(F.lit(": see "), F.concat_ws(", ", *empty))
    )
    wrong = F.concat(F.lit(_NO_CSV), F.coalesce(see, F.lit("")))
    fault = F.when(F.col(CORRUPT).isNotNull(), wrong)
    texts = [row_json.column(f.name) for f in schema.fields if isinstance(f.dataType, StringType)]
    if texts and not given & {"encoding", "charset"}:
        fault = fault.when(F.concat_ws("", *texts).contains("\ufffd"), F.lit(_NOT_TEXT))
    # Which rows are malformed depends on the columns that are asked for: always ask for all.
    nulls = F.array(*(row_json.column(name).isNull() for name in frame.columns))
    row = row + F.size(nulls).bitwiseAND(0)
    as_json = row_json.as_json(schema.names, nulls=True)
    return RowFrame(frame, _file(source, frame), row, as_json, fault, F.col(CORRUPT), (CORRUPT,))


def _csv_reader(spark: SparkSession, source: RowSource) -> DataFrameReader:
    reader = spark.read.format("csv").options(**source.options, **EXACT_PATHS)
    reader = reader.option("enforceSchema", "false")  # the header of each file is checked
    if "header" not in {name.lower() for name in source.options}:
        reader = reader.option("header", "true")
    return reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")


def header(spark: SparkSession, source: RowSource) -> tuple[str, ...]:
    """Return the columns of the first file of CSV by its own header; none of an empty file."""
    return tuple(_csv_reader(spark, source).load(_paths(source)[0]).schema.names)


def _without_corrupt(schema: StructType) -> StructType:
    """Return the columns without CORRUPT; Spark needs one even where all rows are malformed."""
    fields = [field for field in schema.fields if field.name != CORRUPT]
    return StructType(fields or [StructField("_", StringType())])


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
