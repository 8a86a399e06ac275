"""The columns of an Avro schema, as Spark's `from_avro` returns them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.schema import Field, Fields, SchemaError, Type

_SIMPLE = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "string": "string", "bytes": "binary", "fixed": "binary", "enum": "string",
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_UNIONS = ({"int", "long"}, "bigint"), ({"float", "double"}, "double")


def columns(text: str) -> Fields:
    """Return the columns of a record's schema, a text of JSON; SchemaError if it is wrong."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"an Avro schema is JSON: {error}") from None
    found = _Named().type_of(schema, "")
    if found.name != "struct":
        raise SchemaError(f"the schema is of {found}, not of a record with fields")
    return found.parts


def all_null(text: str) -> bytes | None:
    """Return the bytes of a record whose fields are all null; None if a field cannot be null."""
    branches = [
        field["type"].index("null") if isinstance(field["type"], list) else None
        for field in json.loads(text)["fields"]
        if not isinstance(field["type"], list) or "null" in field["type"]
    ]
    if None in branches or len(branches) < len(json.loads(text)["fields"]):
        return None
    return bytes(2 * n for n in branches if n is not None)  # the zigzag form of n


def is_unambiguous(text: str) -> bool:
    """Return whether each record has one encoding, which Spark's writer makes again.

    Blocks of arrays and maps may be cut anywhere, the bytes of a decimal may begin with more of its
    sign, and of unions Spark writes only those with null.
    """

    def is_one(schema: Any) -> bool:
        match schema:
            case list():
                others = [each for each in schema if each != "null"]
                return len(others) == 1 and is_one(others[0])
            case {"type": "array" | "map"} | {"logicalType": "decimal"}:
                return False
            case {"fields": fields}:
                return all(is_one(field["type"]) for field in fields)
            case {"type": dict() | list() as inner}:
                return is_one(inner)
        return True

    return is_one(json.loads(text))


class _Named:
    """The named types of a schema: records, enums and fixed ones, by their full names."""

    def __init__(self) -> None:
        self._known: dict[str, Type | None] = {}

    def type_of(self, schema: Any, namespace: str) -> Type:
        match schema:
            case str() if schema in _SIMPLE and schema not in ("fixed", "enum"):
                return Type(_SIMPLE[schema])
            case str():
                return self._known_type(schema, namespace)
            case list():
                return self._union([each for each in schema if each != "null"], namespace)
            case {"type": "record" | "error"}:
                return self._record(schema, namespace)
            case {"type": "array", "items": items}:
                return Type("array", parts=(Field("element", self.type_of(items, namespace)),))
            case {"type": "map", "values": values}:
                key = Field("key", Type("string"))
                return Type("map", parts=(key, Field("value", self.type_of(values, namespace))))
            case {"type": str(name)} if name in _SIMPLE:
                found = _simple(name, schema)
                if name in ("fixed", "enum"):
                    self._known[_full_name(schema, namespace)] = found
                return found
            case {"type": dict() | list() | str() as inner}:
                return self.type_of(inner, namespace)
        raise SchemaError(f"no Avro schema: {json.dumps(schema)[:100]}")

    def _known_type(self, name: str, namespace: str) -> Type:
        for full in (f"{namespace}.{name}", name):
            if full in self._known:
                if (found := self._known[full]) is None:
                    raise SchemaError(f"record {name} contains itself, and no table can hold that")
                return found
        raise SchemaError(f"unknown type {name!r}")

    def _record(self, schema: Mapping[str, Any], namespace: str) -> Type:
        full = _full_name(schema, namespace)
        self._known[full] = None
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise SchemaError(f"record {full.lstrip('.')} has no fields")
        try:
            parts = [
                Field(str(f["name"]), self.type_of(f["type"], full.rpartition(".")[0]))
                for f in fields
            ]
        except (TypeError, KeyError):
            raise SchemaError(
                f"a field of record {full.lstrip('.')} has no name or no type"
            ) from None
        if odd := [f.name for f in parts if not _NAME.fullmatch(f.name)]:
            raise SchemaError(f"{odd[0]!r} is no name of a field in Avro")
        if len({f.name.lower() for f in parts}) < len(parts):
            raise SchemaError(f"record {full.lstrip('.')} has a field twice (case does not matter)")
        self._known[full] = found = Type("struct", parts=tuple(parts))
        return found

    def _union(self, branches: Sequence[Any], namespace: str) -> Type:
        types = [self.type_of(each, namespace) for each in branches]
        if len(types) == 1:
            return types[0]
        for names, one in _UNIONS:
            if types and {*map(str, branches)} == names:
                return Type(one)
        if not types:
            raise SchemaError("a field of type null alone has no column")
        return Type("struct", parts=tuple(Field(f"member{n}", t) for n, t in enumerate(types)))


def _simple(name: str, schema: Mapping[str, Any]) -> Type:
    logical = schema.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        return Type("decimal", (int(schema["precision"]), int(schema.get("scale", 0))))
    return Type(_LOGICAL.get((name, str(logical)), _SIMPLE[name]))


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    if not all(map(_NAME.fullmatch, name.split("."))):
        raise SchemaError(f"{name!r} is no name of a type in Avro")
    return name if "." in name else f"{schema.get('namespace', namespace)}.{name}"
