"""JSON Schema of pipeline files, for editors.

It is narrower than `parse` in three places: options have the letter case of the table, switches are
`true` or `false`, and `kind` is no variable. Contradictions between keys are left to `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from tidegate.pipelines.spec import Egress, Ingest
from tidegate.settings.setting import Answer, Check, Place, Setting, Whole, Word, boolean
from tidegate.settings.table import TABLE, find

Schema = dict[str, Any]

_VARIABLE = r"\$\{[A-Za-z_]"
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_PATTERNS = {"name": "^[a-z](?!.*__)[a-z0-9_-]{0,63}$", "lake": "^/|://"}
_BOUNDS = {"ge": "minimum", "le": "maximum", "lt": "exclusiveMaximum"}
_OPTIONS = {
    ("Ingest", "options"): ((Place.SOURCE,), ""),
    ("Target", "options"): ((Place.SINK,), ""),
    ("Target", "producer"): ((Place.SINK,), "kafka."),
    ("Spark", "conf"): ((Place.SPARK,), ""),
    ("SendingSpark", "conf"): ((Place.SPARK, Place.SENDING), ""),
}


def schema() -> Schema:
    """Return the schema of a pipeline file, in the draft that most editors know."""
    _, models = models_json_schema([(Ingest, "validation"), (Egress, "validation")])
    definitions = {name: _adapted(model) for name, model in models["$defs"].items()}
    for (model, key), (places, prefix) in _OPTIONS.items():
        definitions[model]["properties"][key] = _options(places, prefix)
    for model in ("Ingest", "Egress"):
        for key, pattern in _PATTERNS.items():
            definitions[model]["properties"][key] = _text(pattern)
    egress = {"properties": {"kind": {"const": "egress"}}, "required": ["kind"]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A pipeline file of Tidegate",
        "type": "object",
        "properties": {"kind": {"enum": ["ingest", "egress"]}},
        "if": egress,
        "then": {"$ref": "#/$defs/Egress"},
        "else": {"$ref": "#/$defs/Ingest"},
        "$defs": definitions,
    }


def _text(*patterns: str) -> Schema:
    """Return the schema of a text of one of these patterns, or with a variable."""
    return {"type": "string", "pattern": "|".join([*patterns, _VARIABLE])}


def _or_text(form: Schema, *patterns: str) -> Schema:
    return {"anyOf": [form, _text(*patterns)]}


def _whole(**bounds: int) -> Schema:
    return _or_text({"type": "integer", **bounds}, "^-?(0|[1-9][0-9_]*)$")


def _adapted(node: Any) -> Any:
    """Return pydantic's schema with what a pipeline file may also say: numbers and switches as
    text, and variables.
    """
    if isinstance(node, list):
        return [_adapted(each) for each in node]
    if not isinstance(node, dict):
        return node
    if [each.get("type") for each in node.get("anyOf", ()) if isinstance(each, dict)] == [
        "string", "integer", "number", "boolean",
    ]:  # fmt: skip
        return _SCALAR
    kept = {key: _adapted(value) for key, value in node.items() if key not in _BOUNDS}
    if isinstance(kept.get("title"), str):
        del kept["title"]
    default = {"default": kept.pop("default")} if isinstance(node.get("default"), str | int) else {}
    if node.get("default", "") in (None, [], {}) or "$ref" in node:
        kept.pop("default", None)
    match kept:
        case {"type": "integer"}:
            bounds = {_BOUNDS[key]: value for key, value in node.items() if key in _BOUNDS}
            return {**_whole(**bounds), **default}
        case {"type": "boolean"}:
            return {**_or_text(kept, "^(true|false)$"), **default}
        case {"enum": list()}:
            return {**_or_text(kept), **default}
        case {"type": "string", "format": "date-time"}:
            return {**_text(r"^\d{4}-\d\d-\d\d[Tt ]"), **default}
        case {"type": "array", "minLength": least}:
            del kept["minLength"]
            return {**kept, "minItems": least, **default}
    return {**kept, **default}


def _options(places: Sequence[Place], without: str) -> Schema:
    """Return the schema of the settings at some places, by their names without a prefix."""
    settings = [each for each in TABLE if each.place in places and each.name.startswith(without)]
    found: Schema = {
        "type": "object",
        "properties": {each.name.removeprefix(without): _option(each) for each in settings},
        "additionalProperties": False,
    }
    if Place.SPARK in places:
        groups = [name for name in found["properties"] if name.endswith("*")]
        found |= {
            "propertyNames": {"pattern": r"^spark\."},
            "patternProperties": {
                f"^{re.escape(name.removesuffix('*'))}": found["properties"].pop(name)
                for name in groups
            },
            "additionalProperties": _SCALAR,
        }
    return found


def _option(setting: Setting) -> Schema:
    use = f"; use {setting.use}" if setting.use else ""
    about = {"description": f"{setting.answer}: {setting.why}{use}"} if setting.why else {}
    if setting.answer is Answer.REFUSED:
        return {"not": {}, "doNotSuggest": True, **about}
    judged = find(setting.place, setting.becomes or setting.name) or setting
    return {**_values(judged.check), **about}


def _values(check: Check | None) -> Schema:
    match check:
        case Whole(least, most):
            return _whole(minimum=least, maximum=most)
        case Word(known, ignore_case=False) if not any(
            word.lstrip("-").isdigit() for word in known
        ):
            return _or_text({"enum": list(known)})
    return _or_text({"type": "boolean"}, "^(true|false)$") if check is boolean else _SCALAR
