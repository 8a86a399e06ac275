"""Boundaries: the offset in each partition at which a timestamp divides a topic.

Both records in Kafka and rows in the lake determine it: retention and compaction delete records
from Kafka, and a boundary above such rows of the lake would exclude them from every window by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate.core.boundaries import Boundary, clamp_boundary, to_milliseconds
from tidegate.core.cluster_answers import Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.fold import Fold
from tidegate.errors import BrokerError
from tidegate.lake.boundary_files import Neighbours, neighbouring_boundaries
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.lake.unfinished_plans import pending_chunks
from tidegate.runs.kafka_protocol import Kafka

_HIGHEST_END = (1 << 63) - 1  # of any log


@dataclass(frozen=True)
class Topic:
    """A topic, its watermarks, and the ingest pipeline whose lake contains it."""

    name: str
    id: str
    marks: Mapping[int, Watermarks]
    kafka: Kafka
    store: Store
    pipeline: str


def resolve_boundaries(
    topic: Topic, times: list[datetime], complaints: list[str]
) -> dict[datetime, Boundary]:
    """Return the boundary of each time: the frozen one, or what would be frozen now.

    In each partition it is the lowest offset of a record in Kafka or a row in the lake whose
    timestamp is at or after the time. The end without such a record. Adds to `complaints` where
    staged rows, expired in Kafka and not yet committed, could decide it. Writes nothing.
    """
    found = {t: b for t in times if (b := _near(topic, t).frozen)}
    times = [t for t in times if t not in found]
    if not times:
        return found
    in_log = _first_in_log(topic, times)
    # Read after Kafka: a record that expires in between is found in one of the two.
    fold = Ledger(topic.store, topic.pipeline).fold
    near = {t: _near(topic, t) for t in times}
    spans = {
        to_milliseconds(t): {
            p: (near[t].start(p), _HIGHEST_END if first is None else first)
            for p, first in _all_partitions(topic, fold, in_log[t]).items()
        }
        for t in times
        if near[t].frozen is None
    }
    complaints += _unknown(topic, fold, spans)
    from tidegate.lake.timestamps import first_since  # and PyArrow, which other plans do not need

    in_lake = first_since(topic.store, fold, topic.id, spans)
    for t in times:
        ms = to_milliseconds(t)
        at = near[t].frozen
        if at is None:
            offsets = {
                p: _cut(topic, fold, p, first, in_lake[ms].get(p))
                for p, first in _all_partitions(topic, fold, in_log[t]).items()
            }
            cuts = clamp_boundary(offsets, near[t].below, near[t].above)
            at = Boundary(topic.name, topic.id, ms, cuts)
        found[t] = at
    return found


def _near(topic: Topic, time: datetime) -> Neighbours:
    return neighbouring_boundaries(topic.store, topic.id, to_milliseconds(time))


def _first_in_log(topic: Topic, times: list[datetime]) -> dict[datetime, dict[int, int | None]]:
    """Return by time and partition the first offset at or after the time, or None."""
    asked = {topic.name: topic.marks}
    found = topic.kafka.offsets_at(asked, [to_milliseconds(time) for time in times])
    return {
        time: {
            p: o
            if (o := found[to_milliseconds(time)][topic.name][p]) is not None and o < m.end
            else None
            for p, m in topic.marks.items()
        }
        for time in times
    }


def _all_partitions(
    topic: Topic, fold: Fold, first: Mapping[int, int | None]
) -> dict[int, int | None]:
    """Return the offsets found in the log, with None for partitions only the ledger knows."""
    return {**dict.fromkeys(fold.origins.get(topic.id, {})), **first}


def _cut(topic: Topic, fold: Fold, partition: int, first: int | None, row: int | None) -> int:
    offsets = [offset for offset in (first, row) if offset is not None]
    if offsets:
        return min(offsets)
    marks, covered = topic.marks.get(partition), fold.covered[topic.id, partition]
    ends = [end for _, end in covered.spans[-1:]]
    return max([*ends, marks.end if marks else 0])


def _unknown(
    topic: Topic, fold: Fold, spans: Mapping[int, Mapping[int, tuple[int, int]]]
) -> list[str]:
    """Return complaints about staged, expired, uncommitted offsets that may decide a boundary."""
    if not spans:
        return []
    complaints = []
    for plan, chunk in pending_chunks(topic.store, fold):
        for r in plan.chunks[chunk]:
            marks = topic.marks.get(r.partition)
            if plan.topics[r.topic] != topic.id or marks is None or r.start >= marks.start:
                continue
            expired_end = min(r.end, marks.start)
            searched = (each[r.partition] for each in spans.values())
            if any(r.start < end and start < expired_end for start, end in searched):
                complaints.append(
                    f"partition {r.partition}: [{r.start}, {expired_end}) has expired, and is "
                    f"staged by plan {plan.id}, chunk {chunk}, but not committed: until then, "
                    "times cannot be resolved there. Finish that run (the next scheduled one "
                    "publishes what is sealed), or give offsets"
                )
    return complaints


def refuse_leaderless(seen: Survey, topic: str, partitions: Iterable[int] | None = None) -> None:
    """Raise BrokerError if any of these partitions of a topic, by default all, has no leader.

    A boundary is frozen for all partitions: a missing one would be divided at offset 0.
    """
    without = set(seen.leaderless.get(topic, ()))
    if missing := sorted(without if partitions is None else without & set(partitions)):
        raise BrokerError(
            f"topic {topic}: partitions {missing} have no leader now; nothing was done. Try again "
            "when they have one",
            partitions=missing,
        )
