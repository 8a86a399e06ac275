"""What a file covers: its parts, whether they are in order, the offsets that it stands for."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.files import Contents, LakeFile, Part, Tile, rows_by_partition, tiles_of
from tidegate.core.offsets import OffsetRange


def lake_file(name, *parts):
    return LakeFile("t", tuple(Part(*each) for each in parts), True, 1, "d", f"s/{name}", name)


def part(start, end, partition=0):
    return OffsetRange("t", partition, start, end)


def test_a_file_has_parts_of_several_partitions():
    contents = Contents.of([(7, 0, 4), (2, 10, 11), (2, 20, 20)])
    assert contents.parts == (Part(2, 10, 20, 3), Part(7, 0, 4, 5))
    assert (contents.rows, contents.ascending) == (8, True)


@pytest.mark.parametrize(
    ("runs", "ascending"),
    [
        ([], True),
        ([(0, 5, 6), (0, 8, 8)], True),
        ([(0, 8, 8), (0, 5, 6)], False),
        ([(1, 0, 3), (0, 0, 9)], True),
        ([(0, 0, 3), (1, 0, 0), (0, 4, 4)], False),
    ],
)
def test_in_order_is_within_each_partition(runs, ascending):
    """And the rows of one are next to each other."""
    assert Contents.of(runs).ascending is ascending


@pytest.mark.parametrize("runs", [[(0, 5, 9), (0, 9, 9)], [(0, 3, 3), (1, 3, 3), (0, 1, 3)]])
def test_an_offset_that_stands_twice_is_refused(runs):
    with pytest.raises(ValueError, match=r"offset \d of partition 0 occurs twice"):
        Contents.of(runs)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), unique=True))
def test_the_parts_say_what_the_rows_are(rows):
    """Whatever their order."""
    contents = Contents.of([(p, offset, offset) for p, offset in rows])
    for p, first, last, number in contents.parts:
        offsets = [offset for each, offset in rows if each == p]
        assert (first, last, number) == (min(offsets), max(offsets), len(offsets))
    assert contents.rows == len(rows)


def test_a_file_in_json():
    file = lake_file("a", (0, 0, 4, 5), (3, 7, 9, 2))
    form = file.to_json()
    assert form["parts"] == [[0, 0, 4, 5], [3, 7, 9, 2]]
    assert LakeFile.from_json(form) == file
    assert rows_by_partition([file, file]) == {("t", 0): 10, ("t", 3): 4}


@pytest.mark.parametrize(
    ("spans", "overlaps"),
    [
        ({}, False),
        ({0: (5, 9)}, False),
        ({0: (4, 5)}, True),
        ({3: (0, 7)}, False),
        ({1: (0, 99), 3: (0, 8)}, True),
    ],
)
def test_a_file_overlaps_a_window(spans, overlaps):
    assert lake_file("a", (0, 0, 4, 5), (3, 7, 9, 2)).overlaps(spans) is overlaps


def test_a_file_stands_for_the_offsets_up_to_the_next_one():
    """From the edge of the commit's range to its other edge; a range without a file too."""
    files = [
        lake_file("a", (0, 12, 14, 1), (2, 3, 3, 1)), lake_file("b", (0, 20, 29, 10)),
        lake_file("c", (0, 30, 30, 1)),
    ]  # fmt: skip
    assert tiles_of(7, [part(10, 40), part(5, 9, 1), part(0, 9, 2)], files) == [
        Tile(part(10, 20), 7, ("a",)),
        Tile(part(20, 30), 7, ("b",)),
        Tile(part(30, 40), 7, ("c",)),
        Tile(part(5, 9, 1), 7),
        Tile(part(0, 9, 2), 7, ("a",)),
    ]


def test_files_with_offsets_between_one_anothers_stand_for_all_ranges_together():
    """Of one topic: another topic of the commit is cut as ever."""
    files = [
        lake_file("a", (0, 10, 30, 3), (1, 0, 0, 1)),
        lake_file("b", (0, 20, 39, 2)),
        lake_file("c", (3, 5, 6, 2)),
        replace(lake_file("d", (0, 0, 4, 5)), topic="u"),
    ]
    other = OffsetRange("u", 0, 0, 9)
    assert tiles_of(7, [part(10, 40), part(0, 9, 1), part(5, 7, 3), other], files) == [
        Tile(part(10, 40), 7, ("a", "b", "c")),
        Tile(part(0, 9, 1), 7, ("a", "b", "c")),
        Tile(part(5, 7, 3), 7, ("a", "b", "c")),
        Tile(other, 7, ("d",)),
    ]
