"""JSON lines: a line is one JSON object, of which nothing is lost without being reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    NullType,
    StringType,
    StructType,
)

# Deeper types overflow the stack of an executor, and of whatever holds it.
_DEEPEST = 100
_DEPTH = {"maxNestingDepth": str(_DEEPEST)}

UNREADABLE, INEXACT = "r", "x"
"""Before the text of a line in the column of faults: what is wrong with it."""

# Variants keep a number of 38 digits; and one with an exponent as a double, with 17 of them.
_LONG_NUMBERS = r"[:\[,]\s*-?(?:[0-9.]{39,}|[0-9.]{17,}[eE]|[0-9.]+[eE]\+?[0-9]{3})"


class Odd(Exception):
    """Files that cannot be read with the others; `files` are those at fault, if it is known."""

    def __init__(self, message: str, files: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.files = list(files)


def parsed(
    lines: DataFrame, schema: StructType, fault: str, given: Mapping[str, str], whole: Column | None
) -> DataFrame:
    """Return the columns of `schema` of every line that is not blank, and `fault`: null, or a
    letter and the text of a line that cannot be sent.

    `lines` has the column `value`. With `whole`, the columns of `row` as JSON, a line that this
    would not give back with the same content counts as inexact.
    """
    lines = lines.where(F.col("value").rlike(r"[^ \t\r\n]"))
    form = StructType([*schema.fields]).add(fault, StringType())
    how = {**given, **_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": fault}
    rows = lines.select("value", F.from_json("value", form, how).alias("row"))
    wrong = F.when(
        F.col("row").getField(fault).isNotNull() | ~_is_one_object(),
        F.concat(F.lit(UNREADABLE), "value"),
    )
    if whole is not None:
        wrong = wrong.when(~_says_the_same(whole), F.concat(F.lit(INEXACT), "value"))
    return rows.select(
        *(F.col("row").getField(field.name).alias(field.name) for field in schema.fields),
        wrong.alias(fault),
    )


def _is_one_object() -> Column:
    """Return whether a line holds one JSON object and nothing else: Spark stops reading behind it.

    As an element of an array, with nothing and with another one behind it: a line that closes the
    array itself cannot give both numbers.
    """
    line = F.col("value")
    alone = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    followed = F.json_array_length(F.concat(F.lit("["), line, F.lit(",0]")))
    counted = F.coalesce((alone == 1) & (followed == 2), F.lit(False))
    return counted & line.rlike(r"^[ \t]*\{") & F.is_valid_utf8(line) & _is_shallow()


def _is_shallow() -> Column:
    line = F.col("value")
    brackets = F.length(line) - F.length(F.translate(line, "{[", ""))
    how = {**_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "c"}
    parses = F.from_json(line, "c STRING", how).getField("c").isNull()
    return F.when(brackets <= _DEEPEST, F.lit(True)).otherwise(parses)


def _says_the_same(whole: Column) -> Column:
    """Return whether a row as JSON has the content of its line, nulls and numbers included."""
    line = F.col("value")
    same = _normal(_normal(line)) == _normal(_normal(whole))
    return F.coalesce(same & ~line.rlike(_LONG_NUMBERS), F.lit(False))


def _normal(json: Column) -> Column:
    return F.to_json(F.try_parse_json(json))


def refuse_unlike(lines: DataFrame, file: Column) -> None:
    """Raise Odd where what one file holds decides how another one would be read.

    That is so where the same key has numbers of two kinds, or another type; or where two keys
    differ only in case: Spark's columns do not.
    """
    found = (
        lines.where(_is_shallow())
        .groupBy(file.alias("file"))
        .agg(F.expr("schema_of_variant_agg(try_parse_json(value))").alias("form"))
    )
    files: dict[str, list[str]] = {}
    for row in sorted(found.collect()):
        files.setdefault(row.form, []).append(row.file)
    forms = [(names, _form(text)) for text, names in sorted(files.items(), key=lambda f: f[1])]
    if ambiguous := [n for names, form in forms if _ambiguous(form.names) for n in names]:
        raise Odd(
            f"{', '.join(sorted(ambiguous)[:5])}: keys that differ only in case, which Spark's "
            "columns do not. Rename them, or give source.columns",
            ambiguous,
        )
    seen: dict[str, tuple[str, DataType, str]] = {}
    for names, form in forms:
        for field in form.fields:
            name, kind, first = seen.setdefault(
                field.name.lower(), (field.name, field.dataType, names[0])
            )
            if isinstance(kind, NullType):
                seen[field.name.lower()] = (field.name, field.dataType, names[0])
            elif name != field.name or not _alike(kind, field.dataType):
                raise Odd(
                    f"{names[0]} has {field.name!r} ({_told(field.dataType)}) and {first} has "
                    f"{name!r} ({_told(kind)}): how one is read would depend on the other. Say "
                    "which is meant by source.columns"
                )


def _form(text: str) -> StructType:
    """Return what Spark says of variants as a type; of lines that are none, without columns."""
    text = text.replace("OBJECT<>", "STRUCT<>").replace("OBJECT<", "STRUCT<")
    form = DataType.fromDDL(text)
    return form if text.startswith("STRUCT") and isinstance(form, StructType) else StructType()


def _ambiguous(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


def _alike(one: DataType, other: DataType) -> bool:
    """Say whether two files' values of a key have the type that they would have alone."""
    match one, other:
        case (NullType(), _) | (_, NullType()):
            return True
        case StructType(), StructType():
            theirs = {field.name: field.dataType for field in other.fields}
            return all(_alike(f.dataType, theirs.get(f.name, f.dataType)) for f in one.fields)
        case ArrayType(), ArrayType():
            return _alike(one.elementType, other.elementType)
        case _:
            return _told(one) == _told(other)


def _told(kind: DataType) -> str:
    return (
        "number with a fraction"
        if isinstance(kind, DecimalType | DoubleType)
        else kind.simpleString()
    )


def inferred(spark: SparkSession, paths: Sequence[str], given: Mapping[str, str]) -> StructType:
    """Return the columns that Spark finds in all of the lines."""
    reader = spark.read.format("json").options(**given, **_DEPTH).option("mode", "PERMISSIVE")
    return reader.option("columnNameOfCorruptRecord", "_corrupt_record").load([*paths]).schema
