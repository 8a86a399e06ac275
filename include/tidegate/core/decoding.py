"""Decoding: how the keys and values of a topic become typed columns, beside their bytes.

One row stays one record. A record that does not fit has null in what does not fit, its bytes, and
the reason in the column `_undecodable`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tidegate.core import columns, schema
from tidegate.core.json_codec import OMITTED, Document, StoredDocument
from tidegate.core.plan import Plan
from tidegate.core.schema import Field, Fields
from tidegate.errors import OtherFormat

UNDECODABLE = "_undecodable"
ANY_TOPIC = "*"
_OURS = {name.lower() for name in (*columns.NAMES, *columns.FROM_THE_LEDGER, UNDECODABLE)} | {
    "window_date"
}


@dataclass(frozen=True)
class Decoder(Document):
    """How a key or a value is decoded.

    `format` is a name of `spark.formats`. `schema` has the fields as DDL, `prefix` begins the name
    of each column. With `by_place` fields are told apart by their place, not by their names.
    `options` are what the format needs beside that, and nobody else reads them.
    """

    format: str
    schema: str
    prefix: str = ""
    by_place: Annotated[bool, OMITTED] = False
    options: Annotated[Mapping[str, str], OMITTED] = dataclasses.field(default_factory=dict)

    @property
    def fields(self) -> Fields:
        """The fields of a key or a value, without the prefix. SchemaError for a wrong schema."""
        return schema.parse_columns(self.schema)

    @property
    def columns(self) -> Fields:
        """The columns of the lake that it fills."""
        return tuple(Field(self.prefix + name, kind) for name, kind in self.fields)


@dataclass(frozen=True)
class Decoding(StoredDocument):
    """How the records of a topic are decoded. Their bytes are kept beside the columns."""

    value: Annotated[Decoder | None, OMITTED] = None
    key: Annotated[Decoder | None, OMITTED] = None

    @property
    def decoders(self) -> dict[str, Decoder]:
        """The decoders by the column of bytes that they read."""
        return {name: each for name in ("value", "key") if (each := getattr(self, name))}

    @property
    def columns(self) -> Fields:
        """The columns that it adds, `_undecodable` last."""
        added = (field for each in self.decoders.values() for field in each.columns)
        return (*added, Field(UNDECODABLE, schema.Type("string")))

    def complaints(self) -> list[str]:
        """Return what is wrong with the names of its columns; SchemaError for a wrong schema."""
        found, seen = [], set[str]()
        for column, decoder in self.decoders.items():
            for field in decoder.columns:
                name = schema.fold_name(field.name)
                if name in _OURS:
                    found.append(
                        f"{column}: the lake has a column {field.name} of its own: give a `prefix`"
                    )
                elif name in seen:
                    found.append(f"{column}: column {field.name} occurs twice: give a `prefix`")
                seen.add(name)
        return found


def decoding_of_topic(declared: Mapping[str, Decoding], topic: str) -> Decoding | None:
    """Return how a topic is decoded: as declared for it, or for all others, or not at all."""
    return declared.get(topic) or declared.get(ANY_TOPIC)


def decoding_changes(old: Decoding, new: Decoding | None) -> list[str]:
    """Return why rows of `new` cannot stand beside rows of `old`. Nothing if they can."""
    if new is None:
        return ["its records were decoded, and no longer are: keep `decode` for it"]
    found = schema.column_changes(old.columns, new.columns)
    for column, before in old.decoders.items():
        now = new.decoders.get(column)
        if now and before.by_place and now.by_place:
            names = [name for name, _ in before.fields]
            if [name for name, _ in now.fields][: len(names)] != names:
                found.append(
                    f"{column}: its fields are read by their place: keep the order, and add new "
                    "ones at the end"
                )
    return found


def contradictions(old: Decoding, new: Decoding) -> list[str]:
    """Return why rows of two decodings cannot stand side by side, whichever is first."""
    found = decoding_changes(old, new)
    return found if found and decoding_changes(new, old) else []


def group_decodings(decodings: Mapping[str, Decoding]) -> list[dict[str, Any]]:
    """Return how a plan has the decodings of its topics: each once, with its topics."""
    topics: dict[str, list[str]] = {}
    for topic, each in sorted(decodings.items()):
        topics.setdefault(each.sha256, []).append(topic)
    alike = topics.values()
    return [{"topics": named, **decodings[named[0]].to_json()} for named in alike]


def decodings_of_plan(plan: Plan) -> dict[str, Decoding]:
    """Return the decoding of each topic that a frozen plan decodes.

    Raises OtherFormat for a key that is not known here: without it, values would be other values.
    """
    found = dict[str, Decoding]()
    for form in plan.byte_settings.get("decode", ()):
        decoding, topics = Decoding.from_json(form), form["topics"]
        if {"topics": topics, **decoding.to_json()} != form:
            raise OtherFormat(
                f"plan {plan.id}: the decoding of {topics[0]} has keys that this version does not "
                "know: update this installation"
            )
        found |= dict.fromkeys(topics, decoding)
    return found
