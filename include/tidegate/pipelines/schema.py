"""JSON Schema of pipeline files, for editors.

It is narrower than `parse` in three places: options have the letter case of the table, switches are
`true` or `false`, and `kind` is no variable. What only `parse` knows: the file's name, keys given
twice, comparisons of values, expressions, and when a schedule fires.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from tidegate.pipelines import schema_rules
from tidegate.pipelines.schema_rules import TIME, Schema, any_case, text, whole_text
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.settings.setting import Answer, Check, Place, Setting, Whole, Word, boolean, duration
from tidegate.settings.sink import READING
from tidegate.settings.table import TABLE, find

_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_BOUNDS = {"ge": "minimum", "le": "maximum", "lt": "exclusiveMaximum"}
_NEVER: Schema = {"not": {}, "doNotSuggest": True}
_SECRET = r"(\.secret\.key|\.access\.key|\.session\.token|[pP]assword)$"
"""The commonest names of secrets: `parse` knows more."""
_OWN: dict[str, Schema] = {
    "kafka.acks": {"anyOf": [{"enum": ["all", "-1", "1", -1, 1]}, text()]},
    "kafka.check.crcs": {"anyOf": [{"const": True}, text(any_case(["true"]))]},
    "kafka.partitioner.ignore.keys": {"anyOf": [{"const": False}, text(any_case(["false"]))]},
    "kafka.compression.gzip.level": {
        "anyOf": [{"enum": [-1, *range(1, 10)]}, text("^(-1|0*[1-9])$")]
    },
    "spark.log.level": {"not": {"pattern": any_case(["ALL", "TRACE", "DEBUG"])}},
}
"""Of settings whose check has no values that can be read from it."""
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
    schema_rules.add(definitions)
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


def _or_text(form: Schema, *patterns: str) -> Schema:
    return {"anyOf": [form, text(*patterns)]}


def _whole(**bounds: int) -> Schema:
    return _or_text({"type": "integer", **bounds}, whole_text(bounds.get("minimum", -1)))


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
            return {**text(TIME), **default}
        case {"type": "array", "minLength": least}:
            del kept["minLength"]
            return {**kept, "minItems": least, **default}
    return {**kept, **default}


def _options(places: Sequence[Place], without: str) -> Schema:
    """Return the schema of the settings at some places, by their names without a prefix.

    A known name of Spark in another letter case, and the commonest names of secrets, are refused.
    """
    settings = [each for each in TABLE if each.place in places and each.name.startswith(without)]
    of_spark = Place.SPARK in places
    exact, others = {}, {}
    for each in settings:
        name = each.name.removeprefix(without)
        form = _NEVER if without and each.name in READING else _option(each)
        if name.endswith("*"):
            others[f"^{re.escape(name.removesuffix('*'))}"] = form
        else:
            exact[name] = form
            if of_spark:
                others[any_case([name], but=name)] = _NEVER
    found: Schema = {"type": "object", "properties": exact, "additionalProperties": False}
    if of_spark:
        others[_SECRET] = {"anyOf": [{"enum": [True, False, "true", "false", ""]}, text("^arn:")]}
        found |= {
            "additionalProperties": _SCALAR,
            "patternProperties": others,
            "propertyNames": {"pattern": r"^spark\..*\S$"},
        }
    return found


def _option(setting: Setting) -> Schema:
    use = f"; use {setting.use}" if setting.use else ""
    about = {"description": f"{setting.answer}: {setting.why}{use}"} if setting.why else {}
    if setting.answer is Answer.REFUSED:
        return {**_NEVER, **about}
    judged = find(setting.place, setting.becomes or setting.name) or setting
    return {**(_OWN.get(judged.name) or _values(judged.check)), **about}


def _values(check: Check | None) -> Schema:
    match check:
        case Whole(least, most):
            digits = "^-?[0-9]{1,19}$" if least < 0 else "^[0-9]{1,19}$"
            number = {"type": "integer", "minimum": least, "maximum": most}
            return _or_text(number, digits if least < 1 else "^0*[1-9][0-9]{0,18}$")
        case Word(known, ignore_case):
            pattern = any_case(known) if ignore_case else f"^({'|'.join(map(re.escape, known))})$"
            numbers = [int(word) for word in known if re.fullmatch("-?[0-9]+", word)]
            switches = [word == "true" for word in known if word in ("true", "false")]
            return (
                _or_text({"enum": [*numbers, *switches]}, pattern)
                if numbers or switches
                else (text(pattern))
            )
    if check is boolean:
        return _or_text({"type": "boolean"}, any_case(["true", "false"]))
    if check is duration:
        return _or_text(
            {"type": "integer"}, r"^\s*-?[0-9]{1,15}([uUmM]?[sS]|[mM]([iI][nN])?|[hHdD])?\s*$"
        )
    return {**_SCALAR, "pattern": r"\S"} if check is not None else _SCALAR
