"""Pipeline files from the settings of other tools: Spark jobs, clients of Kafka, Kafka Connect."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tidegate.core.printable import CONTROL
from tidegate.errors import ConfigurationError
from tidegate.pipelines import yaml_reader
from tidegate.pipelines.spec import parse
from tidegate.pipelines.translation import (
    command_line,
    connect,
    properties,
    spark_job,
    written,
)
from tidegate.pipelines.translation.draft import Draft
from tidegate.pipelines.translation.given import Given, Read
from tidegate.pipelines.yaml_reader import BadFile

MOST_BYTES = 128 * 1024
_NESTED = ("config", "options", "conf", "spark_conf", "sparkConf", "kafkaParams")
_PROGRAM = re.compile(
    r"\.\s*(?:option|options|readStream|writeStream)\b|KafkaUtils|[\"']\s*->"
    r"|^[ \t]*(?:import|val)\s",
    re.MULTILINE,
)
_NONE = (
    "neither the options of a Spark job, nor properties of a Kafka consumer or producer, nor the "
    "configuration of a Kafka Connect S3 sink or source"
)


@dataclass(frozen=True)
class Translation:
    """A pipeline file, and what is missing for it to be one.

    `mapped`, `dropped` and `refused` are numbers of settings.
    """

    name: str
    text: str
    missing: tuple[str, ...]
    mapped: int
    dropped: int
    refused: int


def translate(data: bytes, stem: str = "", name: str = "") -> Translation:
    """Return the pipeline file for a text; `stem` is the name of the text's file.

    `name` is the pipeline's; without it, one is made from the text or the stem.

    ConfigurationError if the text is nothing that can be translated. No message, and nothing in
    the file, has a secret of the text, or a value that did not become a key of the file.
    """
    if len(data) > MOST_BYTES:
        raise ConfigurationError(f"larger than {MOST_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError("not text in UTF-8") from None
    if "\0" in text:
        raise ConfigurationError("not text: it has a byte 0")
    read = _read(text)
    draft: Draft | None
    if connect.is_one(read):
        draft, what = connect.draft(read, stem, name), "a connector of Kafka Connect"
    else:
        what = read.what
        draft = spark_job.draft(read, stem, name) if spark_job.is_one(read) else None
    if draft is None:
        raise ConfigurationError(_NONE)
    return _written(draft, what)


def _written(draft: Draft, what: str) -> Translation:
    if "lake" not in draft.form:
        draft.set(("lake",), "${TIDEGATE_LAKE}", None, "a directory or URL")
    draft.form["kind"] = draft.kind
    draft.missing += [c for c in _complaints(written.text(draft, what)) if _is_new(c, draft)]
    text = written.text(draft, what)
    if len(text.encode()) > yaml_reader.MOST_BYTES:
        raise ConfigurationError("more settings than a pipeline file can hold comments on")
    keys = sum(each[-1] not in ("name", "lake") for each in draft.comments)
    counts = (keys, *(sum(map(len, each.values())) for each in (draft.dropped, draft.refused)))
    return Translation(draft.form["name"], text, tuple(draft.missing), *counts)


def _complaints(text: str) -> list[str]:
    """Return what is wrong with a pipeline file whose variables are not set."""
    try:
        form, complaints = yaml_reader.read(text)
        parse({**form, "lake": form["lake"].replace("${TIDEGATE_LAKE}", "/lake")})
    except (BadFile, ValueError) as error:
        return str(error).splitlines()
    return complaints


def _is_new(complaint: str, draft: Draft) -> bool:
    """Return whether a complaint is about a key that is there, and not among what is missing."""
    key = complaint.partition(":")[0]
    first, _, second = key.partition(".")
    value = draft.form.get(first)
    is_there = value is not None and (not isinstance(value, dict) or not second or second in value)
    return not draft.missing or (
        is_there and not any(each.startswith(key) for each in draft.missing)
    )


def _read(text: str) -> Read:
    """Return the settings in a text of any of the known forms."""
    if text.lstrip().startswith("{"):
        try:
            form = json.loads(text, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError):
            raise ConfigurationError("not JSON, though it begins as JSON does") from None
        return Read(tuple(_flat(form)), "settings in JSON", where="entry")
    if _PROGRAM.search(text):
        raise ConfigurationError(
            "a program in Python or Scala: only settings are translated; write its options as JSON "
            '{"subscribe": "orders", …}, or as properties'
        )
    if command_line.IS_ONE.search(text):
        return Read(tuple(command_line.read(text)), "a command line of spark-submit")
    return Read(tuple(properties.read(text)), "properties")


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with the names that are given twice."""


def _flat(form: _Pairs) -> list[Given]:
    """Return the entries of an object, and those of objects in it that hold settings."""
    found: list[Given] = []
    for name, value in form:
        if isinstance(value, _Pairs) and name in _NESTED:
            found += [Given(each.name, each.value, 0) for each in _flat(value)]
        elif value is not None:
            found.append(Given(name if not CONTROL.search(name) else "", _text(value), 0))
    return [Given(each.name, each.value, n) for n, each in enumerate(found, 1)]


def _text(value: Any) -> str:
    """Return a value of JSON as a setting has it: text, or JSON again."""
    return value if isinstance(value, str) else json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {name: _plain(each) for name, each in value}
    return [_plain(each) for each in value] if isinstance(value, list) else value
