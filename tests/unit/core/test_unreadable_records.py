"""What becomes of a draft's ranges that hold records which Spark cannot read."""

import pytest

from tidegate.core.draft import Draft
from tidegate.core.entries import Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut
from tidegate.core.unreadable_records import (
    LATEST_MS,
    Scan,
    Unreadable,
    exclude_unreadable,
    is_readable,
    range_to_scan,
)

NANOSECONDS = 1_700_000_000_000_000_000
IDS = {"a": "id-a"}
R = OffsetRange("a", 0, 10, 20)


def draft(*scans, policy, fold=None, ranges=(R,)):
    made = Draft(ranges=[*ranges, OffsetRange("a", 1, 0, 5)])
    fold = fold or Fold()
    exclude_unreadable(
        made, dict(zip(ranges, scans, strict=True)), fold, IDS, policy=policy, by="run"
    )
    assert made.ranges.pop() == OffsetRange("a", 1, 0, 5)  # another partition is not touched
    return made


def scan(*offsets, end=20, problem=None):
    first = Unreadable(offsets[0], NANOSECONDS) if offsets else None
    return Scan(end, Intervals.of((each, each + 1) for each in offsets), first, problem)


def test_the_limit_is_that_of_microseconds_in_64_bits():
    assert is_readable(LATEST_MS)
    assert LATEST_MS * 1000 < 2**63 <= (LATEST_MS + 1) * 1000
    assert not is_readable(LATEST_MS + 1)
    assert not is_readable(NANOSECONDS)
    assert is_readable(-1)  # a record without a timestamp


@pytest.mark.parametrize(
    ("first", "part"),
    [(None, None), (20, None), (19, (19, 20)), (12, (12, 20)), (10, (10, 20)), (3, (10, 20))],
)
def test_only_what_follows_the_logs_first_one_is_read(first, part):
    assert range_to_scan(R, first) == (part and OffsetRange("a", 0, *part))


def test_fail_ends_the_range_at_the_first_one_and_names_it():
    made = draft(scan(14, 16), policy="fail")
    assert made.ranges == [OffsetRange("a", 0, 10, 14)]
    assert made.left_out == [
        LeftOut("a", 0, "unreadable", {"offset": 14, "timestamp": NANOSECONDS})
    ]
    assert made.gaps == []
    assert draft(scan(10), policy="fail").ranges == []


def test_a_gap_takes_no_other_offset_with_it():
    made = draft(scan(10, 14, 15, 19), policy="gap")
    assert made.ranges == [OffsetRange("a", 0, 11, 14), OffsetRange("a", 0, 16, 19)]
    assert made.gaps == [
        Gap("a", "id-a", 0, start, end, "unreadable", "run")
        for start, end in ((10, 11), (14, 16), (19, 20))
    ]
    assert made.left_out == []


def test_a_gap_that_stands_is_not_recorded_again():
    """As when gaps are filled: what still cannot be read is not planned."""
    fold = Fold()
    fold.apply(Origin("a", "id-a", {0: 0}), "digest")
    fold.apply(Gap("a", "id-a", 0, 14, 15, "unreadable", "earlier"), "digest")
    made = draft(scan(14, 16), policy="gap", fold=fold)
    assert [(gap.start, gap.end) for gap in made.gaps] == [(16, 17)]
    assert OffsetRange("a", 0, 15, 16) in made.ranges
    assert OffsetRange("a", 0, 14, 16) not in made.ranges


@pytest.mark.parametrize("policy", ["fail", "gap"])
def test_nothing_is_planned_that_was_not_examined(policy):
    made = draft(scan(end=17), policy=policy)
    assert made.ranges == [OffsetRange("a", 0, 10, 17)]
    assert made.left_out == []
    made = draft(scan(end=17, problem="no progress"), policy=policy)
    assert made.ranges == [OffsetRange("a", 0, 10, 17)]
    assert made.left_out == [
        LeftOut("a", 0, "unreadable", {"offset": 17, "because": "no progress"})
    ]
