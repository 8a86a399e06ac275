"""Records that Spark cannot read: their timestamp does not fit into 64 bits of microseconds.

Producers that write nanoseconds in place of milliseconds make such records. Spark's task fails at
the first one without naming it, so no plan may contain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tidegate.core.draft import Draft
from tidegate.core.entries import Gap
from tidegate.core.fold import Fold
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut, Reason

LATEST_MS = (2**63 - 1) // 1000
"""The last millisecond since the epoch that Spark can convert: its timestamps are microseconds."""


class Unreadable(NamedTuple):
    """A record that Spark cannot read, and its timestamp in ms since the epoch."""

    offset: int
    timestamp: int


@dataclass(frozen=True)
class Scan:
    """The unreadable offsets of a range below `end`, as an independent consumer found them.

    `first` is the first of them. `end` is the range's end unless the consumer stopped before it.
    `problem` is the error that stopped it, None if it reached its own bound.
    """

    end: int
    offsets: Intervals = NOTHING
    first: Unreadable | None = None
    problem: str | None = None


def is_readable(timestamp: int) -> bool:
    """Return whether Spark can convert a timestamp in ms since the epoch."""
    return -LATEST_MS <= timestamp <= LATEST_MS


def exclude_unreadable(
    draft: Draft,
    scans: Mapping[OffsetRange, Scan],
    fold: Fold,
    topic_ids: Mapping[str, str],
    *,
    policy: Literal["fail", "gap"],
    by: str,
) -> None:
    """Remove the records that Spark cannot read from a draft's ranges.

    `fail` ends the range at the first such record and leaves out the rest. `gap` skips these
    offsets alone. A range that was not scanned to its end is cut there: the next run plans the
    rest. `by` is recorded in the gaps.
    """
    ranges = []
    for r in draft.ranges:
        scan = scans.get(r)
        if scan is None:
            ranges.append(r)
            continue
        end, bad = scan.end, NOTHING
        if scan.first and policy == "fail":
            end = scan.first.offset
            draft.left_out.append(
                LeftOut(r.topic, r.partition, Reason.UNREADABLE, scan.first._asdict())
            )
        else:
            bad = scan.offsets
            topic_id = topic_ids[r.topic]
            draft.gaps += [
                Gap(r.topic, topic_id, r.partition, start, stop, Reason.UNREADABLE, by)
                for start, stop in bad.subtract(fold.skipped[topic_id, r.partition])
            ]
            if scan.problem:
                numbers = {"offset": scan.end, "because": scan.problem}
                draft.left_out.append(LeftOut(r.topic, r.partition, Reason.UNREADABLE, numbers))
        ranges += r.parts(bad.missing(r.start, end))
    draft.ranges = ranges


def range_to_scan(r: OffsetRange, first: int | None) -> OffsetRange | None:
    """Return the part of a range that may hold unreadable records.

    `first` is the first offset of the log, if any, whose timestamp is later than LATEST_MS.
    """
    if first is None or first >= r.end:
        return None
    return OffsetRange(r.topic, r.partition, max(first, r.start), r.end)
