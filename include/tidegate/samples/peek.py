"""Some records of a topic, as people read them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any

from tidegate.broker.cluster import Cluster, survey
from tidegate.broker.consumer import open_reader
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import columns
from tidegate.core.boundaries import to_milliseconds
from tidegate.core.cluster_answers import Record, iso
from tidegate.core.cursor import Watermarks
from tidegate.core.decoding import UNDECODABLE, decoding_of_topic
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.offsets import OffsetRange
from tidegate.core.windows import Edge, parse_edges
from tidegate.errors import ConfigurationError, UnknownTopic, WindowRefused
from tidegate.lake.store_protocol import Store
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.samples.decoded_by_spark import decode_samples

FORMAT = 1
_ISOLATION = "read_committed"  # as a consumer of a target would read it
_KINDS = ("CreateTime", "LogAppendTime")
_UNTYPED = {*columns.NAMES, *columns.FROM_THE_LEDGER, "window_date", UNDECODABLE}
_PLACE = itemgetter("partition", "offset")
_OF_RECORD = itemgetter("offset", "key", "value", "timestamp", "timestampType")
_HEADER = itemgetter("key", "value")


@dataclass(frozen=True)
class Content(Document):
    """Bytes as text, if they are UTF-8, else as hex digits."""

    text: Annotated[str | None, OMITTED] = None
    hex: Annotated[str | None, OMITTED] = None

    @classmethod
    def of(cls, value: bytes | None) -> Content | None:
        if value is None:
            return None
        try:
            return cls(text=value.decode())
        except UnicodeDecodeError:
            return cls(hex=value.hex())


@dataclass(frozen=True)
class SeenRecord(Document):
    """A record. With typed `columns` (values as Python has them) also its `undecodable`."""

    partition: int
    offset: int
    timestamp: str
    timestamp_type: str
    key: Content | None
    value: Content | None
    headers: tuple[tuple[str, Content | None], ...]
    columns: Annotated[Mapping[str, Any] | None, OMITTED] = None
    undecodable: Annotated[str | None, OMITTED] = None

    @classmethod
    def of(cls, partition: int, record: Record) -> SeenRecord:
        return cls(
            partition=partition,
            offset=record.offset,
            timestamp=iso(record.timestamp) or str(record.timestamp),
            timestamp_type=_KINDS[record.timestamp_type],
            key=Content.of(record.key),
            value=Content.of(record.value),
            headers=tuple((name, Content.of(value)) for name, value in record.headers),
        )

    def typed(self, row: Mapping[str, Any]) -> SeenRecord:
        """Return the record with the typed columns of a row."""
        typed = {name: value for name, value in row.items() if name not in _UNTYPED}
        return replace(self, columns=typed, undecodable=row[UNDECODABLE])

    def to_json(self) -> dict[str, Any]:
        form = super().to_json()
        return form if self.columns is None else {**form, "undecodable": self.undecodable}


@dataclass(frozen=True)
class Peeked(Document):
    """Some records of a topic (contract: `peek --json`)."""

    pipeline: str
    topic: str
    records: tuple[SeenRecord, ...]
    format: int = FORMAT


def peek_records(
    spec: Spec,
    kafka: KafkaCluster,
    topic: str,
    *,
    partition: int | None = None,
    start: str | None = None,
    most: int = 10,
    decode_by: SparkConnection | None = None,
) -> Peeked:
    """Return at most so many records of a topic in Kafka (contract: `peek --json`).

    Of an egress it is the Kafka of its target.

    `start` is an offset, or a time with a zone, of each partition. Without it they are the newest.
    By the Spark of `decode_by` they have their typed columns, too, as Python's values.
    UnknownTopic and WindowRefused for what is not there, ConfigurationError for a topic that the
    pipeline does not decode. Writes nothing.
    """
    decoding, isolation = (
        (spec.decoding, spec.isolation) if isinstance(spec, Ingest) else ({}, _ISOLATION)
    )
    how = decoding_of_topic(decoding, topic) if decode_by else None
    if decode_by and how is None:
        raise ConfigurationError(f"{spec.name}: `decode` says nothing of {topic}")
    with Cluster(kafka) as cluster:
        known = survey(kafka, [topic], isolation).watermarks.get(topic)
        if known is None:
            near = cluster.nearest([topic])
            raise UnknownTopic(f"{kafka.cluster} has no topic {topic!r}{near}", topics=[topic])
        if partition is not None and partition not in known:
            raise _no_partition(topic, partition, known)
        marks = {p: m for p, m in known.items() if partition in (None, p)}
        starts = _starts(cluster, topic, marks, start, most)
    found: list[tuple[int, Record]] = []
    with open_reader(kafka) as records:
        for p, at in sorted(starts.items()):
            r = OffsetRange(topic, p, at, marks[p].end)
            found += [(p, each) for each in itertools.islice(records(r, isolation), most)]
    found.sort(key=lambda each: (each[1].timestamp, each[0], each[1].offset))
    chosen = found[:most] if start else found[-most:]
    seen = [SeenRecord.of(p, record) for p, record in chosen]
    if decode_by and how and chosen:
        given = {topic: [(record.key, record.value) for _, record in chosen]}
        rows = decode_samples(given, {topic: how}, decode_by, spec.spark.settings)[topic]
        from tidegate.lake.dataset import run_query

        typed = _rows(*run_query({"decoded": rows}, "FROM decoded"))
        seen = [each.typed(row) for each, row in zip(seen, typed, strict=True)]
    return Peeked(spec.name, topic, tuple(seen))


def peek_in_lake(
    spec: Ingest,
    store: Store,
    topic: str,
    *,
    partition: int | None = None,
    start: str | None = None,
    most: int = 10,
) -> Peeked:
    """Return at most so many records of a topic in the lake, as `peek` with `decode_by` does.

    If the topic was recreated, only its new records. ConfigurationError for a topic that
    the lake does not have, WindowRefused as `peek`. Needs the package `duckdb`.
    """
    from tidegate.lake import dataset, ledger  # PyArrow takes a while

    fold = ledger.read_existing(store, spec.name)
    lake = dataset.Lake(spec.name, store, fold, topic)
    topic_id, known = fold.topic_ids[topic], fold.cursors(topic)
    if partition is not None and partition not in known:
        raise _no_partition(topic, partition, known)
    chosen = [f"topic_id = '{topic_id}'"]
    if partition is not None:
        chosen.append(f"partition = {partition}")
    edge, end = (None, "DESC") if start is None else (_edge(topic, start), "ASC")
    match edge:
        case datetime():
            chosen.append(f"timestamp >= TIMESTAMPTZ '{edge.isoformat()}'")
        case int():
            chosen.append(f'"offset" >= {edge}')
        case Mapping():
            either = (f'partition = {p} AND "offset" >= {offset}' for p, offset in edge.items())
            chosen.append(f"({' OR '.join(either) or 'false'})")
    # As of a topic: so many of each partition, and of these the first or the last. Their places
    # first, so that the values of others are not read.
    _, places = lake.query(
        f'SELECT partition, "offset" FROM lake WHERE {" AND ".join(chosen)} '
        f'QUALIFY row_number() OVER (PARTITION BY partition ORDER BY "offset" {end}) <= {most} '
        f'ORDER BY timestamp {end}, partition {end}, "offset" {end} LIMIT {most}'
    )
    if not places:
        return Peeked(spec.name, topic, ())
    listed = ", ".join(str(offset) for _, offset in places)
    rows = _rows(
        *lake.query(
            "SELECT * REPLACE (epoch_ms(timestamp) AS timestamp) FROM lake "
            f'WHERE {chosen[0]} AND "offset" IN ({listed})'
        )
    )
    found = {_PLACE(row): row for row in rows}
    seen = [_seen_row(found[place]) for place in places]
    return Peeked(spec.name, topic, tuple(seen if end == "ASC" else seen[::-1]))


def _no_partition(topic: str, partition: int, known: Collection[int]) -> WindowRefused:
    listed = f"0 to {max(known)}" if known else "none"
    return WindowRefused(f"{topic} has no partition {partition}; it has {listed}")


def _edge(topic: str, start: str) -> Edge:
    """Return where to begin; WindowRefused for what is neither an offset nor a time."""
    edges = parse_edges(topic, start, start, datetime.now(UTC))
    if edges.start is None:
        raise WindowRefused(f"--start {start}: " + "; ".join(dict.fromkeys(edges.complaints)))
    return edges.start


def _starts(
    cluster: Cluster, topic: str, marks: Mapping[int, Watermarks], start: str | None, most: int
) -> dict[int, int]:
    """Return the first offset to read of each partition that has records from there on."""
    if start is None:
        return {p: max(m.start, m.end - most) for p, m in marks.items() if m.start < m.end}
    edge = _edge(topic, start)
    if isinstance(edge, datetime):
        at = cluster.offsets_since({topic: dict.fromkeys(marks, to_milliseconds(edge))})[topic]
        offsets = {p: offset for p, offset in at.items() if offset is not None}
    elif isinstance(edge, int):
        offsets = dict.fromkeys(marks, edge)
    else:
        offsets = {p: edge[p] for p in marks if p in edge}
    return {
        p: max(offset, marks[p].start) for p, offset in offsets.items() if offset < marks[p].end
    }


def _rows(names: list[str], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _seen_row(row: Mapping[str, Any]) -> SeenRecord:
    """Return a row of the lake as a record, with its typed columns if it has any."""
    headers = tuple(map(_HEADER, row["headers"] or ()))
    (partition, _), (offset, key, value, timestamp, kind) = _PLACE(row), _OF_RECORD(row)
    seen = SeenRecord.of(partition, Record(offset, key, value, timestamp, kind, headers))
    return seen.typed(row) if UNDECODABLE in row else seen
