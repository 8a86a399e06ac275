"""A row as JSON, and whether JSON keeps its values."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TO_JSON = {  # Spark's own default has milliseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def as_json(names: Sequence[str], *, nulls: bool) -> Column:
    """Return these columns as JSON. `nulls`: including null values."""
    return F.to_json(
        F.struct(*map(column_named, names)),
        {**_TO_JSON, "ignoreNullFields": str(not nulls).lower()},
    )


def is_exact(frame: DataFrame) -> Column:
    """Return whether JSON keeps a row's values: text must be UTF-8, and years AD."""
    return _all(
        [_is_kept(column_named(field.name), field.dataType) for field in frame.schema.fields]
    )


def column_named(name: str) -> Column:
    """Return a column by its name, whatever characters that has."""
    return F.col("`" + name.replace("`", "``") + "`")


def _is_kept(value: Column, kind: DataType) -> Column | None:
    """Return whether JSON keeps a value of a type. None if it keeps all."""
    match kind:
        case StringType():
            return F.is_valid_utf8(value)
        case DateType() | TimestampType() | TimestampNTZType():
            return value >= F.lit("0001-01-01").cast(kind)
        case ArrayType() if _is_kept(value, kind.elementType) is not None:
            return F.forall(value, lambda x: _all([_is_kept(x, kind.elementType)]))
        case MapType():
            keys = _is_kept(F.map_keys(value), ArrayType(kind.keyType))
            values = _is_kept(F.map_values(value), ArrayType(kind.valueType))
            return _all([keys, values]) if keys is not None or values is not None else None
        case StructType():
            fields = [_is_kept(value.getField(f.name), f.dataType) for f in kind.fields]
            return _all(fields) if any(each is not None for each in fields) else None
        case _:
            return None


def _all(checks: Sequence[Column | None]) -> Column:
    """Return whether no check is false, as one array: a row may have many columns."""
    known = [F.coalesce(check, F.lit(True)) for check in checks if check is not None]
    return ~F.array_contains(F.array(*known), False) if known else F.lit(True)
