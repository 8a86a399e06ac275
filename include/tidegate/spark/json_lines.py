"""JSON lines: each line must be one JSON object; its columns, where the pipeline declares any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

# Deeper types overflow the stack of executors and of the driver.
MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(MAX_DEPTH)}
# Spark itself takes these, and other readers of JSON do not.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
# Spark computes a number that it reads as text: 1.10 becomes 1.1. Quoted, with a mark, it is kept.
# The marks are no characters of Unicode's.
_MARK = "\ufdd0#"
_NUMBER = r'\G((?:[^"0-9-]|"(?:[^"\\]|\\.)*+")*+)(-?[0-9][0-9.eE+-]*+)'
_COMPUTED = r"[0-9][.eE]|-0"
_HAS_MARK = r"(?i)[\x{fdd0}\x{fdd1}]|\\ufdd[01]"
_MARKED = f'"{_MARK}([^"]*)"|^{_MARK}(.*)$'
# Of half a surrogate pair it makes `?`.
_HALF = "\ufdd1"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_HALVES = rf"\G((?:[^\\]|\\[^u]|\\u(?![dD][89a-fA-F])|{_PAIR})*+){_SURROGATE}"


def parsed(
    lines: DataFrame,
    schema: StructType,
    given: Mapping[str, str],
    fault: str,
    line: str | None,
    clear: Column,
) -> DataFrame:
    """Return the columns of `schema` of every line that is not blank, and the column `fault`:
    null, or the text of a line that is not one JSON object by the standard, or not `clear`.

    `lines` has the column `value`. `line` adds a column of that name with the line as it is. The
    column `<fault>_changed` says whether a line is bad because Spark would change a text in it.
    """
    lines = lines.where(F.col("value").rlike(r"[^ \t\r\n]"))
    form = StructType([*schema.fields]).add(fault, StringType())
    options = {**given, **_DEPTH, **_STRICT}
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": fault}
    kept = StructType(
        [StructField(f.name, t) for f in schema.fields if (t := _texts_in(f.dataType))]
    )
    value = F.col("value")
    is_odd = value.rlike(f"{_COMPUTED}|{_SURROGATE}")
    marked = F.regexp_replace("value", _HALVES, f"$1{_HALF}")
    marked = F.regexp_replace(marked, _NUMBER, f'$1"{_MARK}$2"')
    rows = lines.select(
        "value",
        F.from_json("value", form, options).alias("row"),
        F.from_json(F.when(is_odd, marked), kept, options).alias("written"),
        clear.alias("clear"),
    )
    row, written = F.col("row"), F.col("written")
    changed = F.lit(False)
    if kept.fields:
        within = [f.name for f in kept.fields if not isinstance(f.dataType, StringType)]
        changed = is_odd & (
            value.rlike(_HAS_MARK)
            | _as_json(written, kept.names).contains(_HALF)
            | _as_json(written, within).rlike(f"{_MARK}(-?[0-9]+[.eE]|-0)")
        )
    is_bad = row.getField(fault).isNotNull() | ~F.col("clear") | ~_is_one_object() | changed
    return rows.select(  # no expression is to fail on a key of which there are two
        *(F.when(F.col("clear"), _as_written(field)).alias(field.name) for field in schema.fields),
        F.when(is_bad, F.col("value")).alias(fault),
        F.when(changed, F.lit(True)).alias(f"{fault}_changed"),
        *([F.col("value").alias(line)] if line else []),
    )


def _as_json(written: Column, names: Sequence[str]) -> Column:
    fields = [written.getField(name).alias(name) for name in names]
    return F.coalesce(F.to_json(F.struct(*fields)) if names else F.lit(None), F.lit(""))


def _as_written(field: StructField) -> Column:
    """Return a column; of numbers that are read as text, their text."""
    value = F.col("row").getField(field.name)
    if not isinstance(field.dataType, StringType):
        return value
    written = F.col("written").getField(field.name)
    return F.coalesce(F.regexp_replace(written, _MARKED, "$1$2"), value)


def _texts_in(kind: DataType) -> DataType | None:
    """Return the type without all that is no text; None if it has no text."""
    match kind:
        case StringType():
            return kind
        case ArrayType() if element := _texts_in(kind.elementType):
            return ArrayType(element)
        case MapType() if value := _texts_in(kind.valueType):
            return MapType(kind.keyType, value)
        case StructType():
            fields = [StructField(f.name, t) for f in kind.fields if (t := _texts_in(f.dataType))]
            return StructType(fields) if fields else None
        case _:
            return None


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


def is_clear(names: Sequence[str], *, line: str = "value") -> Column:
    """Return whether a line has each of these keys once at most, and none in another case.

    Spark would take either of two, and a key in any case. True for a line that is no JSON.
    """
    if not names:
        return F.lit(True)
    folded = _texts({name.lower() for name in names})
    keys = F.filter(F.json_object_keys(line), lambda key: F.array_contains(folded, F.lower(key)))
    once = F.size(keys) == F.size(F.array_distinct(keys))
    return F.coalesce(once & (F.size(F.array_except(keys, _texts(names))) == 0), F.lit(True))


def _texts(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names))).cast("array<string>")
