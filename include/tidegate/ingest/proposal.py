"""A proposal of `decode` for topics, by a sample of their newest records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import survey
from tidegate.broker.consumer import first_batches
from tidegate.core import sampled_columns, schema
from tidegate.core.decoding import Decoder, Decoding
from tidegate.pipelines.spec import Ingest

RECORDS = 100
"""At most so many records of a topic are sampled."""
_SECONDS = 5.0
_FETCHED = 256 * 1024  # bytes per partition
_PREFIX = "value_"


class Proposal(NamedTuple):
    """How the values of a topic can be decoded, by so many records; None: there is no proposal."""

    decoder: Decoder | None
    records: int


def proposed(spec: Ingest, kafka: KafkaSettings, topics: Sequence[str]) -> dict[str, Proposal]:
    """Return a proposal for each topic that has records. Raises the errors of a broker."""
    marks = survey(kafka, topics, spec.isolation).watermarks
    starts = {
        (topic, p): max(m.start, m.end - RECORDS // len(of_topic) - 1)
        for topic, of_topic in marks.items()
        for p, m in of_topic.items()
        if m.start < m.end
    }
    batches = first_batches(
        kafka, starts, spec.isolation, list, patience=_SECONDS, fetch_bytes=_FETCHED
    )
    values: dict[str, list[bytes]] = {}
    for (topic, _), records in sorted(batches.items()):
        values.setdefault(topic, []).extend(_values(records))
    return {topic: Proposal(decoder(each), len(each)) for topic, each in values.items()}


def decoder(values: Sequence[bytes]) -> Decoder | None:
    """Return how values can be decoded: as JSON, if nearly all are objects, else as text, if all
    are UTF-8.
    """
    objects = [text for value in values if (text := _utf8(value)) and text.lstrip()[:1] == "{"]
    if objects and len(objects) >= 0.9 * len(values):
        fields = sampled_columns.of_objects(objects)
        if fields:
            found = Decoder("json", schema.ddl(fields))
            if Decoding(found).complaints():
                found = Decoder("json", found.schema, _PREFIX)
            return found
    if values and all(_utf8(value) is not None for value in values):
        return Decoder("string", "text STRING")
    return None


def _values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records[-RECORDS:] if record.value is not None]


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
