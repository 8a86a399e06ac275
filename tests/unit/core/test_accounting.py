"""The complaints about an attempt, its holes, and which of them are probed."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.accounting import (
    StagedFile,
    choose_probes,
    complaints,
    expired_part,
    holes,
    rows_by_partition,
    short_ranges,
)
from tidegate.core.offsets import OffsetRange

WINDOW = (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 5))


def file(path, first, last, rows, *, partition=0, topic="t"):
    return StagedFile(path, 100, "digest", topic, partition, first, last, rows)


def test_a_valid_attempt_has_no_complaints():
    """Files that meet but do not overlap, in any order, inside the window, with holes."""
    files = [file("b", 15, 19, 5), file("a", 10, 14, 5), file("c", 2, 4, 2, partition=1)]
    assert complaints(WINDOW, files) == []
    assert rows_by_partition(files) == {("t", 0): 10, ("t", 1): 2}
    assert short_ranges(WINDOW, {("t", 0): 10, ("t", 1): 2}) == [WINDOW[1]]
    assert short_ranges(WINDOW, {}) == list(WINDOW)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ([file("f", 9, 12, 4)], "f: offsets 9 to 12 are outside t-0 [10, 20)"),
        ([file("f", 19, 20, 2)], "f: offsets 19 to 20 are outside t-0 [10, 20)"),
        ([file("f", 0, 4, 5, partition=7)], "f: t-7 is not in the plan"),
        ([file("f", 10, 19, 10, topic="u")], "f: u-0 is not in the plan"),
        ([file("f", 10, 12, 4)], "f: 4 rows for offsets 10 to 12"),
        (
            [file("e", 10, 15, 6), file("f", 15, 19, 5)],
            "f: offset 15 is also in another file of the attempt",
        ),
    ],
)
def test_each_fault_of_an_attempt_is_named(files, complaint):
    """Offsets outside the range, unplanned partitions, offsets twice in one file or in two."""
    assert complaints(WINDOW, files) == [complaint]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(100, 130)))
def test_holes_are_the_offsets_without_rows(offsets):
    """The offsets of the holes and of the rows are the range, each once."""
    found = holes(OffsetRange("t", 3, 100, 131), sorted(offsets))
    missing = [offset for hole in found for offset in range(hole.start, hole.end)]
    assert missing == [offset for offset in range(100, 131) if offset not in offsets]
    assert all(a.end < b.start for a, b in pairwise(found))


def test_a_duplicated_offset_is_refused():
    """The error names the offset."""
    with pytest.raises(ValueError, match="offset 12 of t-0 stands twice"):
        holes(OffsetRange("t", 0, 10, 20), [10, 11, 12, 12, 15])


def test_few_holes_are_all_probed():
    """There is no sample up to the bound."""
    found = [OffsetRange("t", 0, 5, 6), OffsetRange("t", 0, 1, 3)]
    assert set(choose_probes(found, 2, "seed")) == set(found)


def test_many_holes_are_probed_longest_first_then_by_seed():
    """No more than the bound; the longest are probed; the same seed chooses the same holes."""
    long = [OffsetRange("t", 0, 10_000 * i, 10_000 * i + 100 + i) for i in range(5)]
    short = [OffsetRange("t", 1, 10 * i, 10 * i + 1) for i in range(1000)]
    chosen = choose_probes([*short, *long], 11, "a")
    assert len(set(chosen)) == 11
    assert set(long) <= set(chosen)
    assert choose_probes([*reversed(long), *short], 11, "a") == chosen
    assert choose_probes([*short, *long], 11, "b") != chosen


@pytest.mark.parametrize(
    ("log_start", "expected"), [(0, False), (10, False), (11, True), (15, True), (99, True)]
)
def test_a_hole_below_the_log_start_cannot_be_proven(log_start, expected):
    """Not even when only its first offset is gone."""
    assert expired_part(OffsetRange("t", 0, 10, 15), log_start) is expected
