"""Drafts: what a live run or a backfill would do now, before any of it is recorded or frozen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.boundaries import Boundary
from tidegate.core.cursor import Progress, Watermarks
from tidegate.core.entries import Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import LeftOut

NO_LEADER = "no leader"
NONE: Mapping[str, Sequence[int]] = {}
NO_CUTS: Mapping[tuple[str, int], int] = {}


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

    def progress(self, fold: Fold, topic_id: str, partition: int) -> Progress | None:
        """Return a partition's progress, by the draft's origins too; None if it has no origin."""
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
    topics: Sequence[str],
    topic_ids: Mapping[str, str],
    watermarks: Mapping[str, Mapping[int, Watermarks]],
    first_sight: Mapping[str, Mapping[int, int]],
    *,
    on_expired: str,
    by: str,
    leaderless: Mapping[str, Sequence[int]] = NONE,
    assigned: Mapping[str, Collection[int]] | None = None,
    cuts: Mapping[tuple[str, int], int] = NO_CUTS,
) -> Draft:
    """Decide for every partition of `topics`; one that cannot be read never stops the others.

    `topic_ids` and `watermarks` hold the topics that exist now, `first_sight` the origins of topics
    that are new to the ledger, and of partitions that are newly assigned. `by` is recorded in the
    gaps. `assigned` has the only partitions to read, by topic; None: all. `leaderless` partitions
    have no watermarks now; a new topic that has one is excluded as a whole, because only the broker
    knows where it begins: once the topic is recorded, partitions that are not assigned begin at 0.
    `cuts` are the offsets at which logs were truncated below their cursors.
    """
    draft = Draft()
    for topic in topics:
        marks, headless = watermarks.get(topic, {}), leaderless.get(topic, ())
        chosen = None if assigned is None else frozenset(assigned.get(topic, ()))
        if chosen is not None:
            marks = {p: m for p, m in marks.items() if p in chosen}
            headless = [p for p in headless if p in chosen]
        known_id = fold.topic_ids.get(topic)
        topic_id = topic_ids.get(topic)
        numbers: dict[str, Any]
        if topic_id is None:
            numbers = {} if known_id is None else {"was": known_id}
            draft.left_out.append(LeftOut(topic, None, "no such topic", numbers))
        elif known_id is not None and known_id != topic_id:
            numbers = {"was": known_id, "is": topic_id}
            draft.left_out.append(LeftOut(topic, None, "the topic was recreated", numbers))
        elif known_id is None and headless and chosen is None:
            numbers = {"partitions": list(headless)}
            draft.left_out.append(LeftOut(topic, None, NO_LEADER, numbers))
        else:
            recorded = fold.origins.get(topic_id)
            origins = new_origins(marks, recorded, first_sight.get(topic, {}))
            if origins:
                draft.origins.append(Origin(topic, topic_id, origins))
            draft.left_out += [LeftOut(topic, p, NO_LEADER) for p in headless]
            known = frozenset(recorded or ())
            for p in sorted((known if chosen is None else chosen) - marks.keys() - set(headless)):
                if p in known:
                    numbers = {"cursor": fold.progress(topic_id, p).cursor}
                    draft.left_out.append(LeftOut(topic, p, "the partition vanished", numbers))
                else:
                    draft.left_out.append(LeftOut(topic, p, "no such partition"))
            for p in sorted(marks):
                draft_partition(
                    draft,
                    topic,
                    topic_id,
                    p,
                    Progress(origins[p]) if p in origins else fold.progress(topic_id, p),
                    marks[p],
                    on_expired=on_expired,
                    by=by,
                    cut=cuts.get((topic, p)),
                )
    return draft


def draft_partition(
    draft: Draft,
    topic: str,
    topic_id: str,
    partition: int,
    progress: Progress,
    marks: Watermarks,
    *,
    on_expired: str,
    by: str,
    cut: int | None = None,
) -> None:
    """Take `[cursor, min(end, next covered start))`; expired offsets go by the policy `on_expired`.

    Offsets are expired if the log starts after the cursor. `fail` leaves the partition out; `skip`
    records a gap, which the ledger cuts to the unseen offsets, and continues at the log start.
    `cut` is the offset at which the log was truncated below the cursor, even if it has grown since.
    """
    cursor = progress.cursor
    numbers = {"cursor": cursor, "end": marks.high}
    if cut is not None and cut < cursor <= marks.high:
        draft.left_out.append(LeftOut(topic, partition, "truncated", {**numbers, "cut": cut}))
        return
    if marks.high < cursor:
        draft.left_out.append(LeftOut(topic, partition, "truncated", numbers))
        return
    if marks.start > cursor:
        if on_expired == "fail":
            numbers = {"start": cursor, "end": marks.start}
            draft.left_out.append(LeftOut(topic, partition, "expired", numbers))
            return
        draft.gaps.append(Gap(topic, topic_id, partition, cursor, marks.start, "expired", by))
        skipped = progress.skipped.add(cursor, marks.start)
        cursor = replace(progress, skipped=skipped).cursor
    next_covered = progress.covered.next_start(cursor)
    end = marks.end if next_covered is None else min(marks.end, next_covered)
    if cursor < end:
        draft.ranges.append(OffsetRange(topic, partition, cursor, end))


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
            draft.left_out.append(LeftOut(r.topic, r.partition, "truncated", numbers))
        for start, end in missing.within(0, log_start).subtract(fold.skipped[key]):
            if on_expired == "fail":
                numbers = {"start": start, "end": end}
                draft.left_out.append(LeftOut(r.topic, r.partition, "expired", numbers))
            else:
                draft.gaps.append(Gap(r.topic, topic_id, r.partition, start, end, "expired", by))
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
