"""Transforms and predicates of Kafka Connect: no pipeline applies them."""

from __future__ import annotations

import re

from tidegate.pipelines.translation.draft import Draft
from tidegate.pipelines.translation.given import Given

_ROUTES = re.compile(r"router|extracttopic|topicname", re.IGNORECASE)
_MASKS = re.compile(r"mask|encrypt|cipher|hash|redact|anonym|pseudonym|tokeni", re.IGNORECASE)
_OF_SINK = "the lake keeps all records as they are in Kafka: use a view of the lake in its place"
_NOT_USED = "`transforms` does not name it"
_PART_OF = "of a transform, which has its own answer"


def pop(draft: Draft, given: dict[str, Given]) -> None:
    """Take the transforms and their predicates out of the settings, and note them.

    Where a transform would change what there is in the lake, or what is sent, it is missing.
    """
    named = given.pop("transforms", None)
    parts = {name: given.pop(name) for name in list(given)
             if name.startswith(("transforms.", "predicates"))}  # fmt: skip
    value = draft.text(named) if named else None
    if named and value is None and named.value != "":
        draft.need(named, "it is not known what is done to the records")
    aliases = list(dict.fromkeys(filter(None, map(str.strip, (value or "").split(",")))))
    types = [parts.pop(f"transforms.{alias}.type", named) for alias in aliases]
    for type_ in filter(None, dict.fromkeys(types)):
        _transform(draft, type_)
    if named and aliases:
        draft.drop(named, _PART_OF)
    known = set(aliases)
    for name, each in parts.items():
        dots = [i for i, c in enumerate(name[:300]) if c == "."][1:]
        is_used = any(name[11:i] in known for i in dots) and name.startswith("transforms.")
        is_used |= bool(aliases) and name.startswith("predicates")
        draft.drop(each, _PART_OF if is_used else _NOT_USED)


def _transform(draft: Draft, type_: Given) -> None:
    name = type_.value.rpartition(".")[2]
    if draft.kind == "egress" and _ROUTES.search(name):
        draft.need(type_, "it changes the topic of records: set target.topic")
    elif draft.kind == "egress":
        draft.need(type_, "it changes records or leaves some out: rows are sent as they are in the "
                   "files, or by `columns`")  # fmt: skip
    elif _ROUTES.search(name):
        draft.drop(type_, "the directories of the lake have the names of topics in Kafka")
    elif _MASKS.search(name):
        draft.need(type_, f"it masks values, and they would be readable in the lake: {_OF_SINK}")
    else:
        draft.need(type_, f"it changes records or leaves some out: {_OF_SINK}")
