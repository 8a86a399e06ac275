"""Avro: keys and values as a record of a schema. Its columns as Spark's `from_avro` has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.schema import DEEPEST, Field, Fields, SchemaError, Type, fold_name
from tidegate.spark.formats.declared import RecordFormatBase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.core.decoding import Decoder
    from tidegate.spark.decoded import Parsed

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
_MOST = 20_000  # types, those within a named one counted each time that it is named
_UNIONS = ({"int", "long"}, "bigint"), ({"float", "double"}, "double")
_NAMED = ("record", "error", "enum", "fixed")
_WORDS = (*_SIMPLE, "array", "map", "record", "error", "null")
_MOST_DIGITS = 38
_LARGEST = 64 << 20  # bytes of a fixed, as of a text
_BOOLEAN, _DOUBLE = "tidegate.Boolean", "tidegate.Double"
_WHOLE, _END = "tidegate_whole", "tidegate_end"
END = bytes.fromhex("b7d04f1c93ea5826f1790ed36b8ac245")
"""Put behind a value by who reads it by `reading_form`. No part of these bytes begins and ends
them, so that no other bytes pass for them, unless a value holds all 16 of them on purpose."""


class AvroRecords(RecordFormatBase):
    """A key or a value is a record of Avro. Its schema is JSON, as Avro has it."""

    name = "avro"
    example = '\'{"type": "record", …}\''

    own_options = ("schema",)

    def fields(self, text: str) -> Fields:
        """Return the columns of a record's schema."""
        return columns_of_schema(text)

    def options(self, text: str, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return the schema of Avro, without blanks: the bytes mean nothing without it."""
        return {**given, "schema": json.dumps(json.loads(text), separators=(",", ":"))}

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Parse records of Avro."""
        from tidegate.spark.formats import avro_parser

        form = reading_form(decoder.options["schema"])
        return avro_parser.parse_avro(rows, column, decoder.fields, form, END)


def columns_of_schema(text: str) -> Fields:
    """Return the columns of a record's schema, a text of JSON. SchemaError if it is wrong.

    What Spark takes for a schema is compared with this by a test.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"an Avro schema is JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        raise SchemaError('the schema is not of a record: {"type": "record", "fields": […]}')
    return _Named().type_of(schema, "", "").parts


def reading_form(text: str) -> str:
    """Return the schema by which values are read: the record `value`, and `end`, 16 bytes.

    A value followed by END is exactly one record if `end` is END. The bytes mean the same as by the
    given schema, but what Spark would cut or guess is read as it is: a boolean as its byte, an int
    as a long, a decimal with all its digits.
    """
    defined = set[str]()

    def double() -> Any:
        if _DOUBLE in defined:
            return _DOUBLE
        defined.add(_DOUBLE)
        fields = [{"name": "item", "type": "double"}]
        return {"type": "record", "name": _DOUBLE, "fields": fields}

    def of(schema: Any) -> Any:
        match schema:
            case "boolean" | {"type": "boolean"}:
                if _BOOLEAN in defined:
                    return _BOOLEAN
                defined.add(_BOOLEAN)
                return {"type": "fixed", "name": _BOOLEAN, "size": 1}
            case "int" | {"type": "int"}:
                return "long"
            case {"type": "long", "logicalType": str(name)} if ("long", name) in _LOGICAL:
                return {"type": "long", "logicalType": name}
            case list():
                # Two branches of one type are none of Avro's.
                both = {"int", "long"} <= {_base(each) for each in schema}
                return [each if both and _base(each) == "int" else of(each) for each in schema]
            case {"type": "record" | "error", "fields": fields}:
                # A default would have to be of the other type. It is of no use to who reads.
                read = [{"name": f["name"], "type": of(f["type"])} for f in fields]
                return {**_named(schema), "fields": read}
            case {"type": "enum", "symbols": symbols}:
                return {**_named(schema), "symbols": symbols}
            case {"type": "array", "items": "double" | {"type": "double"}}:
                # Avro 1.12.0 rounds the doubles of an array to floats, but not those of records.
                return {"type": "array", "items": double()}
            case {"type": "array", "items": items}:
                return {"type": "array", "items": of(items)}
            case {"type": "map", "values": values}:
                return {"type": "map", "values": of(values)}
            case {"type": "bytes" | "fixed", "logicalType": "decimal"}:
                kept = {
                    **_named(schema),
                    "size": schema.get("size"),
                    "scale": schema.get("scale", 0),
                }
                kept |= {"logicalType": "decimal", "precision": _most_digits(schema)}
                return {key: value for key, value in kept.items() if value is not None}
            case {"type": "fixed", "size": size}:
                return {**_named(schema), "size": size}
            case {"type": str(name)}:
                # Without what else stands there: of `avro.java.string`, Java would mend what is no
                # UTF-8, and Spark makes another type of `spark.sql.catalyst.type`.
                return name
        return schema

    end = {"type": "fixed", "name": _END, "size": len(END)}
    fields = [{"name": "value", "type": of(json.loads(text))}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": _WHOLE, "fields": fields})


def _named(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type and the name of a schema: aliases and the like are not of use to who reads,
    and each must be right for Spark.
    """
    named = {key: schema[key] for key in ("type", "name", "namespace") if key in schema}
    return {key: value for key, value in named.items() if isinstance(value, str)}


def _base(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _most_digits(schema: Mapping[str, Any]) -> int:
    """Return how many digits each decimal of these bytes has at most, and no more than Spark's."""
    size = _MOST_DIGITS if schema["type"] == "bytes" else min(schema["size"], _MOST_DIGITS)
    return min(_MOST_DIGITS, len(str((1 << 8 * size - 1) - 1)) - 1)


class _Named:
    """The named types of a schema: records, enums and fixed ones, by their full names."""

    def __init__(self) -> None:
        self._known: dict[str, Type | None] = {}
        self._sizes: dict[str, int] = {}  # of named types, all within them included
        self._size = self._depth = 0

    def type_of(self, schema: Any, namespace: str, at: str) -> Type:
        """Return the type; `at` is where it stands, for errors."""
        self._grow(1, at)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _wrong(at, f"types are nested deeper than {DEEPEST}")
        found = self._type_of(schema, namespace, at)
        self._depth -= 1
        return found

    def _type_of(self, schema: Any, namespace: str, at: str) -> Type:
        match schema:
            case str() if schema in _SIMPLE and schema not in _NAMED:
                return Type(_SIMPLE[schema])
            case str() | {"type": str()} if _base(schema) not in _WORDS:
                return self._known_type(_base(schema), namespace, at)
            case list():
                return self._union(schema, namespace, at)
            case {"type": "record" | "error"}:
                return self._record(schema, namespace, at)
            case {"type": "array", "items": items}:
                element = self.type_of(items, namespace, f"{at}.items")
                return Type("array", parts=(Field("element", element),))
            case {"type": "map", "values": values}:
                value = self.type_of(values, namespace, f"{at}.values")
                return Type("map", parts=(Field("key", Type("string")), Field("value", value)))
            case {"type": str(name)} if name in _SIMPLE:
                if name in ("fixed", "enum"):
                    self._define(schema, namespace, at)
                found = _simple(name, schema, at)
                if name in ("fixed", "enum"):
                    self._known[_full_name(schema, namespace, at)] = found
                return found
        raise _wrong(at, f"no Avro schema: {json.dumps(schema)[:100]}")

    def _grow(self, by: int, at: str) -> None:
        self._size += by
        if self._size > _MOST:
            raise _wrong(at, f"more than {_MOST:,} types, those that are named again counted")

    def _define(self, schema: Mapping[str, Any], namespace: str, at: str) -> str:
        full = _full_name(schema, namespace, at)
        if full.lstrip(".") in _WORDS:
            raise _wrong(at, f"the name {full.lstrip('.')} is that of a type of Avro's")
        if full.lstrip(".") in (_BOOLEAN, _DOUBLE, _WHOLE, _END):
            raise _wrong(at, f"the name {full.lstrip('.')} is taken: give it another one")
        if full in self._known:
            raise _wrong(at, f"the name {full.lstrip('.')} is defined twice")
        self._known[full] = None
        return full

    def _known_type(self, name: str, namespace: str, at: str) -> Type:
        for full in [name] if "." in name else (f"{namespace}.{name}", f".{name}"):
            if full in self._known:
                if (found := self._known[full]) is None:
                    raise _wrong(at, f"record {name} contains itself, and no table can hold that")
                self._grow(self._sizes.get(full, 1), at)
                return found
        raise _wrong(at, f"unknown type {name!r}")

    def _record(self, schema: Mapping[str, Any], namespace: str, at: str) -> Type:
        full, before = self._define(schema, namespace, at), self._size
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise _wrong(at, f"record {full.lstrip('.')} has no fields")
        parts = []
        for each in fields:
            if not isinstance(each, dict) or not {"name", "type"} <= each.keys():
                raise _wrong(at, f"a field of record {full.lstrip('.')} has no name or no type")
            name = each["name"]
            if not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise _wrong(at, f"{name!r} is no name of a field in Avro")
            where = f"{at}.{name}" if at else name
            parts.append(Field(name, self.type_of(each["type"], full.rpartition(".")[0], where)))
        if len({fold_name(f.name) for f in parts}) < len(parts):
            raise _wrong(at, f"record {full.lstrip('.')} has a field twice (case does not matter)")
        self._sizes[full] = self._size - before
        self._known[full] = found = Type("struct", parts=tuple(parts))
        return found

    def _union(self, schema: Sequence[Any], namespace: str, at: str) -> Type:
        if any(isinstance(each, list) for each in schema):
            raise _wrong(at, "a union within a union")
        branches = [each for each in schema if each != "null"]
        types = [self.type_of(each, namespace, at) for each in branches]
        kinds = [
            _full_name(each, namespace, at)
            if isinstance(each, dict) and each["type"] in _NAMED
            else _base(each)
            for each in schema
        ]
        if twice := {each for each in kinds if kinds.count(each) > 1}:
            raise _wrong(at, f"the union has {min(twice).lstrip('.')} twice")
        if len(types) == 1:
            return types[0]
        for names, one in _UNIONS:
            if types and {*map(_base, branches)} == names:
                return Type(one)
        if not types:
            raise _wrong(at, "a field of type null alone has no column")
        return Type("struct", parts=tuple(Field(f"member{n}", t) for n, t in enumerate(types)))


def _simple(name: str, schema: Mapping[str, Any], at: str) -> Type:
    if name == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or len({*map(str, symbols)}) < len(symbols):
            raise _wrong(at, "an enum has symbols, each once")
        if odd := [x for x in symbols if not (isinstance(x, str) and _NAME.fullmatch(x))]:
            raise _wrong(at, f"{odd[0]!r} is no symbol of an enum")
    size: Any = schema.get("size")
    if name == "fixed" and not (_is_number(size, 1) and size <= _LARGEST):
        raise _wrong(at, f"a fixed has a size, 1 to {_LARGEST:,}")
    logical = schema.get("logicalType")
    if logical != "decimal" or name not in ("bytes", "fixed"):
        return Type(_LOGICAL.get((name, str(logical)), _SIMPLE[name]))
    digits: Any = schema.get("precision")
    scale: Any = schema.get("scale", 0)
    most = _most_digits(schema)
    if not _is_number(digits, 1) or digits > most:
        raise _wrong(
            at, f"precision {json.dumps(digits)}: a decimal of these bytes has 1 to {most} digits; "
            "without its logicalType the column is BINARY"
        )  # fmt: skip
    if not _is_number(scale, 0) or scale > digits:
        raise _wrong(at, f"scale {json.dumps(scale)}: it is 0 to {digits}, the precision")
    return Type("decimal", (digits, scale))


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _full_name(schema: Mapping[str, Any], namespace: str, at: str) -> str:
    name, given = str(schema.get("name", "")), schema.get("namespace")
    if isinstance(given, str) and "." not in name:  # another value is none to Java, too
        namespace = given
    full = name if "." in name else f"{namespace}.{name}"
    if not all(map(_NAME.fullmatch, full.lstrip(".").split("."))):
        raise _wrong(at, f"{full.lstrip('.')!r} is no name of a type in Avro")
    return full


def _wrong(at: str, message: str) -> SchemaError:
    return SchemaError(f"field {at}: {message}" if at else message)
