"""Drafts: what a live run or a backfill would do now, before any of it is recorded or frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core import partition
from tidegate.core.boundaries import Boundary
from tidegate.core.cursor import Progress, Watermarks
from tidegate.core.entries import Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.partition import LeftOut, Reason, TopicState


@dataclass
class Draft:
    """What to record first (`boundaries`, `origins`, `gaps`), the ranges to plan, what is left out.

    `covered` ranges were requested and are in the lake already; those `ahead` are at or after the
    cursor and left to the live lane. `expires` maps partitions to the time at which the broker may
    delete their first range, in ms since the epoch, where that was asked for and is known.
    `notices` are for users. Only a re-ingest has `chunks`, cut at files, and `replay`, which says
    what they replace.
    """

    boundaries: list[Boundary] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    ranges: list[OffsetRange] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    ahead: list[OffsetRange] = field(default_factory=list)
    covered: list[OffsetRange] = field(default_factory=list)
    expires: Mapping[tuple[str, int], int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    chunks: tuple[Window, ...] | None = None
    replay: Mapping[str, Any] | None = None

    def include(self, part: Draft) -> None:
        """Add the draft of a part of the request."""
        self.ranges += part.ranges
        self.covered += part.covered
        self.left_out += part.left_out
        self.gaps += part.gaps

    def progress(self, fold: Fold, topic_id: str, partition: int) -> Progress | None:
        """Return a partition's progress, by the draft's origins too. None if it has no origin."""
        origins: dict[int, int] = dict(fold.origins.get(topic_id, {}))
        for origin in self.origins:
            if origin.topic_id == topic_id:
                origins |= origin.partitions
        if partition not in origins:
            return None
        key = topic_id, partition
        return Progress(origins[partition], fold.covered[key], fold.skipped[key])


def draft_live(
    fold: Fold,
    topics: Mapping[str, TopicState],
    first_sight: Mapping[str, Mapping[int, int]],
    *,
    on_expired: str,
    by: str,
) -> Draft:
    """Decide for every partition of `topics`. One that cannot be read never stops the others.

    `first_sight` has the origins of topics that are new to the ledger, and of partitions that are
    newly assigned. Expired offsets go by the policy `on_expired`: `fail` excludes the partition,
    `skip` records a gap, which the ledger cuts to the unseen offsets, and continues at the log
    start. `by` is recorded in the gaps.
    """
    draft = Draft()
    for topic, now in topics.items():
        if whole := partition.topic_problem(topic, fold.topic_ids.get(topic), now):
            draft.left_out.append(whole)
            continue
        assert now.topic_id is not None
        recorded = fold.origins.get(now.topic_id)
        origins = new_origins(now.watermarks, recorded, first_sight.get(topic, {}))
        if origins:
            draft.origins.append(Origin(topic, now.topic_id, origins))
        progress = known_progress(fold, now.topic_id, origins)
        excluded = set()
        for problem in partition.partition_problems(topic, progress, now):
            p = problem.partition
            assert p is not None
            if problem.reason is Reason.UNREADABLE:
                continue  # `unreadable_records.exclude_unreadable` examines the drafted ranges
            if problem.reason is Reason.EXPIRED and on_expired == "skip":
                start, end = progress[p].cursor, now.watermarks[p].start
                draft.gaps.append(Gap(topic, now.topic_id, p, start, end, Reason.EXPIRED, by))
                skipped = progress[p].skipped.add(start, end)
                progress[p] = replace(progress[p], skipped=skipped)
            else:
                draft.left_out.append(problem)
                excluded.add(p)
        for p in sorted(now.watermarks.keys() - excluded):
            cursor = progress[p].cursor
            next_covered = progress[p].covered.next_start(cursor)
            end = now.watermarks[p].end
            end = end if next_covered is None else min(end, next_covered)
            if cursor < end:
                draft.ranges.append(OffsetRange(topic, p, cursor, end))
    return draft


def known_progress(fold: Fold, topic_id: str, origins: Mapping[int, int]) -> dict[int, Progress]:
    """Return the progress of the partitions that have an origin, by the ledger or in `origins`."""
    recorded = fold.origins.get(topic_id, {})
    return {
        **{p: fold.progress(topic_id, p) for p in recorded},
        **{p: Progress(origin) for p, origin in origins.items()},
    }


def topic_problems(fold: Fold, topic: str, now: TopicState) -> list[LeftOut]:
    """Return what a live run would exclude of a topic now, or skip if it has expired."""
    if whole := partition.topic_problem(topic, fold.topic_ids.get(topic), now):
        return [whole]
    assert now.topic_id is not None
    recorded = fold.origins.get(now.topic_id)
    # What `start` would say of partitions that begin now is not asked.
    begin = recorded is None or now.assigned is not None
    origins = {} if begin else new_origins(now.watermarks, recorded, {})
    return [*partition.partition_problems(topic, known_progress(fold, now.topic_id, origins), now)]


def new_origins(
    partitions: Iterable[int], recorded: Mapping[int, int] | None, first_sight: Mapping[int, int]
) -> dict[int, int]:
    """Return the origins to record for partitions that have none.

    A topic that is new to the ledger (`recorded` is None) begins at `first_sight`, by the spec's
    `start`, and so does a partition that is newly assigned. One that Kafka added later begins at 0,
    wherever its log starts: offsets that expired before they were read then go by the policy
    `on_expired`.
    """
    if recorded is None:
        return {p: first_sight[p] for p in partitions}
    return {p: first_sight.get(p, 0) for p in partitions if p not in recorded}


def out_of_reach(
    fold: Fold, topic_id: str, window: Sequence[OffsetRange], marks: Mapping[int, Watermarks]
) -> list[str]:
    """Name the ranges beyond the log's end, and those below its start that the lake lacks."""
    complaints = []
    for r in window:
        m = marks[r.partition]
        if r.end > m.end:
            complaints.append(f"partition {r.partition}: end {r.end} is beyond the end {m.end}")
        if lost := _missing(fold, topic_id, r).within(0, m.start):
            first, last = lost.spans[0][0], lost.spans[-1][1]
            complaints.append(
                f"partition {r.partition}: [{first}, {last}) is before the log start {m.start}"
            )
    return complaints


def expired_below(
    fold: Fold, topic_id: str, r: OffsetRange, marks: Mapping[int, Watermarks]
) -> Intervals:
    """Return what has expired right below a range that begins at a timestamp: one span, or none.

    These offsets are in no commit and no gap, and nothing that is retained divides them from the
    range: their records may belong to it.
    """
    key = topic_id, r.partition
    if r.start > marks[r.partition].start:
        return Intervals()  # an earlier record is retained, with an earlier timestamp
    unseen = fold.covered[key].missing(0, r.start).subtract(fold.skipped[key])
    return Intervals(tuple(span for span in unseen if span[1] == r.start))


def draft_window(
    fold: Fold,
    topic_id: str,
    window: Sequence[OffsetRange],
    marks: Mapping[int, Watermarks],
    *,
    on_expired: str,
    by: str,
) -> Draft:
    """Draft a backfill: plan the ranges of a window that are not covered.

    Expired offsets go by the policy `on_expired`, unless a gap records them already. `by` is
    recorded in new gaps.
    """
    draft = Draft()
    for r in window:
        key = topic_id, r.partition
        missing = _missing(fold, topic_id, r)
        log_start, log_end = marks[r.partition].start, marks[r.partition].end
        draft.covered += r.parts(fold.covered[key].within(r.start, r.end))
        draft.ranges += r.parts(missing.within(log_start, log_end))
        if beyond := missing.within(log_end, max(log_end, r.end)):
            numbers = {"cursor": beyond.spans[0][0], "end": log_end}
            draft.left_out.append(LeftOut(r.topic, r.partition, Reason.TRUNCATED, numbers))
        unseen = missing.within(0, log_start).subtract(fold.skipped[key])
        if unseen and on_expired == "fail":
            draft.left_out.append(partition.expired_problem(r.topic, r.partition, unseen))
        else:
            draft.gaps += [
                Gap(r.topic, topic_id, r.partition, start, end, Reason.EXPIRED, by)
                for start, end in unseen
            ]
    return draft


def retained_gaps(
    fold: Fold,
    topic: str,
    topic_id: str,
    partitions: Sequence[int],
    marks: Mapping[int, Watermarks],
) -> list[OffsetRange]:
    """Return the skipped ranges that are still in the log."""
    return [
        OffsetRange(topic, p, start, end)
        for p in partitions
        for start, end in fold.skipped[topic_id, p].within(marks[p].start, marks[p].end)
    ]


def _missing(fold: Fold, topic_id: str, r: OffsetRange) -> Intervals:
    return fold.covered[topic_id, r.partition].missing(r.start, r.end)
