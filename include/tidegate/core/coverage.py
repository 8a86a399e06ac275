"""Coverage: the outcome of every offset of a partition, as intervals and as a bar."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal

from tidegate.core.cursor import Watermarks
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.partition import LeftOut
from tidegate.core.plan import Plan

State = Literal["before", "covered", "skipped", "expired", "unseen"]


@dataclass(frozen=True, order=True, slots=True)
class CoverageInterval(Document):
    """Offsets `[start, end)` of one outcome.

    `before` the origin, and in no commit; `covered` by a commit of this `lane`; `skipped` for this
    `reason`; `expired`: unseen, and below the log start; `unseen`: not read yet.
    """

    start: int
    end: int
    state: State
    lane: Annotated[str | None, OMITTED] = None
    reason: Annotated[str | None, OMITTED] = None
    by: Annotated[str | None, OMITTED] = None

    @property
    def kind(self) -> str:
        """The kind of its cells in a bar: the lane of covered offsets, else the state."""
        return self.lane or self.state


def partition_coverage(
    origin: int, outcomes: Iterable[CoverageInterval], marks: Watermarks | None
) -> tuple[CoverageInterval, ...]:
    """Return the outcome of all offsets that the ledger or the log knows of, without a hole.

    `outcomes` are the covered and skipped intervals, none overlapping. Equal neighbours are merged.
    """
    intervals = sorted(outcomes)
    low = min([origin, *(i.start for i in intervals[:1]), *([marks.start] if marks else [])])
    high = max([origin, *(i.end for i in intervals), *([marks.end] if marks else [])])
    rest = Intervals.of((i.start, i.end) for i in intervals).missing(low, high)
    log_start = marks.start if marks else low
    borders: list[tuple[State, int, int]] = [
        ("before", low, origin),
        ("expired", origin, max(origin, log_start)),
        ("unseen", max(origin, log_start), high),
    ]
    intervals += [
        CoverageInterval(start, end, state)
        for state, left, right in borders
        for start, end in rest.within(left, right)
    ]
    return tuple(_merged(sorted(intervals)))


def _merged(intervals: Iterable[CoverageInterval]) -> Iterable[CoverageInterval]:
    for (state, lane, reason, by), alike in groupby(
        intervals, key=lambda i: (i.state, i.lane, i.reason, i.by)
    ):
        together = list(alike)
        yield CoverageInterval(together[0].start, together[-1].end, state, lane, reason, by)


_BY_ATTENTION = ("expired", "unseen", "skipped", "before")


def coverage_bar(intervals: Sequence[CoverageInterval], width: int) -> list[tuple[str, int]]:
    """Return a bar of `width` cells as (kind, cells) from left to right.

    A cell shows the kind that needs most attention, however few offsets it has.
    """
    if not intervals or intervals[0].start == intervals[-1].end:
        return []
    low, high = intervals[0].start, intervals[-1].end
    cells = [""] * width
    for i in sorted(intervals, key=_attention_rank, reverse=True):
        first = (i.start - low) * width // (high - low)
        after = -((low - i.end) * width // (high - low))  # rounded up
        cells[first:after] = [i.kind] * (after - first)
    return [(kind, len(list(same))) for kind, same in groupby(cells)]


def _attention_rank(i: CoverageInterval) -> int:
    return _BY_ATTENTION.index(i.state) if i.state in _BY_ATTENTION else len(_BY_ATTENTION)


def is_complete(
    fold: Fold,
    plan: Plan,
    topic: str,
    surveyed_id: str | None,
    ends: Mapping[int, int],
    assigned: Collection[int] | None = None,
) -> bool:
    """Return whether every offset from origin to end of all partitions of a topic has an outcome.

    An outcome is a commit of any run, or a gap. `surveyed_id` and `ends` are the topic id and the
    ends that the survey for the plan found: under read_committed the last stable offsets.
    `assigned` are the partitions that count. None: all.

    False where it cannot be known: the plan is not of the live lane, which alone examines all
    partitions; it excludes a partition, whose cursor then says nothing of what the broker has; the
    survey lacks a partition; or the ledger follows another topic id.
    """
    if plan.lane != "live" or surveyed_id is None or fold.topic_ids.get(topic) != surveyed_id:
        return False
    if any(isinstance(e, LeftOut) and e.topic == topic for e in plan.left_out):
        return False
    cursors = fold.cursors(topic)
    if assigned is not None:
        cursors = {p: cursor for p, cursor in cursors.items() if p in assigned}
        ends = {p: end for p, end in ends.items() if p in assigned}
    return cursors.keys() == ends.keys() and all(cursors[p] >= end for p, end in ends.items())
