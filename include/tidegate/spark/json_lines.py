"""JSON lines: each line must be one JSON object; its columns, where the pipeline declares any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

# Deeper types overflow the stack of executors and of the driver.
MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(MAX_DEPTH)}
# Where a line is sent as it is: Spark itself takes these, and other readers of JSON do not.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def parsed(
    lines: DataFrame,
    schema: StructType,
    given: Mapping[str, str],
    fault: str,
    line: str | None,
    clear: Column,
) -> DataFrame:
    """Return the columns of `schema` of every line that is not blank, and the column `fault`:
    null, or the text of a line that is not one JSON object, or not `clear`.

    `lines` has the column `value`. `line` adds a column of that name with the line as it is, which
    then must be JSON by the standard.
    """
    lines = lines.where(F.col("value").rlike(r"[^ \t\r\n]"))
    form = StructType([*schema.fields]).add(fault, StringType())
    options = {**given, **_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": fault}
    options |= _STRICT if line else {}
    row, is_clear = F.from_json("value", form, options).alias("row"), clear.alias("clear")
    rows = lines.select("value", row, is_clear)
    is_bad = F.col("row").getField(fault).isNotNull() | ~F.col("clear") | ~_is_one_object()
    return rows.select(  # no expression is to fail on a key of which there are two
        *(F.when(F.col("clear"), F.col("row").getField(n)).alias(n) for n in schema.names),
        F.when(is_bad, F.col("value")).alias(fault),
        *([F.col("value").alias(line)] if line else []),
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
