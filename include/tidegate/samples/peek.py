"""Some records of a topic, as people read them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.broker.cluster import Cluster, survey
from tidegate.broker.consumer import open_reader
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import columns
from tidegate.core.boundaries import to_milliseconds
from tidegate.core.cluster_answers import Record, iso
from tidegate.core.cursor import Watermarks
from tidegate.core.decoding import UNDECODABLE, decoding_of_topic
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


def peek_records(
    spec: Spec,
    kafka: KafkaCluster,
    topic: str,
    *,
    partition: int | None = None,
    start: str | None = None,
    most: int = 10,
    decode_by: SparkConnection | None = None,
) -> dict[str, Any]:
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
    forms = [_form(p, record) for p, record in chosen]
    if decode_by and how and chosen:
        given = {topic: [(record.key, record.value) for _, record in chosen]}
        rows = decode_samples(given, {topic: how}, decode_by, spec.spark.settings)[topic]
        from tidegate.lake.dataset import run_query

        for form, row in zip(
            forms, _rows(*run_query({"decoded": rows}, "FROM decoded")), strict=True
        ):
            form.update(_typed(row))
    return _document(spec, topic, forms)


def peek_in_lake(
    spec: Ingest,
    store: Store,
    topic: str,
    *,
    partition: int | None = None,
    start: str | None = None,
    most: int = 10,
) -> dict[str, Any]:
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
        return _document(spec, topic, [])
    listed = ", ".join(str(offset) for _, offset in places)
    rows = _rows(
        *lake.query(
            "SELECT * REPLACE (epoch_ms(timestamp) AS timestamp) FROM lake "
            f'WHERE {chosen[0]} AND "offset" IN ({listed})'
        )
    )
    found = {(row["partition"], row["offset"]): row for row in rows}
    forms = [_form_of_row(found[place]) for place in places]
    return _document(spec, topic, forms if end == "ASC" else forms[::-1])


def _document(spec: Spec, topic: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"format": FORMAT, "pipeline": spec.name, "topic": topic, "records": records}


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


def _form_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the lake as a record, with its typed columns if it has any."""
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    record = Record(
        row["offset"], row["key"], row["value"], row["timestamp"], row["timestampType"], headers
    )
    return _form(row["partition"], record) | (_typed(row) if UNDECODABLE in row else {})


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    columns = {name: value for name, value in row.items() if name not in _UNTYPED}
    return {"columns": columns, "undecodable": row[UNDECODABLE]}


def _form(partition: int, record: Record) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": iso(record.timestamp) or str(record.timestamp),
        "timestamp_type": _KINDS[record.timestamp_type],
        "key": _bytes(record.key),
        "value": _bytes(record.value),
        "headers": [[name, _bytes(value)] for name, value in record.headers],
    }


def _bytes(value: bytes | None) -> dict[str, str] | None:
    """Return bytes as text, if they are UTF-8, else as hex digits."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"hex": value.hex()}
