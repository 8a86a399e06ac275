"""Messages about a pipeline file, key by key, without values that may be secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.core.decoding import ANY_TOPIC
from tidegate.core.nearest import did_you_mean
from tidegate.settings.old_names import word_of_today

# Keys whose values may be or contain secrets.
_UNQUOTED = {"conf", "producer", "options", "arguments"}
_LONGEST = 100
_KINDS = "ingest (topics into the lake) or egress (files or a lake into topics)"
_LISTS = {"order_by": "[id]", "tags": "[orders]"}  # examples; of the others: topics
_MAPPINGS = {
    "source": "{lake: orders}",
    "target": "{topic: orders}",
    "columns": "{key: id}",
    "spark": "{connection: spark_default}",
    "conf": "{spark.executor.memory: 4g}",
    "producer": "{acks: all}",
    "options": "{header: true}",
    "assign": "{orders: [0, 2]}",
    "airflow": "{owner: orders-team}",
    "on_failure": "{call: my_alerts.Pager}",
    "arguments": "{to: team@example.com}",
    "decode": "{orders: {value: {format: json, schema: id BIGINT}}}",
    "value": "{format: json, schema: id BIGINT}",
    "offsets": "{orders: {0: 120}}",
    "timestamps": "{orders: {0: 2026-03-14T00:00:00Z}}",
}
_WORDS = {
    "string_too_short": "must not be empty",
    "string_unicode": "must be Unicode",
    "invalid_key": "a key must be text",
    "too_short": "give at least one, for example [orders]",
    "string_too_long": "must have at most {max_length} characters",
    "string_type": 'must be text; quote a number or a date: "5"',
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "timezone_aware": "not a time with a zone, for example 2026-03-14T00:00:00Z",
}
# The first parts of other types of pydantic's errors.
_OTHERS = {
    "int": "must be a whole number of at most 19 digits",
    "datetime": _WORDS["timezone_aware"],
    "dict": "must be a mapping, for example {example}",
    "model": "must be a mapping, for example {example}",
}
_ELSEWHERE = {
    "mode": "records are appended, as Kafka has nothing else",
    "target.mode": "records are appended, as Kafka has nothing else",
    "schema": "Spark's Kafka source has columns of its own; those of an egress's files are "
    "source.columns",
    "where": "a pipeline reads or sends all rows; a filter is for a replay of a lake: `tidegate "
    "replay … --where …`",
}


def complaints(error: Any, known_keys: Mapping[str, list[str]]) -> list[str]:
    """Return one of pydantic's errors as lines that begin with the key, in Tidegate's words.

    `known_keys` maps the path of each mapping to the keys that it may have.
    """
    path = [str(p) for p in error["loc"] if p not in ("Word", "At", "[key]")]
    context = error.get("ctx", {})
    if "key" in context:
        path[-1:] = [context["key"]] if context["key"] else []
    key = ".".join(path)
    if error["type"] == "contradictions":
        return [": ".join(filter(None, [key, text])) for text in context["texts"]]
    return [_complaint(error, path, known_keys)]


def _complaint(error: Any, path: list[str], known_keys: Mapping[str, list[str]]) -> str:
    key = ".".join(path)
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key{_known_instead(path, known_keys)}"
        case "missing":
            example = f", for example {_MAPPINGS[key]}" if key in _MAPPINGS else ""
            return f"{key}: missing" + (f": {_KINDS}" if key == "kind" else example)
        case "unquoted":
            return ": ".join(filter(None, [key, error["msg"]]))
    message = f"must be {_KINDS}" if key == "kind" else _in_our_words(error, key)
    if _UNQUOTED & set(path) or "must be a mapping" in message:
        return f"{key}: {message}"
    return ": ".join(filter(None, [key, quote_value(error["input"]), message]))


def quote_value(value: Any) -> str:
    """Return a value as text, shortened. Nothing for a collection, unless it is empty."""
    if isinstance(value, dict | list | tuple | set | bytes) and value:
        return ""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _known_instead(path: list[str], known_keys: Mapping[str, list[str]]) -> str:
    """Return what may have been meant by an unknown key: the nearest, or all that are known."""
    *parents, name = path
    if reason := _ELSEWHERE.get(".".join(path)) or (name == "where" and _ELSEWHERE[name]):
        return f": {reason}"
    if parents[:1] == ["decode"] and parents[1:]:
        parents[1] = ANY_TOPIC
    known = known_keys.get(".".join(parents), [])
    elsewhere = [f"{other}.{name}" for other, keys in known_keys.items() if other and name in keys]
    near = did_you_mean(name, known) or did_you_mean(elsewhere, elsewhere)
    return near or f"; known keys: {', '.join(known)}"


def _in_our_words(error: Any, key: str) -> str:
    """Return what is wrong with a value. Pydantic's words are about Python."""
    kind, value, last = error["type"], error["input"], key.rpartition(".")[2]
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if kind == "literal_error":
        expected = re.findall("'([^']*)'", error["ctx"]["expected"])
        words = [word for word in expected if word_of_today(word) == word]
        forms = "timestamp, timestamps, offsets or group"
        mapping = f", or a mapping with {forms}" if last == "start" else ""
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        return f"must be {', '.join(words[:-1])} or {words[-1]}{mapping}{near}"
    if kind == "tuple_type":
        name = value if isinstance(value, str) and value.isidentifier() else None
        example = f"[{name}]" if name else _LISTS.get(last, "[orders]")
        return f"must be a list, for example {example}"
    text = _WORDS.get(kind) or _OTHERS.get(kind.partition("_")[0]) or "not valid here"
    return text.format(**error.get("ctx", {}), example=_MAPPINGS.get(last, "{key: value}"))
