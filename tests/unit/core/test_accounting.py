"""The complaints about an attempt, its holes, and which of them are probed."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.accounting import choose_probes, collect_offsets, find_holes, has_expired_part
from tidegate.core.files import Contents, LakeFile
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.offsets import OffsetRange

WINDOW = (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 5))


def file(path, *runs, topic="t"):
    """Return a staged file of runs (partition, first, last)."""
    contents = Contents.of(runs)
    return LakeFile(topic, contents.parts, contents.ascending, 1, "d", path, "f"), contents


def test_a_valid_attempt_has_no_complaints():
    """Files in any order, with offsets between one another's, inside the window, with holes."""
    found, wrong = collect_offsets(
        WINDOW,
        [
            file("b", (0, 15, 16), (0, 18, 19)),
            file("a", (0, 10, 14), (0, 17, 17)),
            file("c", (1, 2, 3)),
        ],
    )
    assert wrong == []
    assert found == {("t", 0): Intervals(((10, 20),)), ("t", 1): Intervals(((2, 4),))}
    assert find_holes(WINDOW, found) == {
        WINDOW[1]: [OffsetRange("t", 1, 0, 2), OffsetRange("t", 1, 4, 5)]
    }
    assert find_holes(WINDOW, OffsetSets()) == {r: [r] for r in WINDOW}


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ([file("f", (0, 9, 12))], "f: offsets 9 to 12 are outside t-0 [10, 20)"),
        ([file("f", (0, 19, 20))], "f: offsets 19 to 20 are outside t-0 [10, 20)"),
        ([file("f", (1, 0, 4), (7, 0, 4))], "f: t-7 is not in the plan"),
        ([file("f", (0, 10, 19), topic="u")], "f: u-0 is not in the plan"),
        (
            [file("e", (0, 10, 15)), file("f", (1, 0, 1), (0, 15, 19))],
            "f: offset 15 of t-0 is in another file, too, e",
        ),
        (
            [file("e", (0, 12, 12)), file("f", (0, 10, 11), (0, 13, 19)), file("g", (0, 12, 12))],
            "g: offset 12 of t-0 is in another file, too, e",
        ),
        (
            [file("e", (0, 10, 12), (0, 14, 14)), file("f", (0, 13, 13), (0, 14, 19))],
            "e: offset 14 of t-0 is in another file, too, f",
        ),
    ],
)
def test_each_fault_of_an_attempt_is_named(files, complaint):
    """Offsets outside the range, unplanned partitions, an offset in two files."""
    assert collect_offsets(WINDOW, files)[1] == [complaint]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(100, 130), min_size=1), st.integers(1, 3))
def test_holes_are_the_offsets_without_rows(offsets, files):
    """However rows are cut into files: the offsets of the holes and of the rows are the range."""
    window = [OffsetRange("t", 3, 100, 131)]
    staged = [
        file(str(i), *((3, o, o) for o in sorted(offsets) if (o - 100) * files // 31 == i))
        for i in range(files)
        if any((o - 100) * files // 31 == i for o in offsets)
    ]
    found, wrong = collect_offsets(window, staged)
    assert wrong == []
    each = find_holes(window, found).get(window[0], [])
    missing = [offset for hole in each for offset in range(hole.start, hole.end)]
    assert missing == [offset for offset in range(100, 131) if offset not in offsets]
    assert all(a.end < b.start for a, b in pairwise(each))


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
    assert has_expired_part(OffsetRange("t", 0, 10, 15), log_start) is expected
