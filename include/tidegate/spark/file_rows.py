"""Rows of files: Parquet, JSON lines, CSV and text, and what is wrong with a row by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.spark import json_lines
from tidegate.spark.egress_job import Rows
from tidegate.spark.json_lines import INEXACT, UNREADABLE
from tidegate.spark.locations import located

CORRUPT = "_corrupt_record"
"""Where Spark's readers of JSON and CSV put a row that they cannot read."""

# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
# A name is not a pattern, whatever characters it has; nor is `day=1/` a column: looking for those,
# Spark reads a file twice that lies beside such a directory.
JUST_THESE = {"__globPaths__": "false", "recursiveFileLookup": "true"}
_TO_JSON = {  # Spark's own default has milliseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_NOT_THE_SAME = (
    "as JSON it would not have the same content (a null, a number that is too long, a name twice, "
    "text that is not UTF-8): set columns.value, or source.columns"
)
_NOT_TEXT = "text that is not in UTF-8: set source.options.encoding"


@dataclass(frozen=True)
class FileRows:
    """Rows as read: `whole` is a row as JSON, `row` its place in its file, `fault` what keeps it
    from being sent (else null), `text` what is known of it then.
    """

    frame: DataFrame
    whole: Column
    row: Column
    fault: Column
    text: Column

    @property
    def path(self) -> Column:
        return self.frame.metadataColumn("_metadata")["file_path"]


def read(spark: SparkSession, rows: Rows, name: Column, *, whole: bool) -> FileRows:
    """Read a plan's files; `whole`: the pipeline sends rows as JSON, which must be exact.

    Raises `json_lines.Odd` where files do not go together. `name` is a file's in the plan, by the
    metadata of plain text.
    """
    paths = [located(path) for _, path in rows.files]
    if rows.format == "parquet":
        reader = spark.read.format("parquet").options(**rows.options).options(**JUST_THESE)
        frame = (reader.schema(rows.columns) if rows.columns else reader).load(paths)
        row = frame.metadataColumn("_metadata")["row_index"]
        same = _is_exact(frame) if whole else F.lit(True)
        fault = F.when(~same, F.lit(_NOT_THE_SAME))
        return FileRows(frame, _as_json(frame.columns, nulls=True), row, fault, _no_text())
    spark.conf.set("spark.sql.files.maxPartitionBytes", _ONE_FILE)
    spark.conf.set("spark.sql.files.openCostInBytes", _ONE_FILE)
    row = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)  # counts within a task
    if rows.format == "csv":
        return _csv(spark, rows, paths, row)
    reader = spark.read.format("text").options(**JUST_THESE)
    if rows.format == "text":
        frame = reader.options(**rows.options).load(paths)
        return FileRows(frame, _as_json(frame.columns, nulls=True), row, _no_text(), _no_text())
    separator = {k: v for k, v in rows.options.items() if k.lower() == "linesep"}
    lines = reader.options(**separator).load(paths)
    given = {k: v for k, v in rows.options.items() if k not in separator}
    if rows.columns:
        schema = StructType.fromDDL(rows.columns)
    else:
        json_lines.refuse_unlike(lines, name)
        schema = json_lines.inferred(spark, paths, {**rows.options, **JUST_THESE})
    schema = _known(schema)
    fault = _unused(CORRUPT, schema.names)
    as_json = _as_json(schema.names, nulls=False)
    within = _as_json([*schema.names], nulls=False, of="row")
    checked = within if whole and not rows.columns else None
    frame = json_lines.parsed(lines, schema, fault, given, checked)
    wrong = F.col(fault)
    reason = F.when(wrong.startswith(UNREADABLE), F.lit("cannot be read")).when(
        wrong.startswith(INEXACT), F.lit(_NOT_THE_SAME)
    )
    return FileRows(frame, as_json, row, reason, F.substring(wrong, 2, 1 << 30))


def _csv(spark: SparkSession, rows: Rows, paths: Sequence[str], row: Column) -> FileRows:
    reader = spark.read.format("csv").options(**rows.options).options(**JUST_THESE)
    given = {name.lower() for name in rows.options}
    reader = reader.option("enforceSchema", "false")  # each file's header is looked at
    if "header" not in given:
        reader = reader.option("header", "true")
    reader = reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    schema = _known(StructType.fromDDL(rows.columns) if rows.columns else _header(reader, paths))
    frame = reader.schema(StructType([*schema.fields]).add(CORRUPT, StringType())).load([*paths])
    fault = F.when(F.col(CORRUPT).isNotNull(), F.lit("cannot be read"))
    texts = [_quoted(f.name) for f in schema.fields if isinstance(f.dataType, StringType)]
    if texts and not given & {"encoding", "charset"}:
        fault = fault.when(F.concat_ws("", *texts).contains("\ufffd"), F.lit(_NOT_TEXT))
    # Which rows are malformed depends on the columns that are asked for: all, always.
    nulls = F.array(*(F.col(_quoted(name)).isNull() for name in frame.columns))
    row = row + F.size(nulls).bitwiseAND(0)
    return FileRows(frame, _as_json(schema.names, nulls=True), row, fault, F.col(CORRUPT))


def _header(reader: DataFrameReader, paths: Sequence[str]) -> StructType:
    """Return the columns that the first file with any tells; all must have those."""
    schemas = (reader.load(path).schema for path in paths)
    return next((schema for schema in schemas if schema.fields), StructType())


def _known(schema: StructType) -> StructType:
    """Return the columns of rows; Spark wants one more where there are none but malformed ones."""
    known = [field for field in schema.fields if field.name != CORRUPT]
    return StructType(known or [StructField("_", StringType())])


def _unused(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


def _as_json(names: Sequence[str], *, nulls: bool, of: str = "") -> Column:
    """Return a row as JSON; where all files have the same columns, with its nulls."""
    parts = (F.col(of).getField(name).alias(name) if of else F.col(_quoted(name)) for name in names)
    return F.to_json(F.struct(*parts), {**_TO_JSON, "ignoreNullFields": str(not nulls).lower()})


def _is_exact(frame: DataFrame) -> Column:
    """Return whether a row's values survive as JSON: not all text is UTF-8, nor all years AD."""
    checks = [
        check
        for field in frame.schema.fields
        if (check := _survives(F.col(_quoted(field.name)), field.dataType)) is not None
    ]
    return _all(checks)


def _survives(value: Column, kind: DataType) -> Column | None:
    """Return whether a value of a type does; None if any does."""
    match kind:
        case StringType():
            return F.is_valid_utf8(value)
        case DateType() | TimestampType() | TimestampNTZType():
            return value >= F.lit("0001-01-01").cast(kind)
        case ArrayType() if _survives(value, kind.elementType) is not None:
            return F.forall(value, lambda x: _all([_survives(x, kind.elementType)]))
        case MapType():
            keys = _survives(F.map_keys(value), ArrayType(kind.keyType))
            values = _survives(F.map_values(value), ArrayType(kind.valueType))
            return _all([keys, values]) if keys is not None or values is not None else None
        case StructType():
            fields = [_survives(value.getField(f.name), f.dataType) for f in kind.fields]
            return _all(fields) if any(each is not None for each in fields) else None
        case _:
            return None


def _all(checks: Sequence[Column | None]) -> Column:
    """Return whether all that can be said is true: as one array, for columns may be many."""
    known = [F.coalesce(check, F.lit(True)) for check in checks if check is not None]
    return ~F.array_contains(F.array(*known), False) if known else F.lit(True)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _no_text() -> Column:
    return F.lit(None).cast("string")
