"""What became of every offset of a partition, as intervals that tile, and as a bar to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal

from tidegate.core.cursor import Watermarks
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import OMITTED, Document

State = Literal["before", "covered", "skipped", "expired", "unseen"]


@dataclass(frozen=True, order=True, slots=True)
class Interval(Document):
    """Offsets `[start, end)` of one outcome.

    `before` the origin, and in no commit; `covered` by a commit of this `lane`; `skipped` for this
    `reason`; `expired`: unseen, and below the log start; `unseen`: still to come.
    """

    start: int
    end: int
    state: State
    lane: Annotated[str | None, OMITTED] = None
    reason: Annotated[str | None, OMITTED] = None
    by: Annotated[str | None, OMITTED] = None

    @property
    def kind(self) -> str:
        """What it is drawn as: covered offsets by their lane."""
        return self.lane or self.state


def tiled(origin: int, known: Iterable[Interval], marks: Watermarks | None) -> tuple[Interval, ...]:
    """Return what became of all offsets between the lowest and the highest that anyone knows.

    `known` are the covered and the skipped ones, none twice; neighbours that are alike are merged.
    """
    found = sorted(known)
    low = min([origin, *(i.start for i in found[:1]), *([marks.start] if marks else [])])
    high = max([origin, *(i.end for i in found), *([marks.end] if marks else [])])
    rest = Intervals.of((i.start, i.end) for i in found).missing(low, high)
    log_start = marks.start if marks else low
    borders: list[tuple[State, int, int]] = [
        ("before", low, origin),
        ("expired", origin, max(origin, log_start)),
        ("unseen", max(origin, log_start), high),
    ]
    found += [
        Interval(start, end, state)
        for state, left, right in borders
        for start, end in rest.within(left, right)
    ]
    return tuple(_merged(sorted(found)))


def _merged(intervals: Iterable[Interval]) -> Iterable[Interval]:
    for (state, lane, reason, by), alike in groupby(
        intervals, key=lambda i: (i.state, i.lane, i.reason, i.by)
    ):
        together = list(alike)
        yield Interval(together[0].start, together[-1].end, state, lane, reason, by)


_LOUDEST = ("expired", "unseen", "skipped", "before")


def drawn(intervals: Sequence[Interval], width: int) -> list[tuple[str, int]]:
    """Return a bar of `width` cells as (kind, cells) from left to right.

    What needs a keeper's eye wins its cell, however small it is.
    """
    if not intervals or intervals[0].start == intervals[-1].end:
        return []
    low, high = intervals[0].start, intervals[-1].end
    cells = [""] * width
    for i in sorted(intervals, key=_loudness, reverse=True):
        first = (i.start - low) * width // (high - low)
        after = -((low - i.end) * width // (high - low))  # rounded up
        cells[first:after] = [i.kind] * (after - first)
    return [(kind, len(list(same))) for kind, same in groupby(cells)]


def _loudness(i: Interval) -> int:
    return _LOUDEST.index(i.state) if i.state in _LOUDEST else len(_LOUDEST)
