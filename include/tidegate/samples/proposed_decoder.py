"""A sample of a topic's newest records: how they can be decoded, and what does not fit."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, NamedTuple

from tidegate.broker.cluster import survey
from tidegate.broker.consumer import open_reader
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import sampled_columns, schema
from tidegate.core.decoding import UNDECODABLE, Decoder, Decoding, decoding_of_topic
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document, Form
from tidegate.core.offsets import OffsetRange
from tidegate.errors import UnknownTopic
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines.scaffold import Proposal
from tidegate.pipelines.spec import Ingest
from tidegate.runs.topics import resolve_topics
from tidegate.samples.decoded_by_spark import decode_samples

RECORDS = 100
"""At most so many records of a topic are sampled."""
_PARTITIONS = 32  # of a topic, those with the most records
SAMPLED_BYTES = 64 * 2**20  # of all topics
_NO = ("no", "beyond")
_PREFIX = "value_"


def propose_decoders(
    spec: Ingest, kafka: KafkaCluster, topics: Sequence[str]
) -> dict[str, Proposal]:
    """Return a proposal for each topic. Raises UnknownTopic, and the errors of a broker."""
    sampled = sample_records(spec, kafka, topics, RECORDS)
    if unknown := [topic for topic in topics if topic not in sampled]:
        raise UnknownTopic(
            f"{kafka.cluster} has no topic {', '.join(unknown)}, or this user may not DESCRIBE "
            f"it{kafka.nearest(unknown)}",
            topics=unknown,
        )
    found = {}
    for topic, records in sampled.items():
        values = _values(records)
        decoder = propose_decoder(values)
        remarks: list[str] = []
        if decoder and decoder.format == "json":
            mixed = sampled_columns.mixed_columns(values)
            remarks = [f"{decoder.prefix or ''}{each}" for each in mixed]
        found[topic] = Proposal(decoder, len(records), remarks)
    return found


def _declared(decoder: Decoder | None) -> dict[str, Any] | None:
    """Return a decoder as a pipeline file has it."""
    if decoder is None:
        return None
    return {key: value for key, value in decoder.to_json().items() if value}


class SampledRecord(NamedTuple):
    """A record of a topic that was sampled."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class RecordPlace(Document):
    """Where a record is in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True)
class CheckedSample(Document):
    """How many records of a topic were sampled, and the reasons why some do not fit, counted.

    `examples` has the first record of each reason. `value` decodes more of the values than the
    declared columns do. None if it is not known.
    """

    records: int
    unfit: Mapping[str, int]
    examples: Mapping[str, RecordPlace]
    value: Annotated[Decoder | None, Form(_declared, lambda form: form)]


@dataclass(frozen=True, kw_only=True)
class CheckedSamples(Document):
    """The samples of a pipeline, by topic (contract: `explain --sample --json`)."""

    format: int = 1
    pipeline: str
    topics: Mapping[str, CheckedSample]


def check_sample(
    spec: Ingest, kafka: KafkaCluster, spark: SparkConnection, most: int
) -> CheckedSamples:
    """Return, by topic with records, what of a sample does not fit the declared columns.

    Spark decodes the sample. Raises the errors of a broker, and those of `decode_samples`.
    """
    asked = resolve_topics(spec, kafka, Fold()).topics
    sampled = {t: each for t, each in sample_records(spec, kafka, asked, most).items() if each}
    declared = {topic: how for topic in sampled if (how := decoding_of_topic(spec.decoding, topic))}
    given = {topic: [(each.key, each.value) for each in sampled[topic]] for topic in declared}
    rows = decode_samples(given, declared, spark, spec.spark.settings)
    found = {}
    for topic, records in sampled.items():
        texts = rows[topic][UNDECODABLE].to_pylist() if topic in rows else []
        faults = Counter(text for text in texts if text is not None)
        examples: dict[str, RecordPlace] = {}
        for record, text in zip(records, texts, strict=bool(texts)):
            if text is not None:
                examples.setdefault(text, RecordPlace(record.partition, record.offset))
        better = better_than(declared.get(topic, Decoding()), _values(records), faults)
        counts = dict(faults.most_common())
        found[topic] = CheckedSample(len(records), counts, examples, better)
    return CheckedSamples(pipeline=spec.name, topics=found)


def better_than(declared: Decoding, values: list[bytes], faults: Iterable[str]) -> Decoder | None:
    """Return what decodes more of the values than the declared decoder does, or None."""
    if declared.value is None:
        return propose_decoder(values)
    if declared.value.format != "json":
        return None
    fields = declared.value.fields
    some = (text[:20_000] for text in islice(faults, 20))
    wrong = [f"{text.partition('; key: ')[0]}, " for text in some if text.startswith("value: ")]
    unfit = {
        name
        for name, kind in fields
        if any(each.count(f" {name}: {no} {kind}, ") for each in wrong for no in _NO)
    }
    for extended in (
        sampled_columns.extend_columns(values, fields, unfit),
        # Names that the lake has, or the key: only what is declared can be wider.
        sampled_columns.extend_columns(values, fields, unfit)[: len(fields)],
    ):
        better = replace(declared.value, schema=schema.render_ddl(extended))
        if not replace(declared, value=better).complaints():
            return better if extended != fields else None
    return None


def sample_records(
    spec: Ingest, kafka: KafkaCluster, topics: Sequence[str], most: int
) -> dict[str, list[SampledRecord]]:
    """Return at most about so many of the newest records of each topic that exists.

    Of large records there are fewer: those of a partition, but the newest one, have their share of
    the bytes of all.
    """
    seen = survey(kafka, topics, spec.isolation)
    found: dict[str, list[SampledRecord]] = {topic: [] for topic in seen.identities}
    ranges = []
    for topic, partitions in seen.watermarks.items():
        full = sorted(partitions.items(), key=lambda each: each[1].start - each[1].end)
        chosen = sorted((p, m) for p, m in full[:_PARTITIONS] if m.start < m.end)
        for p, m in chosen:
            start = max(m.start, m.end - -(-most // len(chosen)))
            ranges.append(OffsetRange(topic, p, start, m.end))
    with open_reader(kafka) as records:
        for r in ranges:
            newest, size = deque[SampledRecord](), 0
            for record in records(r, spec.isolation):
                newest.append(SampledRecord(r.partition, record.offset, record.key, record.value))
                size += _size(newest[-1])
                while size > SAMPLED_BYTES // len(ranges) and len(newest) > 1:
                    size -= _size(newest.popleft())
            found[r.topic].extend(newest)
    return found


def _size(record: SampledRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _values(records: Iterable[SampledRecord]) -> list[bytes]:
    return [each.value for each in records if each.value is not None]


def propose_decoder(values: Sequence[bytes]) -> Decoder | None:
    """Return how values can be decoded: as JSON, if nearly all are objects, else as text, if all
    are UTF-8.
    """
    objects = [text for value in values if (text := _utf8(value)) and text.lstrip()[:1] == "{"]
    if objects and len(objects) >= 0.9 * len(values):
        fields = sampled_columns.columns_of_objects(objects)
        if fields:
            found = Decoder("json", schema.render_ddl(fields))
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
