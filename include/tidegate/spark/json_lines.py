"""JSON lines: each line must be one JSON object; its columns, where the pipeline names any."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from tidegate.spark.expressions import ALL

# Deeper types overflow the stack of executors and of the driver.
MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(MAX_DEPTH)}
_BEFORE = "what was sent before"
_NO_BIGINT = 19  # digits of the least whole number that is none
_DUPLICATES = "spark.sql.variant.allowDuplicateKeys"
# Where a line is sent as it is: Spark itself takes these, and other readers of JSON do not.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


class IncompatibleFiles(Exception):
    """Files that cannot be read together; `files` are those at fault, if that is known."""

    def __init__(self, message: str, files: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.files = list(files)


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


def deciding(lines: DataFrame, named: Collection[str], *, line: bool) -> DataFrame:
    """Return the lines whose values decide types: all that are no bad rows, whatever their types.

    `named` are the keys that expressions name; `line`: lines are sent as they are.
    """
    return lines.where(_is_one_object() & _parses(_STRICT if line else {}) & is_clear(named))


def is_clear(
    named: Collection[str], spelled: Collection[str] = (), *, line: str = "value"
) -> Column:
    """Return whether a line has each key in `named` once at most, whatever its case, and spelled
    like the one in `spelled`, if there is one. True for a line that is no JSON.
    """
    if not named:
        return F.lit(True)
    keys = F.json_object_keys(line)
    if ALL not in named:
        keys = F.filter(keys, lambda key: F.array_contains(_texts(named), F.lower(key)))
    folded = F.transform(keys, lambda key: F.lower(key))
    others = F.array_except(F.array_distinct(keys), _texts(spelled))
    misspelled = F.arrays_overlap(
        F.transform(others, lambda key: F.lower(key)), _texts({name.lower() for name in spelled})
    )
    once = F.size(folded) == F.size(F.array_distinct(folded))
    return F.coalesce(once & ~misspelled, F.lit(True))


def _texts(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names))).cast("array<string>")


def _named(form: StructType, named: Collection[str]) -> list[str]:
    return [name for name in form.names if {name.lower(), ALL} & {*named}]


def _key_counts(lines: DataFrame, keys: Collection[str]) -> list[Row]:
    """Return how many lines have a key, for each spelling of `keys`, the fewest first."""
    found = lines.select(F.explode(F.json_object_keys("value")).alias("key"))
    counts = found.where(F.lower("key").isin(*keys)).groupBy("key").count().collect()
    return sorted(counts, key=lambda row: (row[1], row.key))


def _spellings(lines: DataFrame, names: Sequence[str], before: StructType) -> dict[str, str]:
    """Return, by lower case, the names that differ from others only in case, as they count: as
    in what was sent `before`, else as in most lines.
    """
    lower = [name.lower() for name in names]
    several = {name for name in lower if lower.count(name) > 1}
    counts = _key_counts(lines, several) if several else []
    spelled = {name.lower(): name for name in [*names, *(row.key for row in counts)]}
    spelled |= {field.name.lower(): field.name for field in before.fields}
    return {name: spelled[name] for name in several}


def column_types(
    lines: DataFrame, file: Column, named: Collection[str], before: StructType, *, line: bool
) -> StructType:
    """Return the types of the keys in `named` (of all, if ALL is there): those `before`, of what
    was sent, and those in the files.

    Raises IncompatibleFiles where the content of one file, or what was sent before, decides how
    another file is read: a key has numbers of two kinds, or two types, or another case. Bad rows
    are ignored; `line`: lines are sent as they are.
    """
    spark = lines.sparkSession
    spark.conf.set(_DUPLICATES, "true")  # of keys that nothing names
    try:
        schemas = (
            deciding(lines, named, line=line)
            .groupBy(file.alias("file"))
            .agg(F.expr("schema_of_variant_agg(try_parse_json(value))").alias("schema"))
            .collect()
        )
    finally:
        spark.conf.unset(_DUPLICATES)
    files: dict[str, list[str]] = {}
    for row in sorted(schemas):
        files.setdefault(row.schema, []).append(row.file)
    forms = [(names, _struct(text)) for text, names in sorted(files.items(), key=lambda f: f[1])]
    known = sorted({name for _, form in forms for name in _named(form, named)})
    chosen = _spellings(lines, known, before)
    seen = {f.name.lower(): (f.name, f.dataType, _BEFORE) for f in before.fields}
    unlike: dict[str, str] = {}  # file → complaint
    for names, form in forms:
        for field in form.fields:
            key = field.name.lower()
            other = chosen.get(key, field.name)
            if not {key, ALL} & {*named} or (other != field.name and other in form.names):
                continue
            name, kind, first = seen.setdefault(key, (field.name, field.dataType, names[0]))
            both = _merged(kind, field.dataType) if name == field.name else None
            if both is not None:
                seen[key] = name, both, first
                continue
            complaint = (
                f"{names[0]} has {field.name!r} ({_type_name(field.dataType)}) and {first} has "
                f"{name!r} ({_type_name(kind)}): how one is read would depend on the other. "
                "Say which is meant by source.columns (and columns.value: '**' for whole lines)"
            )
            if first != _BEFORE:
                raise IncompatibleFiles(complaint)
            unlike |= dict.fromkeys(names, complaint)
    if unlike:
        raise IncompatibleFiles(next(iter(unlike.values())), [*unlike])
    return StructType([StructField(name, kind) for name, kind, _ in seen.values()])


def _struct(text: str) -> StructType:
    """Return the type of a variant's schema; no columns if the variants are no objects."""
    form = DataType.fromDDL(text.replace("OBJECT<>", "STRUCT<>").replace("OBJECT<", "STRUCT<"))
    return form if text.startswith("OBJECT") and isinstance(form, StructType) else StructType()


def _is_ambiguous(kind: DataType) -> bool:
    """Return whether keys within a value differ only in case, or not at all."""
    if isinstance(kind, ArrayType):
        return _is_ambiguous(kind.elementType)
    if not isinstance(kind, StructType):
        return False
    folded = {name.lower() for name in kind.names}
    return len(folded) < len(kind.names) or any(_is_ambiguous(f.dataType) for f in kind.fields)


def _merged(one: DataType, other: DataType) -> DataType | None:
    """Return the type of a key that has these in two files; None if the values of one would not
    have the type that they have alone.
    """
    match one, other:
        case NullType(), _:
            return other
        case _, NullType():
            return one
        case StructType(), StructType():
            fields = {field.name: field.dataType for field in one.fields}
            for field in other.fields:
                both = _merged(fields.get(field.name, NullType()), field.dataType)
                if both is None:
                    return None
                fields[field.name] = both
            return StructType([StructField(name, kind) for name, kind in fields.items()])
        case ArrayType(), ArrayType():
            element = _merged(one.elementType, other.elementType)
            return None if element is None else ArrayType(element)
        case _:
            return one if _type_name(one) == _type_name(other) else None


def _type_name(kind: DataType) -> str:
    # A variant has 1.0 as decimal(1,0), and whole numbers that are no BIGINT as decimals, too.
    if isinstance(kind, DecimalType) and kind.scale == 0 and kind.precision >= _NO_BIGINT:
        return f"whole number of {kind.precision} digits"
    fraction = isinstance(kind, DecimalType | DoubleType)
    return "number with a fraction" if fraction else kind.simpleString()


def inferred(
    lines: DataFrame,
    given: Mapping[str, str],
    named: Collection[str],
    before: StructType,
    *,
    line: bool,
) -> StructType:
    """Return the columns that Spark finds in the lines that are no bad rows, and those in `named`
    that only lines sent `before` had; `line`: lines are sent as they are.

    Of keys that nothing names, those are left out that Spark's columns cannot be called.
    """
    spark = lines.sparkSession
    reader: Any = spark.read.options(**given, **_DEPTH).option("mode", "PERMISSIVE")
    reader = reader.option("columnNameOfCorruptRecord", "_corrupt_record")._jreader
    jvm: Any = spark.sparkContext._jvm
    clear: Any = deciding(lines, named, line=line).select("value")
    texts = getattr(clear._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    found = StructType.fromJson(json.loads(reader.json(texts).schema().json()))
    ours = _named(found, named)
    chosen = _spellings(lines, ours, before)
    folded = [name.lower() for name in found.names]
    fields = {
        field.name: field
        for field, key in zip(found.fields, folded, strict=True)
        if (
            chosen.get(key, field.name) == field.name
            if field.name in ours
            else folded.count(key) == 1 and not _is_ambiguous(field.dataType)
        )
    }
    sent = {f.name: f for f in before.fields if f.name.lower() in {*named} - {*folded}}
    fields |= sent
    if missing := {*named} - {*folded, *map(str.lower, sent), ALL}:
        unclear = _key_counts(lines.where(~is_clear(named)), missing)
        names = {row.key.lower(): row.key for row in unclear}
        fields |= {name: StructField(name, StringType()) for name in names.values()}
    return StructType([*fields.values()])
