"""The key `decode` of an ingest pipeline: typed columns from keys and values."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tidegate.core.decoding import ANY_TOPIC, Decoder, Decoding
from tidegate.core.schema import SchemaError
from tidegate.pipelines.strict import Contradiction, Strict
from tidegate.pipelines.value_types import LakeTopic, Text
from tidegate.spark import formats
from tidegate.spark.formats import RecordFormatName

_LARGEST_FILE = 1 << 20


def _is_one_character(text: str) -> str:
    if len(text) != 1 or text in '"\r\n\0\ufdd0\ufeff' or text > "\uffff":
        raise ValueError("must be one character up to U+FFFF, and no quote or end of a line")
    return text


def _begins_a_name(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("must begin a name: letters, digits and _, no digit first")
    return text


class DecoderSpec(Strict):
    """How a key or a value is decoded."""

    format: RecordFormatName
    definition: Text | None = Field(default=None, alias="schema")
    prefix: Annotated[str, AfterValidator(_begins_a_name)] | None = None
    separator: Annotated[str, AfterValidator(_is_one_character)] | None = None

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        if (name := given.get("format")) is None:
            return None
        records = formats.format_of_records(name)
        match key:
            case "definition" if value is None and records.default is None:
                example = records.example
                return "schema", f"missing; for example {example}, or {{file: orders.schema}}"
            case "definition" if value is not None:
                try:
                    records.decoder(value)
                except SchemaError as error:
                    return "schema", str(error)
            case "separator" if value is not None and "separator" not in records.keys:
                return "separator", f"{name} has none"
        return None

    @property
    def decoder(self) -> Decoder:
        """The same, with the schema in one form for each meaning."""
        records = formats.format_of_records(self.format)
        given = {"separator": self.separator} if self.separator else {}
        return records.decoder(self.definition or records.default or "", self.prefix or "", **given)


class TopicDecode(Strict):
    """How the records of a topic are decoded: their values, their keys, or both."""

    value: DecoderSpec | None = None
    key: DecoderSpec | None = None

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        if key != "key" or "value" not in given:
            return None
        if value is None and given["value"] is None:
            return "", "give value, key or both"
        if found := _decoding(given["value"], value).complaints():
            return "", found
        return None

    @property
    def decoding(self) -> Decoding:
        return _decoding(self.value, self.key)


def _decoding(value: DecoderSpec | None, key: DecoderSpec | None) -> Decoding:
    return Decoding(value.decoder if value else None, key.decoder if key else None)


DecodedTopic = Literal["*"] | LakeTopic
Decode = dict[DecodedTopic, TopicDecode]


def unknown_topics(decode: Mapping[str, TopicDecode], selected: Collection[str]) -> list[str]:
    """Return the topics of `decode` that are not in `selected`."""
    return [topic for topic in decode if topic != ANY_TOPIC and topic not in selected]


def read_schema_files(form: dict[str, Any], beside: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a pipeline file's form with the texts of schema files, and complaints.

    `schema: {file: NAME}` stands for the text of a file beside the pipeline's.
    """
    wrong: list[str] = []

    @functools.cache
    def content(name: str) -> str:
        if (beside / name).exists() and not (beside / name).is_file():  # a pipe would not end
            raise ValueError("not a file")
        with (beside / name).open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise ValueError(f"larger than {_LARGEST_FILE >> 10} KiB")
        return data.decode()

    def text_of(name: str, at: str) -> str:
        if name != Path(name).name:
            wrong.append(f"{at}: the file is beside the pipeline's: a name, without a directory")
            return name
        try:
            return content(name)
        except OSError as error:
            wrong.append(f"{at}: {name} cannot be read: {error.strerror}")
        except ValueError as error:
            wrong.append(f"{at}: {name} cannot be read: {error}")
        return name

    def read(value: Any, *at: str) -> Any:
        match value:
            case {"file": str(name), **rest} if not rest and at[-1] == "schema":
                return text_of(name, ".".join(at))
            case dict():
                return {key: read(inner, *at, str(key)) for key, inner in value.items()}
        return value

    if isinstance(form.get("decode"), dict):
        form = {**form, "decode": read(form["decode"], "decode")}
    return form, wrong


def decoder_keys() -> Iterator[tuple[str, type[Strict]]]:
    """Yield the mappings within `decode` by their paths, `*` for any topic."""
    yield "decode.*", TopicDecode
    yield "decode.*.value", DecoderSpec
    yield "decode.*.key", DecoderSpec
