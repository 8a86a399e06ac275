"""Binary Avro of keys and values, written with the declared schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

from tidegate.core.schema import Fields, Type
from tidegate.spark.decoded import Parsed, any_of, hidden_name
from tidegate.spark.typed_texts import within_type

_FRAME = 5  # a registry's: a zero byte, and four with the number of a schema
_INT = -(2**31), 2**31 - 1
_DAYS = -719_162, 2_932_896  # of the years 1 to 9999, since 1970


def parse_avro(rows: DataFrame, column: str, fields: Fields, form: str, mark: bytes) -> Parsed:
    """Decode records by `form`, which reads a record with `mark` behind it as `value` and `end`.

    A value that is not wholly one record was written with another schema.
    """
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": "PERMISSIVE"}
    data, name = F.col(column), hidden_name(column, "avro")
    end = F.lit(mark)

    def read(values: Column) -> Column:
        return from_avro(F.concat(values, end), form, options)

    rows = rows.withColumn(name, read(data))
    row = F.col(name)
    is_whole = F.coalesce(row.getField("end") == end, F.lit(False))
    behind = read(F.substring(data, _FRAME + 1, 2**31 - 1)).getField("end")
    is_framed = (F.substring(data, 1, 1) == F.lit(b"\0")) & F.coalesce(behind == end, F.lit(False))
    frame = F.when(is_framed, F.lit("begins with a registry's frame: 00 and a schema's number"))
    whole = F.when(~is_whole, F.coalesce(frame, F.lit("no Avro of this schema")))
    rows = rows.withColumn(hidden_name(column, "value"), F.when(is_whole, row.getField("value")))
    value = F.col(hidden_name(column, "value"))
    types = {f.name: f.dataType for f in rows.select(f"`{hidden_name(column, 'value')}`.*").schema}
    values = {field: _value(kind, value.getField(field), types[field]) for field, kind in fields}

    def unfit(found: Mapping[str, Column]) -> list[tuple[str, str, Column]]:
        return [
            part
            for field, kind in fields
            for part in _unfit(field, kind, value.getField(field), found[field])
        ]

    return Parsed(rows, whole, values, unfit, F.lit(False))


def _value(kind: Type, given: Column, read_as: Any) -> Column:
    """Return what Spark has read by `reading_form` as a value of its type. Null if it is none."""
    match kind.name:
        case "boolean":
            return F.when(given == F.lit(b"\0"), False).when(given == F.lit(b"\1"), True)
        case "int":
            return F.when(given.between(*_INT), given).cast("INT")
        case "date" if not isinstance(read_as, DateType):
            days = F.when(given.between(*_DAYS), given).cast("INT")
            return F.date_from_unix_date(days)
        case "date" | "timestamp" | "timestamp_ntz":
            return within_type(given, kind)
        case "string":
            return F.when(F.is_valid_utf8(given), given)
        case "decimal":
            return given.try_cast(str(kind))
        case "struct":
            types = {field.name: field.dataType for field in read_as}
            parts = (_value(t, given.getField(n), types[n]).alias(n) for n, t in kind.parts)
            return F.when(given.isNotNull(), F.struct(*parts))
        case "array":
            element = kind.parts[0].type
            inner = read_as.elementType
            if element.name == "double" and isinstance(inner, StructType):
                return F.transform(given, lambda x: x.getField("item"))
            return F.transform(given, lambda x: _value(element, x, inner))
        case "map":
            of_value, inner = kind.parts[1].type, read_as.valueType
            keys = F.map_keys(given)
            made = F.transform_values(given, lambda _, x: _value(of_value, x, inner))
            return F.when(F.forall(keys, F.is_valid_utf8), made)
    return given


def _unfit(path: str, kind: Type, given: Column, value: Column) -> list[tuple[str, str, Column]]:
    """Return for each part its path, its type, and whether it is null although it was read."""
    if kind.name == "struct":
        found = []
        for name, of_part in kind.parts:
            parts = given.getField(name), value.getField(name)
            found += _unfit(f"{path}.{name}", of_part, *parts)
        return found
    return [(path, "UTF-8" if kind.name == "string" else str(kind), _loses(kind, given, value))]


def _loses(kind: Type, given: Column, value: Column) -> Column:
    lost = given.isNotNull() & value.isNull()
    match kind.name:
        case "struct":
            parts = (_loses(t, given.getField(n), value.getField(n)) for n, t in kind.parts)
            return any_of(parts)
        case "array" if kind.parts[0].type.name == "double":
            return lost  # each is one
        case "array":
            element = kind.parts[0].type
            each = F.transform(given, lambda x, i: _loses(element, x, F.get(value, i)))
            lost |= F.coalesce(F.array_contains(each, True), F.lit(False))
        case "map":
            of_value = kind.parts[1].type
            pairs = F.map_values(given), F.map_values(value)
            each = F.zip_with(*pairs, lambda x, y: _loses(of_value, x, y))
            lost |= F.coalesce(F.array_contains(each, True), F.lit(False))
    return lost
