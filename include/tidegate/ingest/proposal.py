"""A sample of a topic's newest records: how they can be decoded, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import survey
from tidegate.broker.consumer import reading
from tidegate.core import sample_fit, sampled_columns, schema
from tidegate.core.decoding import Decoder, Decoding, of_topic
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.pipelines.spec import Ingest
from tidegate.runs.topics import resolved

RECORDS = 100
"""At most so many records of a topic are sampled."""
_PARTITIONS = 32  # of a topic, those with the most records
_PREFIX = "value_"


class Proposal(NamedTuple):
    """How the values of a topic can be decoded, by so many records; None: there is no proposal."""

    decoder: Decoder | None
    records: int


def proposed(spec: Ingest, kafka: KafkaSettings, topics: Sequence[str]) -> dict[str, Proposal]:
    """Return a proposal for each topic that has records. Raises the errors of a broker."""
    sampled = _sampled(spec, kafka, topics, RECORDS)
    return {topic: Proposal(decoder(each), len(each)) for topic, each in sampled.items()}


def fit(spec: Ingest, kafka: KafkaSettings, most: int) -> dict[str, dict[str, Any]]:
    """Return, by topic with records, what of a sample does not fit the declared columns.

    `records` were sampled; `unfit` counts the reasons, nearly as `_undecodable` has them: a run
    decodes by Spark. `schema` are columns that fit, as DDL; null if the declared ones do. Of values
    that are not declared as JSON, only `records` is known.
    """
    found, topics = {}, resolved(spec, kafka, Fold()).topics
    for topic, values in _sampled(spec, kafka, topics, most).items():
        declared = of_topic(spec.decoding, topic)
        of_value = declared.value if declared else None
        result: dict[str, Any] = {"records": len(values), "unfit": {}, "schema": None}
        if of_value is None:
            proposal = decoder(values)
            result["schema"] = proposal.schema if proposal else None
        elif of_value.format == "json":
            fields = of_value.fields
            reasons = sample_fit.reasons(values, fields)
            result["unfit"] = {f"value: {reason}": n for reason, n in reasons.most_common()}
            extended = sample_fit.extended(values, fields)
            result["schema"] = schema.ddl(extended) if extended != fields else None
        found[topic] = result
    return found


def _sampled(
    spec: Ingest, kafka: KafkaSettings, topics: Sequence[str], most: int
) -> dict[str, list[bytes]]:
    """Return at most about so many of the newest values of each topic, without nulls."""
    values: dict[str, list[bytes]] = {}
    marks = survey(kafka, topics, spec.isolation).watermarks
    with reading(kafka) as records:
        for topic, of_topic in marks.items():
            full = sorted(of_topic.items(), key=lambda each: each[1].start - each[1].end)
            chosen = [(p, m) for p, m in full[:_PARTITIONS] if m.start < m.end]
            share = -(-most // max(1, len(chosen)))
            for p, m in sorted(chosen):
                r = OffsetRange(topic, p, max(m.start, m.end - share), m.end)
                found = (record.value for record in records(r, spec.isolation))
                values.setdefault(topic, []).extend(v for v in found if v is not None)
    return {topic: each for topic, each in values.items() if each}


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
