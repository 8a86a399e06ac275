"""Print the JSON Schema of what commands print with --json: docs/json-schema.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tidegate.core.json_codec import Form, Name, Presence
from tidegate.core.offsets import Window
from tidegate.doctor.check import Diagnosis
from tidegate.egress.explain import EgressExplained
from tidegate.egress.release import Released
from tidegate.egress.report import EgressReport
from tidegate.egress.status import EgressStatus
from tidegate.ingest.explain import IngestExplained
from tidegate.ingest.report import IngestReport
from tidegate.ingest.status import IngestStatus
from tidegate.ingest.topic_coverage import Coverage
from tidegate.maintenance.checkpoint_step import Checkpointed
from tidegate.maintenance.cursor_moves import AdoptedTopic, CursorMove, Cursors
from tidegate.maintenance.reconcile import Reconciled
from tidegate.maintenance.repair import Repaired
from tidegate.maintenance.sweep import SweptPipeline
from tidegate.runs.findings import Verified
from tidegate.runs.pipeline_state import PipelineList
from tidegate.samples.proposed_decoder import CheckedSamples
from tidegate.terminal.render_settings import SettingAnswers, Validated

DOCUMENTS = {
    "run": (IngestReport, EgressReport),
    "explain": (IngestExplained, EgressExplained),
    "explain --sample": (CheckedSamples,),
    "status": (IngestStatus, EgressStatus),
    "list": (PipelineList,),
    "coverage": (Coverage,),
    "verify": (Verified,),
    "release": (Released,),
    "offsets show": (Cursors,),
    "offsets set": (CursorMove,),
    "offsets adopt": (AdoptedTopic,),
    "reconcile": (Reconciled,),
    "repair": (Repaired,),
    "sweep": (SweptPipeline,),
    "checkpoint": (Checkpointed,),
    "doctor": (Diagnosis,),
    "settings": (SettingAnswers,),
    "validate": (Validated,),
}
"""The types of the documents by command."""
_SCALARS = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}
_OPEN = {
    "LeftOut": ("topic", "partition", "reason"),
    "Problem": ("topic", "partition", "reason", "fix"),
    "Mismatch": ("what",),
    "Decoder": ("format",),
}
"""Objects that have other keys case by case, and the keys that they all have."""


def json_schemas() -> dict[str, Any]:
    """Return the schema: one definition for each type, and what each command prints."""
    found: dict[str, Any] = {}
    commands = {
        command: {"anyOf": [_of_type(kind, found) for kind in kinds]}
        for command, kinds in DOCUMENTS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What Tidegate's commands print with --json",
        "properties": commands,
        "$defs": dict(sorted(found.items())),
    }


def _of_type(hint: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of values of a type. Definitions of classes are added to `found`."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if hint is Window:  # topic → partition → [start, end]
        return _of_type(Mapping[str, Mapping[str, tuple[int, int]]], found)
    if kind is Annotated:
        is_object = any(isinstance(note, Form) for note in inner[1:])
        return _of_class(inner[0], found) if is_object else _of_type(inner[0], found)
    if kind is Any:
        return {}
    if kind is UnionType:
        return {"anyOf": [_of_type(each, found) for each in inner]}
    if kind is Literal:
        return {"enum": list(inner)}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": _of_type(inner[1], found)}
    if issubclass(kind, tuple) and Ellipsis in inner:
        return {"type": "array", "items": _of_type(inner[0], found)}
    if issubclass(kind, tuple):
        items = [_of_type(each, found) for each in inner or get_type_hints(kind).values()]
        return {"type": "array", "prefixItems": items, "items": False}
    return _of_class(kind, found)


def _of_class(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Return the reference to a class that is an object in JSON, and define it."""
    if get_origin(kind) is UnionType or isinstance(kind, UnionType):
        return {"anyOf": [_of_type(each, found) for each in get_args(kind)]}
    if kind.__name__ not in found:
        found[kind.__name__] = {}  # a type may hold itself
        found[kind.__name__] = _definition(kind, found)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _definition(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    if required := _OPEN.get(kind.__name__):
        return {"type": "object", "required": list(required)}
    hints = get_type_hints(kind, include_extras=True)
    if hasattr(kind, "_fields"):  # a named tuple, as an object
        written = [(name, hints[name], True) for name in kind._fields]
    else:
        written = [
            (each.name, hints[each.name], _is_written(hints[each.name])) for each in fields(kind)
        ]
    properties = {_name(name, hint): _of_type(hint, found) for name, hint, _ in written}
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": properties,
        "required": [_name(name, hint) for name, hint, always in written if always],
    }


def _is_written(hint: Any) -> bool:
    """Return whether a field is written although it is the default."""
    return not any(isinstance(note, Presence) for note in getattr(hint, "__metadata__", ()))


def _name(name: str, hint: Any) -> str:
    notes = getattr(hint, "__metadata__", ())
    return next((note.name for note in notes if isinstance(note, Name)), name)


if __name__ == "__main__":
    print(json.dumps(json_schemas(), indent=1))
