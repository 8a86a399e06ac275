"""JSON Schema of pipeline files, for editors: pydantic's own, with the names of all settings.

It is more lenient than `tidegate validate`, which compares values and knows their bounds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from tidegate.pipelines.spec import Egress, Ingest
from tidegate.settings.setting import Answer, Place
from tidegate.settings.sink_settings import READING
from tidegate.settings.table import TABLE

Schema = dict[str, Any]
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z_]"}
_NEVER: Schema = {"not": {}, "doNotSuggest": True}
_OPTIONS = {
    ("Ingest", "options"): ((Place.SOURCE,), ""),
    ("Target", "options"): ((Place.SINK,), ""),
    ("Target", "producer"): ((Place.SINK,), "kafka."),
    ("Spark", "conf"): ((Place.SPARK,), ""),
    ("SendingSpark", "conf"): ((Place.SPARK, Place.SENDING), ""),
}


def editor_schema() -> Schema:
    """Return the schema of a pipeline file, in the draft that most editors know."""
    _, models = models_json_schema([(Ingest, "validation"), (Egress, "validation")])
    definitions = _with_texts(models["$defs"])
    for (model, key), (places, prefix) in _OPTIONS.items():
        definitions[model]["properties"][key] = _options(places, prefix)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A pipeline file of Tidegate",
        "type": "object",
        "properties": {"kind": {"enum": ["ingest", "egress"]}},
        "if": {"properties": {"kind": {"const": "egress"}}, "required": ["kind"]},
        "then": {"$ref": "#/$defs/Egress"},
        "else": {"$ref": "#/$defs/Ingest"},
        "$defs": definitions,
    }


def _with_texts(node: Any) -> Any:
    """Return a schema in which numbers and switches may be texts, and words may have variables."""
    if isinstance(node, list):
        return [_with_texts(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {
        key: _with_texts(value)
        for key, value in node.items()
        if key not in ("format", "title") or not isinstance(value, str)
    }
    if found.get("type") in ("integer", "boolean"):
        found["type"] = [found["type"], "string"]
    elif "enum" in found:
        words = {"type": found.pop("type"), "enum": found.pop("enum")}
        found["anyOf"] = [words, _VARIABLE]
    return found


def _options(places: Sequence[Place], without: str) -> Schema:
    """Return the schema of the settings at some places, by their names without a prefix.

    Of Spark, names that the table does not have are settings, too.
    """
    exact: dict[str, Schema] = {}
    patterns: dict[str, Schema] = {}
    for each in TABLE:
        if each.place in places and each.name.startswith(without):
            name, use = each.name.removeprefix(without), f"; use {each.use}" if each.use else ""
            is_refused = each.answer is Answer.REFUSED or (without and each.name in READING)
            form = dict(_NEVER if is_refused else _SCALAR)
            if each.why:
                form["description"] = f"{each.answer}: {each.why}{use}"
            if name.endswith("*"):
                patterns[f"^{re.escape(name.removesuffix('*'))}"] = form
            else:
                exact[name] = form
    found: Schema = {"type": "object", "properties": exact}
    if patterns:
        found["patternProperties"] = patterns
    if Place.SPARK not in places:
        return {**found, "additionalProperties": False}
    names = {"pattern": r"^spark\..*\S$"}
    return {**found, "additionalProperties": _SCALAR, "propertyNames": names}
