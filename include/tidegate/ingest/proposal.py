"""A sample of a topic's newest records: how they can be decoded, and what does not fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import survey
from tidegate.broker.consumer import reading
from tidegate.core import sampled_columns, schema
from tidegate.core.decoding import Decoder, Decoding, of_topic
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.launch.decoding import KeyAndValue, decoded
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines.spec import Ingest
from tidegate.runs.topics import resolved

RECORDS = 100
"""At most so many records of a topic are sampled."""
_PARTITIONS = 32  # of a topic, those with the most records
_BYTES = 16 * 2**20  # of a topic
_PREFIX = "value_"


class Proposal(NamedTuple):
    """How the values of a topic can be decoded, by so many records; None: there is no proposal."""

    decoder: Decoder | None
    records: int


def proposed(spec: Ingest, kafka: KafkaSettings, topics: Sequence[str]) -> dict[str, Proposal]:
    """Return a proposal for each topic that has records. Raises the errors of a broker."""
    sampled = _sampled(spec, kafka, topics, RECORDS)
    return {topic: Proposal(decoder(_values(each)), len(each)) for topic, each in sampled.items()}


def fit(
    spec: Ingest, kafka: KafkaSettings, spark: SparkConnection, most: int
) -> dict[str, dict[str, Any]]:
    """Return, by topic with records, what of a sample does not fit the declared columns.

    `records` were sampled; `unfit` counts the reasons, as `_undecodable` has them: Spark decodes
    the sample. `schema` are columns of values that fit more, as DDL; null if the declared ones do,
    and for values that are not JSON. Raises the errors of a broker, and those of
    `tidegate.launch.decoding`.
    """
    sampled = _sampled(spec, kafka, resolved(spec, kafka, Fold()).topics, most)
    declared = {topic: how for topic in sampled if (how := of_topic(spec.decoding, topic))}
    rows = decoded({topic: sampled[topic] for topic in declared}, declared, spark)
    found = {}
    for topic, records in sampled.items():
        faults = Counter(row.undecodable for row in rows.get(topic, ()) if row.undecodable)
        found[topic] = {
            "records": len(records),
            "unfit": dict(faults.most_common()),
            "schema": _better(declared.get(topic), _values(records), faults),
        }
    return found


def _better(declared: Decoding | None, values: list[bytes], faults: Iterable[str]) -> str | None:
    """Return columns that fit more of the values than the declared ones, as DDL, or None."""
    if declared is None or declared.value is None:
        proposal = decoder(values)
        return proposal.schema if proposal else None
    if declared.value.format != "json":
        return None
    fields, text = declared.value.fields, "\n".join(faults)
    unfit = {name for name, _ in fields if re.search(rf"[:,] {re.escape(name)}[.:]", text)}
    extended = sampled_columns.extended(values, fields, unfit)
    return schema.ddl(extended) if extended != fields else None


def _sampled(
    spec: Ingest, kafka: KafkaSettings, topics: Sequence[str], most: int
) -> dict[str, list[KeyAndValue]]:
    """Return the keys and values of at most about so many of the newest records of each topic.

    Of a partition it stops at the record that makes them too large.
    """
    found: dict[str, list[KeyAndValue]] = {}
    marks = survey(kafka, topics, spec.isolation).watermarks
    with reading(kafka) as records:
        for topic, partitions in marks.items():
            full = sorted(partitions.items(), key=lambda each: each[1].start - each[1].end)
            chosen = [(p, m) for p, m in full[:_PARTITIONS] if m.start < m.end]
            share = -(-most // max(1, len(chosen)))
            for p, m in sorted(chosen):
                r = OffsetRange(topic, p, max(m.start, m.end - share), m.end)
                size = 0
                for record in records(r, spec.isolation):
                    found.setdefault(topic, []).append((record.key, record.value))
                    size += len(record.key or b"") + len(record.value or b"")
                    if size >= _BYTES // len(chosen):
                        break
    return found


def _values(records: Iterable[KeyAndValue]) -> list[bytes]:
    return [value for _, value in records if value is not None]


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


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
