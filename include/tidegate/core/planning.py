"""What a live run takes, and how it is cut into chunks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import LeftOut

NO_URGENCY: Mapping[tuple[str, int], int] = {}


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What the broker has of one partition now.

    `end` is the last stable offset under read_committed, else the high watermark.
    """

    start: int
    end: int
    high: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What the ledger says of one partition: its origin and the offsets with an outcome."""

    origin: int
    covered: Intervals = NOTHING
    skipped: Intervals = NOTHING

    @property
    def cursor(self) -> int:
        """The first unseen offset at or after the origin."""
        at, before = self.origin, -1
        while at != before:
            before = at
            at = self.skipped.first_missing(self.covered.first_missing(at))
        return at


@dataclass(frozen=True, slots=True)
class Decision:
    """A partition's share of a run: at most one range, one gap to record, one reason to stop."""

    range: OffsetRange | None = None
    gap: OffsetRange | None = None
    left_out: LeftOut | None = None


def decide_live(
    topic: str,
    partition: int,
    progress: Progress,
    marks: Watermarks,
    *,
    on_expired: str,
    cut: int | None = None,
) -> Decision:
    """Take `[cursor, min(end, next covered start))`; expired offsets go by policy.

    Expired means: the broker's log starts after the cursor. `fail` leaves the partition out;
    `skip` records the gap, which the ledger cuts to what is unseen, and goes on at the log start.
    `cut` is where the log was cut off below the cursor, whatever was written there since.
    """
    cursor = progress.cursor
    if cut is not None and cut < cursor <= marks.high:
        numbers = {"cursor": cursor, "end": marks.high, "cut": cut}
        return Decision(left_out=LeftOut(topic, partition, "truncated", numbers))
    if marks.high < cursor:
        return Decision(
            left_out=LeftOut(topic, partition, "truncated", {"cursor": cursor, "end": marks.high})
        )
    gap = None
    if marks.start > cursor:
        if on_expired == "fail":
            return Decision(
                left_out=LeftOut(topic, partition, "expired", {"start": cursor, "end": marks.start})
            )
        gap = OffsetRange(topic, partition, cursor, marks.start)
        skipped = progress.skipped.add(gap.start, gap.end)
        cursor = replace(progress, skipped=skipped).cursor
    next_covered = progress.covered.next_start(cursor)
    end = marks.end if next_covered is None else min(marks.end, next_covered)
    if cursor >= end:
        return Decision(gap=gap)
    return Decision(range=OffsetRange(topic, partition, cursor, end), gap=gap)


def chunked(
    ranges: Iterable[OffsetRange],
    max_records: int,
    urgency: Mapping[tuple[str, int], int] = NO_URGENCY,
) -> tuple[Window, ...]:
    """Cut ranges into windows of at most `max_records` offsets, shared fairly.

    In each window small partitions go whole and big ones share what is left. With less than one
    record each, those that got nothing come first in the next window, so none starves. By
    `urgency`, lower numbers come first: others share only what the more urgent ones leave, and
    those that have none come last.
    """
    if max_records < 1:
        raise ValueError(f"max_records must be at least 1, not {max_records}")
    partitions: dict[tuple[str, int], deque[OffsetRange]] = {}
    for r in sorted(ranges):
        if len(r):
            partitions.setdefault((r.topic, r.partition), deque()).append(r)
    queues: dict[float, deque[deque[OffsetRange]]] = {}
    for key, each in partitions.items():
        queues.setdefault(urgency.get(key, math.inf), deque()).append(each)
    windows: list[Window] = []
    while queues:
        window: list[OffsetRange] = []
        for _, queue in sorted(queues.items()):
            window += _turn(queue, max_records - sum(map(len, window)))
        windows.append(tuple(sorted(window)))
        queues = {key: queue for key, queue in queues.items() if queue}
    return tuple(windows)


def _turn(queue: deque[deque[OffsetRange]], room: int) -> list[OffsetRange]:
    """Take at most `room` offsets off the partitions' first ranges; what is left queues again."""
    turn = [queue.popleft() for _ in range(min(len(queue), room))]
    taken = []
    for partition, share in zip(turn, _fair_shares([len(p[0]) for p in turn], room), strict=True):
        r = partition.popleft()
        cut = r.start + share
        taken.append(OffsetRange(r.topic, r.partition, r.start, cut))
        if cut < r.end:
            partition.appendleft(OffsetRange(r.topic, r.partition, cut, r.end))
        if partition:
            queue.append(partition)
    return taken


def _fair_shares(wants: list[int], budget: int) -> list[int]:
    """Share `budget` (at least one each) so that no want is cut while a bigger one gets more."""
    shares = [0] * len(wants)
    left = len(wants)
    for i in sorted(range(len(wants)), key=wants.__getitem__):
        shares[i] = min(wants[i], budget // left)
        budget -= shares[i]
        left -= 1
    return shares


def new_origins(
    partitions: Iterable[int], known: Mapping[int, int] | None, first_sight: Mapping[int, int]
) -> dict[int, int]:
    """Return the origins to record for partitions that have none.

    The first sight of a topic (`known` is None) follows the pipeline's `start`, given as
    `first_sight`; a partition that appears later begins at 0, wherever its log starts, so that
    what expired unseen goes by policy and is never silently missed.
    """
    if known is None:
        return {p: first_sight[p] for p in partitions}
    return {p: 0 for p in partitions if p not in known}
