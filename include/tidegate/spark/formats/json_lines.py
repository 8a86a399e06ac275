"""JSON lines: each line must be one JSON object. Its columns, where the pipeline declares any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.schema import Field, Fields, Type, parse_columns
from tidegate.spark import source_files
from tidegate.spark.decoded import BAD, MARK, fields_of, hidden_name
from tidegate.spark.egress_job import RowSource
from tidegate.spark.formats import row_json
from tidegate.spark.formats.json_parser import read_fields
from tidegate.spark.row_frame import RowFrame
from tidegate.spark.typed_texts import OF_TIMES, convert_text, convert_with_options

# Deeper types overflow the stack of executors and of the driver.
MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(MAX_DEPTH)}
# Spark itself takes these, and other readers of JSON do not.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_NO_JSON = f"not one JSON object in UTF-8 of at most {MAX_DEPTH} levels"
_UNCLEAR = "a key of source.columns is there twice, or in another case"
_TWICE = "a key occurs twice in an object, or the line is too long for Spark's types"
_NO_CHARACTER = "U+FDD0 or U+FDD1, which is no character"
_CHANGED = "half a surrogate pair: Spark would change it"
_HAS_MARK = r"(?i)[\x{fdd0}\x{fdd1}]|\\ufdd[01]"
# Of half a surrogate pair Spark makes `?`.
_HALF = "\ufdd1"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_HALVES = rf"\G((?:[^\\]|\\[^u]|\\u(?![dD][89a-fA-F])|{_PAIR})*+){_SURROGATE}"
LINE = hidden_name("value", "line")
"""The column with the line as it stands in the file."""
_READ = hidden_name("value", "read")  # the line with _HALF in place of half a surrogate pair
FAULT = hidden_name("value", "why")
"""The column that is null, or why a line cannot be sent."""
NO_COLUMNS: Fields = (Field(MARK, Type("string")),)
"""In place of columns, where none are declared: a key that no object has."""


def read_json_lines(spark: SparkSession, source: RowSource, *, line: bool) -> RowFrame:
    """Return the rows of files. `line`: lines are sent as they stand there."""
    source_files.read_each_by_one_task(spark)
    given = {k: v for k, v in source.options.items() if k.lower() == "linesep"}
    lines = source_files.load_files(spark.read.format("text").options(**given), source)
    fields = parse_columns(source.columns) if source.columns else NO_COLUMNS
    frame = parse_lines(lines, fields, source.named_options, line=line)
    as_json = row_json.as_json([name for name, _ in fields], nulls=False)
    fault, text = F.col(FAULT), F.col(LINE)
    return RowFrame(
        frame, source_files.name_of_file(source, frame), source_files.row_in_task(), as_json, fault,
        F.when(fault.isNotNull(), text), (FAULT, LINE), text if line else None,
    )  # fmt: skip


def parse_lines(
    lines: DataFrame, fields: Fields, options: Mapping[str, str], *, line: bool
) -> DataFrame:
    """Return the fields of each line that is not blank, FAULT, and LINE where `line` or FAULT is.

    `lines` has the column `value`. `options`, in small letters, say how texts are values.
    """
    has_columns = fields != NO_COLUMNS
    text = F.col("value")
    has_half = text.rlike(_SURROGATE)
    marked = F.when(has_half, F.regexp_replace(text, _HALVES, f"$1{_HALF}")).otherwise(text)
    rows = lines.where(text.rlike(r"[^ \t\r\n]")).select(text, marked.alias(_READ))
    is_bad = F.col(hidden_name(_READ, "json")).getField(BAD).isNotNull()
    found = [
        F.when(~_is_one_object() | is_bad & ~_parses(_STRICT), F.lit(_NO_JSON)),
    ]
    if has_columns:
        names = [name for name, _ in fields]
        found.append(F.when(~_is_clear(names), F.lit(_UNCLEAR)))
        found.append(F.when(text.rlike(_HAS_MARK), F.lit(_NO_CHARACTER)))
    if any(kind.parts for _, kind in fields):
        found.append(F.when(F.try_parse_json(F.col(_READ)).isNull(), F.lit(_TWICE)))

    def by_options(text: Column, kind: Type) -> Column:
        of_json = kind.name == "decimal"  # its numbers are of no language
        return convert_text(text, kind) if of_json else convert_with_options(text, kind, options)

    convert = by_options if OF_TIMES & options.keys() else convert_text
    of_line = read_fields(rows, _READ, fields, F.coalesce(*found), convert)
    rows, values, why = fields_of(of_line, _READ)
    if has_columns:
        of_values = F.to_json(F.struct(*(value.alias(name) for name, value in values.items())))
        changed = has_half & of_values.contains(_HALF)
        why = F.coalesce(of_line.whole, F.when(changed, F.lit(_CHANGED)), why)
    return rows.select(
        *(value.alias(name) for name, value in values.items()),
        why.alias(FAULT),
        F.when(F.lit(line) | why.isNotNull(), text).alias(LINE),
    )


def _is_one_object() -> Column:
    """Return whether a line holds one JSON object only: Spark ignores what follows the first.

    Tested as an element of an array, alone and followed by another one: a line that closes the
    array itself cannot give both lengths.
    """
    line = F.col("value")
    alone = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    followed = F.json_array_length(F.concat(F.lit("["), line, F.lit(",0]")))
    counted = F.coalesce((alone == 1) & (followed == 2), F.lit(False))
    return counted & line.rlike(r"^[ \t]*\{") & F.is_valid_utf8(line) & _is_shallow()


def _is_shallow() -> Column:
    """Return whether a line is nested no deeper than MAX_DEPTH."""
    line = F.col("value")
    brackets = F.length(line) - F.length(F.translate(line, "{[", ""))
    return F.when(brackets <= MAX_DEPTH, F.lit(True)).otherwise(_parses({}))


def _parses(options: Mapping[str, str]) -> Column:
    """Return whether Spark's parser takes a line, with these options."""
    given = {**_DEPTH, **options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "c"}
    return F.from_json("value", "c STRING", given).getField("c").isNull()


def _is_clear(names: Sequence[str]) -> Column:
    """Return whether a line has each of these keys once at most, and none in another case.

    Spark would take either of two, and a key in any case. True for a line that is no JSON.
    """
    folded = _texts({name.lower() for name in names})
    keys = F.filter(F.json_object_keys("value"), lambda key: F.array_contains(folded, F.lower(key)))
    once = F.size(keys) == F.size(F.array_distinct(keys))
    return F.coalesce(once & (F.size(F.array_except(keys, _texts(names))) == 0), F.lit(True))


def _texts(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names))).cast("array<string>")
