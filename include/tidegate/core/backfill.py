"""What a backfill takes of its window: what no commit holds and the log still has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.cursor import Watermarks
from tidegate.core.draft import Draft
from tidegate.core.entries import Gap
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOut


def out_of_reach(
    fold: Fold, topic_id: str, window: Sequence[OffsetRange], marks: Mapping[int, Watermarks]
) -> list[str]:
    """Complain of what is not in the log yet, and of what neither log nor lake has any more."""
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


def draft_window(
    fold: Fold,
    topic_id: str,
    window: Sequence[OffsetRange],
    marks: Mapping[int, Watermarks],
    *,
    on_expired: str,
    by: str,
) -> Draft:
    """Draft a window: what is covered is skipped, what expired goes by policy, the rest is planned.

    What expired and stands in a gap already is old news. `by` signs new gaps.
    """
    draft = Draft()
    for r in window:
        covered = fold.covered.get((topic_id, r.partition), NOTHING).within(r.start, r.end)
        missing = _missing(fold, topic_id, r)
        log_start, log_end = marks[r.partition].start, marks[r.partition].end
        draft.covered += _ranges(r, covered)
        draft.ranges += _ranges(r, missing.within(log_start, log_end))
        if beyond := missing.within(log_end, max(log_end, r.end)):
            numbers = {"cursor": beyond.spans[0][0], "end": log_end}
            draft.left_out.append(LeftOut(r.topic, r.partition, "truncated", numbers))
        known = fold.skipped.get((topic_id, r.partition), NOTHING)
        for start, end in missing.within(0, log_start).subtract(known):
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
    """Return what was skipped and is in the log all the same."""
    return [
        OffsetRange(topic, p, start, end)
        for p in partitions
        for start, end in fold.skipped.get((topic_id, p), NOTHING).within(
            marks[p].start, marks[p].end
        )
    ]


def _missing(fold: Fold, topic_id: str, r: OffsetRange) -> Intervals:
    return fold.covered.get((topic_id, r.partition), NOTHING).missing(r.start, r.end)


def _ranges(of: OffsetRange, spans: Intervals) -> list[OffsetRange]:
    return [OffsetRange(of.topic, of.partition, start, end) for start, end in spans]
