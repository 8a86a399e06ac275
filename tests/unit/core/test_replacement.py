"""Replacement: whole files, each offset held by one commit, whatever is replaced."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import replacement
from tidegate.core.entries import Account, Commit, Reference
from tidegate.core.files import Tile
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, Adopt, NotLive, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.replacement import Replaced


def part(start, end, partition=0):
    return OffsetRange("t", partition, start, end)


HELD = [Tile(part(0, 10), 3, ("a",)), Tile(part(10, 25), 3, ("b",)), Tile(part(25, 30), 5, ("c",))]


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ([part(0, 30)], []),
        ([part(10, 30)], []),
        ([part(10, 25)], []),
        ([part(5, 25)], ["cuts committed files; the nearest window of whole ones is [0, 25)"]),
        ([part(11, 26)], ["is [10, 30)"]),
        ([part(10, 31)], ["[30, 31) is not in the lake"]),
        ([part(0, 5, 1), part(1, 2)], ["partition 1: [0, 5) is not", "whole ones is [0, 10)"]),
        ([part(3, 3)], []),
    ],
)  # fmt: skip
def test_a_window_of_whole_files_or_the_nearest_one_that_is(window, said):
    complaints: list[str] = []
    chosen = replacement.select_tiles(window, HELD, complaints)
    assert len(complaints) == len(said), complaints
    for complaint, words in zip(complaints, said, strict=True):
        assert words in complaint
    if not complaints:
        assert replacement.merge_ranges(t.range for t in chosen) == tuple(
            r for r in window if len(r)
        )


SHARED = [
    Tile(part(0, 10), 3, ("a",)), Tile(part(0, 5, 1), 3, ("a",)), Tile(part(10, 25), 3, ("b",)),
    Tile(part(5, 9, 1), 4, ("c",)), Tile(part(0, 2, 2), 4, ("c",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ([part(0, 25), part(0, 5, 1)], []),
        ([part(10, 25)], []),
        ([part(0, 5, 1)], ["partition 0: [0, 10) shares committed files with the window"]),
        ([part(0, 25)], ["partition 1: [0, 5) shares"]),
        (
            [part(3, 8, 1)],
            ["partition 1: [3, 8) cuts committed files; the nearest window of whole ones is "
             "[0, 9)", "partition 0: [0, 10) shares", "partition 2: [0, 2) shares"],
        ),
    ],
)  # fmt: skip
def test_a_file_is_replaced_with_all_its_partitions(window, said):
    """A request that does not name them all is refused, with what is missing of it."""
    complaints: list[str] = []
    chosen = replacement.select_tiles(window, SHARED, complaints)
    assert len(complaints) == len(said), complaints
    for complaint, words in zip(complaints, said, strict=True):
        assert words in complaint
    if not complaints:
        assert replacement.merge_ranges(t.range for t in chosen) == tuple(window)


def test_a_chunk_has_whole_files_and_one_range_of_each_partition():
    """A plan says one range of each partition of a chunk."""
    first = [Tile(part(0, 5), 3, ("a",)), Tile(part(0, 3, 1), 3, ("a",))]
    later = [Tile(part(5, 6), 9, ("c",)), Tile(part(50, 51, 1), 9, ("c",))]
    middle = Tile(part(3, 50, 1), 5, ("b",))
    chunks = replacement.pack(sorted([*first, *later, middle]), 1000)
    assert chunks == [first, [*later, middle]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=10), st.integers(1, 30))
def test_chunks_are_whole_files(lengths, most):
    """In order, each at most the cap unless one file alone is more; each is one range."""
    at, chosen = 0, []
    for length in lengths:
        chosen.append(Tile(part(at, at + length), 3, (str(at),)))
        at += length
    chunks = replacement.pack(chosen, most)
    assert [tile for chunk in chunks for tile in chunk] == chosen
    for chunk in chunks:
        total = sum(len(t.range) for t in chunk)
        assert total <= most or len(chunk) == 1
        assert len(replacement.merge_ranges(t.range for t in chunk)) == 1


def commit(plan_id, *ranges, replaces=(), topic_id="id-t"):
    accounts = {}
    for r in ranges:
        accounts[r.partition] = Account(r.start, r.end, len(r), 0)
    return Commit(
        "replay" if replaces else "live", plan_id, "sha", 0, "x", "cluster", {"t": topic_id},
        {"t": accounts}, Reference("manifest", "sha"),
        replaces=tuple(Replaced(n, r) for n, r in replaces),
    )  # fmt: skip


def fold_of(*entries):
    fold = Fold()
    for entry in entries:
        fold.apply(entry, "digest")
    return fold


KNOWN = fold_of(commit("p", part(0, 10), part(0, 5, 1)), commit("q", part(10, 30)))


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (commit("r", part(0, 10), replaces=[(1, part(0, 10))]), Accepted()),
        (commit("r", part(4, 30), replaces=[(1, part(4, 10)), (2, part(10, 30))]), Accepted()),
        (commit("p", part(0, 10), replaces=[(1, part(0, 10))]), Adopt(1)),
        # more, less, twice, another's, another topic's, not live
        (commit("r", part(0, 9), replaces=[(1, part(0, 10))]), NotLive((part(0, 10),))),
        (commit("r", part(0, 10), replaces=[(1, part(0, 9))]), NotLive((part(9, 10),))),
        (
            commit("r", part(0, 10), replaces=[(1, part(0, 10)), (1, part(0, 10))]),
            NotLive((part(0, 10),)),
        ),
        (commit("r", part(0, 10), replaces=[(2, part(0, 10))]), NotLive((part(0, 10),))),
        (
            commit("r", part(0, 10), replaces=[(1, part(0, 10))], topic_id="other"),
            NotLive((part(0, 10),)),
        ),
        (commit("r", part(0, 10), replaces=[(9, part(0, 10))]), NotLive((part(0, 10),))),
    ],
)
def test_what_may_be_replaced(entry, verdict):
    """Live parts, and exactly the commit's own ranges; never "covered by"."""
    assert judge(KNOWN, entry) == verdict


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12))
def test_live_ranges_tile_whatever_is_replaced(windows):
    """After any history of replaces each offset is held by exactly one commit, and coverage and
    cursor are what they were.
    """
    fold = fold_of(commit("a", part(0, 25)), commit("b", part(25, 60)))
    for number, (start, length) in enumerate(windows):
        window = part(start, min(60, start + length))
        parts = [
            (n, part(max(r.start, window.start), min(r.end, window.end)))
            for n in fold.live
            for _, r in fold.live_ranges(n)
            if r.start < window.end and window.start < r.end
        ]
        entry = commit(f"r{number}", window, replaces=parts)
        assert judge(fold, entry) == Accepted()
        fold.apply(entry, "digest")
        again = replace(entry, plan_id=f"late{number}")
        assert isinstance(judge(fold, again), NotLive)  # its files are another's now
        held = [o for n in fold.live for _, r in fold.live_ranges(n) for o in range(r.start, r.end)]
        assert sorted(held) == list(range(60))
        mine = [
            o
            for n, each in fold.live.items()
            for _, r in each.ranges
            for o in range(r.start, r.end)
            if fold.holds(n, "id-t", 0, o)
        ]
        assert sorted(mine) == list(range(60))
    assert fold.covered["id-t", 0].spans == ((0, 60),)
