"""Some records of a topic, as people read them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster, survey
from tidegate.broker.consumer import Record, reading
from tidegate.broker.retention import iso
from tidegate.core.boundaries import milliseconds
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.windows import Edge, parse_edges
from tidegate.errors import UnknownTopic, WindowRefused
from tidegate.pipelines.spec import Ingest

FORMAT = 1
_KINDS = ("CreateTime", "LogAppendTime")


def peek(
    spec: Ingest,
    kafka: KafkaSettings,
    topic: str,
    *,
    partition: int | None = None,
    start: str | None = None,
    most: int = 10,
) -> dict[str, Any]:
    """Return at most so many records of a topic (contract: `peek --json`).

    `start` is an offset, or a time with a zone, of each partition; without it they are the newest.
    UnknownTopic and WindowRefused for what is not there. Reads Kafka alone, and writes nothing.
    """
    with Cluster(kafka) as cluster:
        known = survey(kafka, [topic], spec.isolation).watermarks.get(topic)
        if known is None:
            near = cluster.nearest([topic])
            raise UnknownTopic(f"{kafka.cluster} has no topic {topic!r}{near}", topics=[topic])
        if partition is not None and partition not in known:
            listed = f"0 to {max(known)}" if known else "none"
            raise WindowRefused(f"{topic} has no partition {partition}; it has {listed}")
        marks = {p: m for p, m in known.items() if partition in (None, p)}
        starts = _starts(cluster, topic, marks, start, most)
    found: list[tuple[int, Record]] = []
    with reading(kafka) as records:
        for p, at in sorted(starts.items()):
            r = OffsetRange(topic, p, at, marks[p].end)
            found += [(p, each) for each in itertools.islice(records(r, spec.isolation), most)]
    found.sort(key=lambda each: (each[1].timestamp, each[0], each[1].offset))
    chosen = found[:most] if start else found[-most:]
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "topic": topic,
        "records": [_form(p, record) for p, record in chosen],
    }


def _starts(
    cluster: Cluster, topic: str, marks: Mapping[int, Watermarks], start: str | None, most: int
) -> dict[int, int]:
    """Return the first offset to read of each partition that has records from there on."""
    if start is None:
        return {p: max(m.start, m.end - most) for p, m in marks.items() if m.start < m.end}
    edges = parse_edges(topic, start, start, datetime.now(UTC))
    edge: Edge | None = edges.start
    if edge is None:
        raise WindowRefused(f"--start {start}: " + "; ".join(dict.fromkeys(edges.complaints)))
    if isinstance(edge, datetime):
        at = cluster.offsets_since({topic: dict.fromkeys(marks, milliseconds(edge))})[topic]
        offsets = {p: offset for p, offset in at.items() if offset is not None}
    elif isinstance(edge, int):
        offsets = dict.fromkeys(marks, edge)
    else:
        offsets = {p: edge[p] for p in marks if p in edge}
    return {
        p: max(offset, marks[p].start) for p, offset in offsets.items() if offset < marks[p].end
    }


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
