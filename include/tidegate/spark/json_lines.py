"""JSON lines: each line must be one JSON object; its columns, where the pipeline names any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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

from tidegate.spark.expressions import ALL

# Deeper types overflow the stack of executors and of the driver.
_MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(_MAX_DEPTH)}
# Where a line is sent as it is: Spark itself takes these, and other readers of JSON do not.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


class IncompatibleFiles(Exception):
    """Files that cannot be read together; `files` are those at fault, if that is known."""

    def __init__(self, message: str, files: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.files = list(files)


def parsed(
    lines: DataFrame, schema: StructType, given: Mapping[str, str], fault: str, line: str | None
) -> DataFrame:
    """Return the columns of `schema` of every line that is not blank, and the column `fault`:
    null, or the text of a line that is not one JSON object.

    `lines` has the column `value`. `line` adds a column of that name with the line as it is, which
    then must be JSON by the standard.
    """
    lines = lines.where(F.col("value").rlike(r"[^ \t\r\n]"))
    form = StructType([*schema.fields]).add(fault, StringType())
    options = {**given, **_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": fault}
    options |= _STRICT if line else {}
    rows = lines.select("value", F.from_json("value", form, options).alias("row"))
    is_bad = F.col("row").getField(fault).isNotNull() | ~_is_one_object()
    return rows.select(
        *(F.col("row").getField(field.name).alias(field.name) for field in schema.fields),
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
    """Return whether a line is nested no deeper than _MAX_DEPTH."""
    line = F.col("value")
    brackets = F.length(line) - F.length(F.translate(line, "{[", ""))
    options = {**_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "c"}
    parses = F.from_json(line, "c STRING", options).getField("c").isNull()
    return F.when(brackets <= _MAX_DEPTH, F.lit(True)).otherwise(parses)


def refuse_unlike(lines: DataFrame, file: Column, named: Collection[str]) -> None:
    """Raise IncompatibleFiles where the content of one file decides how another one is read.

    That is so where a key in `named` (or any, if ALL is) has numbers of two kinds, or two types; or
    where two keys differ only in case, which Spark's columns do not.
    """
    schemas = (
        lines.where(_is_shallow())
        .groupBy(file.alias("file"))
        .agg(F.expr("schema_of_variant_agg(try_parse_json(value))").alias("schema"))
    )
    files: dict[str, list[str]] = {}
    for row in sorted(schemas.collect()):
        files.setdefault(row.schema, []).append(row.file)
    forms = [(names, _struct(text)) for text, names in sorted(files.items(), key=lambda f: f[1])]
    if ambiguous := [n for names, form in forms if _is_ambiguous(form.names) for n in names]:
        raise IncompatibleFiles(
            f"{', '.join(sorted(ambiguous)[:5])}: keys that differ only in case, which Spark's "
            "columns do not. Rename them, or give source.columns",
            ambiguous,
        )
    seen: dict[str, tuple[str, DataType, str]] = {}
    for names, form in forms:
        for field in form.fields:
            if not {field.name.lower(), ALL} & {*named}:
                continue
            here = field.name, field.dataType, names[0]
            name, kind, first = seen.setdefault(field.name.lower(), here)
            if isinstance(kind, NullType):
                seen[field.name.lower()] = here
            elif name != field.name or not _is_alike(kind, field.dataType):
                raise IncompatibleFiles(
                    f"{names[0]} has {field.name!r} ({_type_name(field.dataType)}) and {first} has "
                    f"{name!r} ({_type_name(kind)}): how one is read would depend on the other. "
                    "Say which is meant by source.columns"
                )


def _struct(text: str) -> StructType:
    """Return the type of a variant's schema; no columns if the variants are no objects."""
    form = DataType.fromDDL(text.replace("OBJECT<>", "STRUCT<>").replace("OBJECT<", "STRUCT<"))
    return form if text.startswith("OBJECT") and isinstance(form, StructType) else StructType()


def _is_ambiguous(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


def _is_alike(one: DataType, other: DataType) -> bool:
    """Return whether the values of a key in two files have the type that they would have alone."""
    match one, other:
        case (NullType(), _) | (_, NullType()):
            return True
        case StructType(), StructType():
            others = {field.name: field.dataType for field in other.fields}
            return all(_is_alike(f.dataType, others.get(f.name, f.dataType)) for f in one.fields)
        case ArrayType(), ArrayType():
            return _is_alike(one.elementType, other.elementType)
        case _:
            return _type_name(one) == _type_name(other)


def _type_name(kind: DataType) -> str:
    fraction = isinstance(kind, DecimalType | DoubleType)
    return "number with a fraction" if fraction else kind.simpleString()


def inferred(spark: SparkSession, paths: Sequence[str], given: Mapping[str, str]) -> StructType:
    """Return the columns that Spark finds in all of the lines."""
    reader = spark.read.format("json").options(**given, **_DEPTH).option("mode", "PERMISSIVE")
    return reader.option("columnNameOfCorruptRecord", "_corrupt_record").load([*paths]).schema
