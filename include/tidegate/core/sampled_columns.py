"""Columns that fit sampled JSON objects: proposals for people, never the schema of a run."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from tidegate.core.schema import DEEPEST, Field, Fields, Type, widest_type
from tidegate.core.wording import counted

_EXACT_DIGITS = 15  # a double keeps so many digits of a number
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?", re.IGNORECASE
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_STRING, _BIGINT, _DOUBLE = Type("string"), Type("bigint"), Type("double")
_LARGE = Type("bigint", parts=(Field("no double keeps it", _STRING),))  # for this module alone
_NOTHING = Type("null")


def columns_of_objects(texts: Iterable[bytes | str], *, as_text: bool = False) -> Fields:
    """Return columns that fit texts of JSON. What is no object is ignored.

    A key that has values of two types is a STRING: their JSON. So is one with numbers that its type
    would change: two of them could become one. `as_text`: so are objects, arrays and times.
    """
    found: Type = _NOTHING
    for value in _objects(texts):
        found = _merged(found, _object(value, as_text=as_text))
    return tuple(Field(name, _settled(kind)) for name, kind in found.parts)


def mixed_columns(texts: Iterable[bytes | str]) -> list[str]:
    """Return each column that is text because its values have several types, and the values.

    For example: "price: STRING (101 numbers, 1 text)". Objects and arrays are not looked into.
    """
    seen: dict[str, Counter[str]] = {}
    names: dict[str, str] = {}
    for value in _objects(texts):
        own: dict[str, Any] = {}  # of two names that differ in case, the first
        for name, inner in value.items():
            if _is_column(name):
                names.setdefault(name.lower(), name)
                own.setdefault(name.lower(), inner)
        for key, inner in own.items():
            if inner is not None:
                seen.setdefault(key, Counter())[_word(inner)] += 1
    return [
        f"{names[key]}: STRING ({', '.join(counted(n, word) for word, n in counts.most_common())})"
        for key, counts in seen.items()
        if len(counts) > 1
    ]


def _word(value: Any) -> str:
    """Return what a value of JSON is, in a word."""
    match value:
        case bool():
            return "boolean"
        case int() | Decimal():
            return "number"
        case dict():
            return "object"
        case list():
            return "array"
    words = {"timestamp": "time", "date": "date"}
    return words.get(_kind(value, 0, as_text=False).name, "text")


def extend_columns(
    texts: Iterable[bytes | str], declared: Fields, unfit: Collection[str]
) -> Fields:
    """Return declared columns and those that texts have beside them.

    Columns named in `unfit` are wider, if that makes the texts fit.
    """
    sampled = {field.name.lower(): field for field in columns_of_objects(texts)}
    found = []
    for name, kind in declared:
        seen = sampled.pop(name.lower(), None)
        found.append(Field(name, widest_type(kind, seen.type) if seen and name in unfit else kind))
    return (*found, *sampled.values())


def _objects(texts: Iterable[bytes | str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        try:
            value = json.loads(text, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError):  # 1e99999999999999999999, for one
            continue
        if isinstance(value, dict):
            yield value


def _object(value: Mapping[str, Any], *, as_text: bool, room: int = DEEPEST) -> Type:
    fields: dict[str, Field] = {}
    for name, inner in value.items():
        if not _is_column(name):
            continue
        # Of two names that differ in case, readers of SQL would take either.
        fields.setdefault(name.lower(), Field(name, _kind(inner, room, as_text=as_text)))
    return Type("struct", parts=tuple(fields.values()))


def _is_column(name: str) -> bool:
    """Return whether a pipeline file can declare a column of this name: it expands `${…}`."""
    return bool(name) and name.isprintable() and "${" not in name


def _kind(value: Any, room: int, *, as_text: bool) -> Type:
    """Return the type of a value. It may have parts of so many levels, else it is text."""
    match value:
        case None:
            return _NOTHING
        case bool():
            return Type("boolean")
        case int() if abs(value) < 10**_EXACT_DIGITS:
            return _BIGINT
        case int():
            return _LARGE if -(2**63) <= value < 2**63 else _STRING
        case Decimal():
            digits, size = len(value.as_tuple().digits), value.adjusted() if value else 0
            return _DOUBLE if digits <= _EXACT_DIGITS and -300 < size < 300 else _STRING
        case _ if as_text:
            return _STRING
        case str() if _TIMESTAMP.fullmatch(value):
            return Type("timestamp")
        case str() if _DATE.fullmatch(value):
            return Type("date")
        case dict() | list() if not room:
            return _STRING
        case dict():
            found = _object(value, as_text=as_text, room=room - 1)
            return found if found.parts else _STRING
        case list():
            element = _merged_all([_kind(each, room - 1, as_text=as_text) for each in value])
            return Type("array", parts=(Field("element", element),))
    return _STRING


def _merged_all(kinds: Iterable[Type]) -> Type:
    """Return the type that fits values of all, in a time linear in their fields."""
    kinds = [kind for kind in kinds if kind != _NOTHING]
    if {kind.name for kind in kinds} != {"struct"}:
        return functools.reduce(_merged, kinds, _NOTHING)
    names: dict[str, str] = {}
    found: dict[str, list[Type]] = {}
    for field in (field for kind in kinds for field in kind.parts):
        key = field.name.lower()
        names.setdefault(key, field.name)
        found.setdefault(key, []).append(field.type)
    return Type("struct", parts=tuple(Field(names[k], _merged_all(v)) for k, v in found.items()))


def _merged(one: Type, other: Type) -> Type:
    """Return the type that fits values of both."""
    if one == other or other == _NOTHING:
        return one
    if one == _NOTHING:
        return other
    match one.name, other.name:
        case "bigint", "bigint":
            return _LARGE
        case ("bigint", "double") | ("double", "bigint"):
            return _STRING if _LARGE in (one, other) else _DOUBLE
        case "struct", "struct":
            fields = {field.name.lower(): field for field in one.parts}
            for name, kind in other.parts:
                known = fields.get(name.lower(), Field(name, _NOTHING))
                fields[name.lower()] = Field(known.name, _merged(known.type, kind))
            return Type("struct", parts=tuple(fields.values()))
        case "array", "array":
            element = _merged(one.parts[0].type, other.parts[0].type)
            return Type("array", parts=(Field("element", element),))
    return _STRING


def _settled(kind: Type, room: int = DEEPEST) -> Type:
    """Return a type without marks. What was always null is text, and what is nested too deep."""
    if kind == _NOTHING:
        return _STRING
    if kind == _LARGE:
        return _BIGINT
    if kind.parts and not room:
        return _STRING
    parts = tuple(Field(n, _settled(t, room - 1)) for n, t in kind.parts)
    return Type(kind.name, kind.digits, parts)
