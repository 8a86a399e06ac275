"""Records that Spark cannot read: a timestamp that does not fit into microseconds of 64 bits.

A producer that writes nanoseconds where milliseconds belong makes such records. Spark's task fails
at the first one, without naming it, so no plan may hold one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tidegate.core.draft import Draft
from tidegate.core.entries import Gap
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOut

REASON = "unreadable"
LATEST_MS = (2**63 - 1) // 1000
"""The last millisecond since the epoch that Spark can convert: its timestamps are microseconds."""


class Unreadable(NamedTuple):
    """A record that Spark cannot read, and its timestamp in ms since the epoch."""

    offset: int
    timestamp: int


@dataclass(frozen=True)
class Scan:
    """What an independent consumer saw of a range: all offsets below `end` that are unreadable.

    `first` is the first of them. `end` is the range's own unless the consumer stopped before it;
    `problem` says what stopped it, where it was not its own bound.
    """

    end: int
    offsets: Intervals = NOTHING
    first: Unreadable | None = None
    problem: str | None = None


def is_readable(timestamp: int) -> bool:
    """Say whether Spark can convert a timestamp in ms since the epoch."""
    return -LATEST_MS <= timestamp <= LATEST_MS


def exclude(
    draft: Draft,
    scans: Mapping[OffsetRange, Scan],
    fold: Fold,
    topic_ids: Mapping[str, str],
    *,
    policy: Literal["fail", "gap"],
    by: str,
) -> None:
    """Take what Spark cannot read out of a draft's ranges.

    `fail` ends the range at the first such record, and names the partition; `gap` gives up these
    offsets alone, and goes on behind each of them. A range that was not scanned to its end is cut
    there: the next run plans the rest. `by` signs the gaps.
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
            draft.left_out.append(LeftOut(r.topic, r.partition, REASON, scan.first._asdict()))
        else:
            bad = scan.offsets
            topic_id = topic_ids[r.topic]
            known = fold.skipped.get((topic_id, r.partition), NOTHING)
            draft.gaps += [
                Gap(r.topic, topic_id, r.partition, start, stop, REASON, by)
                for start, stop in bad.subtract(known)
            ]
            if scan.problem:
                numbers = {"offset": scan.end, "because": scan.problem}
                draft.left_out.append(LeftOut(r.topic, r.partition, REASON, numbers))
        ranges += [OffsetRange(r.topic, r.partition, *span) for span in bad.missing(r.start, end)]
    draft.ranges = ranges


def scanned(r: OffsetRange, first: int | None) -> OffsetRange | None:
    """Return the part of a range that may hold unreadable records.

    `first` is the first offset of the log, if any, whose timestamp is later than LATEST_MS.
    """
    if first is None or first >= r.end:
        return None
    return OffsetRange(r.topic, r.partition, max(first, r.start), r.end)
