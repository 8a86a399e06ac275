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
    StructField,
    StructType,
)

from tidegate.spark.expressions import ALL

# Deeper types overflow the stack of executors and of the driver.
MAX_DEPTH = 100
_DEPTH = {"maxNestingDepth": str(MAX_DEPTH)}
_BEFORE = "what was sent before"
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
    """Return whether a line is nested no deeper than MAX_DEPTH."""
    line = F.col("value")
    brackets = F.length(line) - F.length(F.translate(line, "{[", ""))
    options = {**_DEPTH, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "c"}
    parses = F.from_json(line, "c STRING", options).getField("c").isNull()
    return F.when(brackets <= MAX_DEPTH, F.lit(True)).otherwise(parses)


def column_types(
    lines: DataFrame, file: Column, named: Collection[str], before: StructType
) -> StructType:
    """Return the types of the keys in `named` (of all, if ALL is there): those `before`, of what
    was sent, and those in the files.

    Raises IncompatibleFiles where the content of one file, or what was sent before, decides how
    another file is read: a key has numbers of two kinds, or two types; or two keys differ only in
    case, which Spark's columns do not.
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
    seen = {f.name.lower(): (f.name, f.dataType, _BEFORE) for f in before.fields}
    unlike: dict[str, str] = {}  # file → complaint
    for names, form in forms:
        for field in form.fields:
            key = field.name.lower()
            if not {key, ALL} & {*named}:
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


def _is_ambiguous(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


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
    fraction = isinstance(kind, DecimalType | DoubleType)
    return "number with a fraction" if fraction else kind.simpleString()


def inferred(spark: SparkSession, paths: Sequence[str], given: Mapping[str, str]) -> StructType:
    """Return the columns that Spark finds in all of the lines."""
    reader = spark.read.format("json").options(**given, **_DEPTH).option("mode", "PERMISSIVE")
    return reader.option("columnNameOfCorruptRecord", "_corrupt_record").load([*paths]).schema
