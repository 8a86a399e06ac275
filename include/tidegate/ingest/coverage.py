"""Coverage: what became of every offset, per partition. A question that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.broker.retention import expiries, iso
from tidegate.broker.settings import KafkaSettings
from tidegate.core.coverage import Interval, tiled
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.ingest.status import Look, look
from tidegate.pipelines.spec import Ingest

FORMAT = 1

Tiles = Mapping[str, Mapping[int, tuple[Interval, ...]]]


def coverage(spec: Ingest, kafka: KafkaSettings) -> dict[str, Any]:
    """Return every partition's intervals (contract: `coverage --json`).

    `expires_at` is from when on the first unseen record may be deleted, null if nobody knows.
    """
    looked = look(spec, kafka)
    found = tiles(looked)
    expire = expiries(kafka, _first_unseen(found), spec.isolation) if looked.watermarks else {}
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "topics": {
            topic: {
                "topic_id": looked.topic_ids.get(topic),
                "partitions": {
                    str(p): {
                        "intervals": [i.to_json() for i in intervals],
                        "expires_at": iso(expire.get((topic, p))),
                    }
                    for p, intervals in partitions.items()
                },
            }
            for topic, partitions in found.items()
        },
        "broker": looked.problem,
    }


def tiles(looked: Look) -> Tiles:
    """Return what became of the offsets of each partition that ledger or broker knows."""
    known = _known(looked.fold)
    found: dict[str, dict[int, tuple[Interval, ...]]] = {}
    for topic in looked.topics:
        topic_id = looked.topic_ids.get(topic, "")
        marks = looked.watermarks.get(topic, {})
        origins = looked.fold.origins.get(topic_id, {})
        found[topic] = {
            p: tiled(
                origins[p] if p in origins else marks[p].start,
                known.get((topic_id, p), ()),
                marks.get(p),
            )
            for p in sorted(origins.keys() | marks.keys())
        }
    return found


def _known(fold: Fold) -> dict[tuple[str, int], list[Interval]]:
    """Return what the ledger says of each partition: covered by lane, skipped with the reason."""
    lanes: dict[tuple[str, int], dict[str, list[tuple[int, int]]]] = {}
    for n, commit in fold.live.items():
        for topic_id, r in fold.live_ranges(n):
            spans = lanes.setdefault((topic_id, r.partition), {})
            spans.setdefault(commit.lane, []).append((r.start, r.end))
    known = {
        key: [
            Interval(start, end, "covered", lane=lane)
            for lane, spans in by_lane.items()
            for start, end in Intervals.of(spans)
        ]
        for key, by_lane in lanes.items()
    }
    for gap in fold.gaps:
        key = gap.topic_id, gap.partition
        for start, end in fold.skipped.get(key, NOTHING).within(gap.start, gap.end):
            skipped = Interval(start, end, "skipped", reason=gap.reason, by=gap.by)
            known.setdefault(key, []).append(skipped)
    return known


def _first_unseen(found: Tiles) -> Iterator[OffsetRange]:
    for topic, partitions in found.items():
        for p, intervals in partitions.items():
            for i in intervals:
                if i.state == "unseen":
                    yield OffsetRange(topic, p, i.start, i.end)
                    break
