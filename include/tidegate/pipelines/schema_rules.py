"""Rules of pipeline files beyond types, as JSON Schema: forms of texts, keys that exclude others.

A key is given if it is there and not null. Any text may hold a variable instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.spark.egress_job import LINE
from tidegate.spark.file_reader_options import ALLOWED

Schema = dict[str, Any]

VARIABLE = r"\$\{[A-Za-z_]"
NAME = "^[a-z](?!.*__)[a-z0-9_-]{0,63}$"
_TOPIC = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$"
_LAKE_TOPIC = r"^(?!\.{1,2}$|__HIVE_DEFAULT_PARTITION__$)[a-zA-Z0-9._-]{1,249}$"
_PARTITION = r"^(0|[1-9][0-9_]*)$"
_ABSOLUTE = r"^(?!.*://)/", "^file:///"
_S3 = "^s3://[A-Za-z0-9][A-Za-z0-9._-]*"
_LAKE = *_ABSOLUTE, rf"{_S3}(/[^\s%?#]*)?$"
_PATH = *_ABSOLUTE, rf"{_S3}(/|$)"
_SCHEDULE = r"^\s*[^\s@rR]\S*(\s+[^\srR]\S*){4,5}\s*$", "^@[a-z]+$"
TIME = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$"
_FORMS = "timestamp", "timestamps", "offsets", "group"
_QUOTED_STAR = r"""^\s*('\*\*?'|"\*\*?")\s*$"""
_QUOTED_TEXT = r"""^\s*('[^'"]*'|"[^'"]*")\s*$"""


def text(*patterns: str) -> Schema:
    """Return the schema of a text of one of these patterns, or with a variable."""
    return {"type": "string", "pattern": "|".join([*patterns, VARIABLE])}


def any_case(names: Iterable[str], *, but: str = "") -> str:
    """Return a pattern of these names in any letter case, `but` in one of them."""
    cased = (re.sub("[A-Za-z]", _either, re.escape(name)) for name in names)
    exception = f"(?!{re.escape(but)}$)" if but else ""
    return f"^{exception}({'|'.join(cased)})$"


def _either(letter: re.Match[str]) -> str:
    return f"[{letter[0].lower()}{letter[0].upper()}]"


def add(definitions: Mapping[str, Schema]) -> None:
    """Add the rules to the definitions of the models."""
    for (model, key), form in _VALUES.items():
        found = definitions[model]["properties"][key]
        is_optional = {"type": "null"} in found.get("anyOf", ())
        definitions[model]["properties"][key] = _or_null(form) if is_optional else form
    for model, rules in _RULES.items():
        definitions[model]["allOf"] = rules


def _or_null(form: Schema) -> Schema:
    return {"anyOf": [form, {"type": "null"}]}


def _list(pattern: str, **more: int) -> Schema:
    return {"type": "array", "items": text(pattern), "uniqueItems": True, **more}


def _by_partition(value: Schema) -> Schema:
    partitions: Schema = {
        "type": "object",
        "propertyNames": {"pattern": _PARTITION},
        "additionalProperties": value,
        "minProperties": 1,
    }
    return _by_topic(partitions)


def _by_topic(value: Schema) -> Schema:
    return {
        "type": "object",
        "propertyNames": {"pattern": _TOPIC},
        "additionalProperties": value,
        "minProperties": 1,
    }


def whole_text(least: int) -> str:
    """Return the pattern of a whole number as a text, from `least` on if that is 0 or 1."""
    return {0: _PARTITION, 1: "^[1-9][0-9_]*$"}.get(least, "^-?(0|[1-9][0-9_]*)$")


def _whole(least: int) -> Schema:
    return {"anyOf": [{"type": "integer", "minimum": least}, text(whole_text(least))]}


def _given(*keys: str) -> Schema:
    """Return the schema of a mapping in which these keys are given, and not empty."""
    values: Schema = {key: {"not": {"enum": [None, [], {}, ""]}} for key in keys}
    return {"required": list(keys), "properties": values}


def _one_of(*keys: str) -> Schema:
    return {"oneOf": [_given(key) for key in keys]}


def _only_with(key: str, other: str) -> Schema:
    return {"if": _given(key), "then": _given(other)}


def _without(key: str, others: Iterable[str]) -> Schema:
    return {"if": _given(key), "then": {"not": {"anyOf": [_given(other) for other in others]}}}


def _within(key: str, form: Schema) -> Schema:
    return {"required": [key], "properties": {key: form}}


def _options_of(file_format: str) -> Schema:
    """Return the rule of the options of a file reader; Spark ignores the case of their names."""
    names = {"propertyNames": {"pattern": any_case(sorted(ALLOWED[file_format]))}}
    of_format = _within("format", {"const": file_format})
    return {"if": of_format, "then": {"properties": {"options": names}}}


_SQL = _or_null({"type": "string", "not": {"pattern": _QUOTED_STAR}})
_LINE = {"enum": [LINE]}
_FILE = {
    "type": "object",
    "properties": {"file": {"type": "string"}},
    "required": ["file"],
    "additionalProperties": False,
}
_COLUMNS = "key", "value", "headers", "partition", "topic"
_VALUES: Mapping[tuple[str, str], Schema] = {
    ("Ingest", "name"): text(NAME),
    ("Egress", "name"): text(NAME),
    ("Ingest", "lake"): text(*_LAKE),
    ("Egress", "lake"): text(*_LAKE),
    ("Ingest", "schedule"): text(*_SCHEDULE),
    ("Egress", "schedule"): text(*_SCHEDULE),
    ("Ingest", "topics"): _list(_LAKE_TOPIC),
    ("Ingest", "assign"): _by_topic(
        {"type": "array", "items": _whole(0), "uniqueItems": True, "minItems": 1}
    ),
    ("StartAt", "timestamps"): _by_partition(text(TIME)),
    ("StartAt", "offsets"): _by_partition(_whole(-2)),
    ("DecoderSpec", "schema"): {"anyOf": [{"type": "string"}, _FILE, {"type": "null"}]},
    ("Source", "path"): text(*_PATH),
    ("Source", "lake"): text(NAME),
    ("Source", "topics"): _list(_TOPIC),
    ("Target", "topic"): text(_TOPIC),
    ("Target", "topics"): _list(_TOPIC, minItems=1),
    **{("Columns", name): _SQL for name in _COLUMNS},
    ("Columns", "partition"): {"type": "string", "not": {"pattern": _QUOTED_TEXT}},
}
_STRICT_FILES = {
    "allOf": [_within("order", {"const": "strict"}), _within("source", _given("path"))]
}
_RULES: Mapping[str, list[Schema]] = {
    "Ingest": [
        _one_of("topics", "pattern", "assign"),
        _only_with("exclude", "pattern"),
    ],
    "StartAt": [_one_of(*_FORMS), _without("offsets", ["otherwise"])],
    "Source": [
        _one_of("path", "lake"),
        _only_with("path", "format"),
        _without("lake", ["format", "options", "columns"]),
        _only_with("topics", "lake"),
        *map(_options_of, sorted(ALLOWED)),
    ],
    "Target": [_one_of("topic", "topics")],
    "Egress": [
        {"if": _within("target", _given("topics")), "then": _within("columns", _given("topic"))},
        {"if": _STRICT_FILES, "then": _given("order_by")},
        {
            "if": _STRICT_FILES,
            "then": _within("columns", {"anyOf": [_given("key"), _given("partition")]}),
        },
        {
            "if": {"not": _within("source", _within("format", text("^json$")))},
            "then": {
                "properties": {
                    "columns": {"properties": {name: {"not": _LINE} for name in _COLUMNS}}
                }
            },
        },
    ],
}
