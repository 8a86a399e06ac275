"""What a live run takes of a partition, and how ranges are cut into chunks."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.core.chunking import cut_chunks
from tidegate.core.cursor import Progress, Watermarks
from tidegate.core.draft import Draft, draft_live, new_origins
from tidegate.core.entries import Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut, TopicState

NO_SPANS = ()


def part(start, end):
    return OffsetRange("t", 0, start, end)


@pytest.mark.parametrize(
    ("covered", "skipped", "cursor"),
    [
        (NO_SPANS, NO_SPANS, 10),
        ([(10, 20)], NO_SPANS, 20),
        ([(10, 20)], [(20, 25)], 25),
        ([(10, 20), (25, 30)], [(20, 25), (30, 31)], 31),
        ([(11, 20)], NO_SPANS, 10),
        ([(0, 5)], NO_SPANS, 10),
        ([(0, 15)], NO_SPANS, 15),
    ],
)
def test_the_cursor_is_the_first_unseen_offset(covered, skipped, cursor):
    """From origin 10, over whatever is covered or skipped in turn."""
    assert Progress(10, Intervals.of(covered), Intervals.of(skipped)).cursor == cursor


def planned(start, end, *gaps):
    return Draft(ranges=[part(start, end)], gaps=list(gaps))


def gap(start, end):
    return Gap("t", "id", 0, start, end, "expired", "run")


def excluded(reason, **numbers):
    return Draft(left_out=[LeftOut("t", 0, reason, numbers)])


@pytest.mark.parametrize(
    ("covered", "marks", "on_expired", "expected"),
    [
        # plain: up to the end, which an open transaction holds below the high watermark
        (NO_SPANS, Watermarks(0, 80, 100), "fail", planned(10, 80)),
        (NO_SPANS, Watermarks(10, 10, 10), "fail", Draft()),
        (NO_SPANS, Watermarks(0, 5, 100), "fail", Draft()),
        # others have committed ahead: stop before it, then go on after it
        ([(50, 60)], Watermarks(0, 100, 100), "fail", planned(10, 50)),
        ([(10, 60)], Watermarks(0, 100, 100), "fail", planned(60, 100)),
        # expired
        (
            NO_SPANS,
            Watermarks(40, 100, 100),
            "fail",
            excluded("expired", start=10, end=40, offsets=30),
        ),
        (NO_SPANS, Watermarks(40, 100, 100), "skip", planned(40, 100, gap(10, 40))),
        (NO_SPANS, Watermarks(40, 40, 40), "skip", Draft(gaps=[gap(10, 40)])),
        ([(20, 30)], Watermarks(40, 99, 99), "skip", planned(40, 99, gap(10, 40))),
        ([(20, 50)], Watermarks(40, 99, 99), "skip", planned(50, 99, gap(10, 40))),
        # truncated: the log ends before what we have
        (
            [(10, 60)],
            Watermarks(0, 50, 50),
            "skip",
            excluded("truncated", cursor=60, end=50),
        ),
        # behind the last stable offset, yet all there: not truncated
        ([(10, 60)], Watermarks(0, 50, 60), "fail", Draft()),
    ],
)
def test_a_partitions_share_of_a_run(covered, marks, on_expired, expected):
    """`[cursor, min(end, next covered start))` from origin 10; the rest by policy.

    What is planned never begins below the log start.
    """
    fold = Fold()
    fold.apply(Origin("t", "id", {0: 10}), "digest")
    for start, end in covered:
        fold.covered.add(("id", 0), start, end)
    state = TopicState("id", {0: marks})
    assert draft_live(fold, {"t": state}, {}, on_expired=on_expired, by="run") == expected


def test_origins_of_new_partitions():
    """First sight of a topic: where `start` says, also when that is empty; later ones: 0.

    Newly assigned ones have a first sight, too.
    """
    assert new_origins([0, 1, 2], {0: 7}, {1: 5}) == {1: 5, 2: 0}
    assert new_origins([0, 1], None, {0: 7, 1: 0}) == {0: 7, 1: 0}
    assert new_origins([0, 1, 2], {0: 7, 1: 0}, {}) == {2: 0}
    assert new_origins([0, 1], {0: 7, 1: 0}, {}) == {}


lengths = st.lists(st.integers(0, 40), min_size=1, max_size=8)
starts = st.lists(st.integers(0, 1000), min_size=8, max_size=8)


def ranges_of(lengths, starts):
    return [OffsetRange("t", p, starts[p], starts[p] + n) for p, n in enumerate(lengths)]


@settings(max_examples=150, deadline=None)
@given(lengths, starts, st.integers(1, 60))
def test_chunks_are_the_input_cut_up(lengths, starts, max_records):
    """Their union is the input, each partition in order without a gap, none above the cap."""
    ranges = ranges_of(lengths, starts)
    windows = cut_chunks(reversed(ranges), max_records)
    at = {r.partition: r.start for r in ranges}
    for window in windows:
        assert 0 < sum(map(len, window)) <= max_records
        assert len({r.partition for r in window}) == len(window)
        for r in window:
            assert len(r) > 0
            assert r.start == at[r.partition]
            at[r.partition] = r.end
    assert at == {r.partition: r.end for r in ranges}


@settings(max_examples=150, deadline=None)
@given(lengths, starts, st.integers(1, 7))
def test_nothing_starves(lengths, starts, max_records):
    """With less than one record each, all have had a turn as soon as the caps allow it."""
    ranges = [r for r in ranges_of(lengths, starts) if len(r)]
    round_of_all = -(-len(ranges) // max_records)
    first = cut_chunks(ranges, max_records)[:round_of_all]
    assert {r.partition for w in first for r in w} == {r.partition for r in ranges}


@settings(max_examples=100, deadline=None)
@given(lengths, starts, st.integers(8, 60))
@example([4, 5, 5], [0, 0, 0], 13)
def test_only_the_biggest_are_cut(lengths, starts, max_records):
    """Small partitions go whole: a cut one gets no less than any whole one, but for the last
    record of what does not divide, nor is room left unused.
    """
    ranges = [r for r in ranges_of(lengths, starts) if len(r)]
    if ranges:
        first = {r.partition: len(r) for r in cut_chunks(ranges, max_records)[0]}
        wanted = {r.partition: len(r) for r in ranges}
        cut = [p for p, n in wanted.items() if first[p] < n]
        for p in cut:
            assert all(first[p] >= first[q] - 1 for q in wanted if q not in cut)
        if cut:
            assert sum(first.values()) == max_records


def test_the_most_urgent_come_first():
    """Equally urgent ones share; the next ones get the rest; those without urgency come last."""
    ranges = [OffsetRange("t", p, 0, 6) for p in range(4)]
    urgency = {("t", 3): 1, ("t", 1): 1, ("t", 0): 7}
    cut = [[(r.partition, r.start, r.end) for r in w] for w in cut_chunks(ranges, 8, urgency)]
    assert cut == [
        [(1, 0, 4), (3, 0, 4)],
        [(0, 0, 4), (1, 4, 6), (3, 4, 6)],
        [(0, 4, 6), (2, 0, 6)],
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 9)), max_size=9),
    st.integers(1, 12),
    st.dictionaries(st.integers(0, 3), st.integers(0, 2)),
)
def test_many_ranges_of_one_partition(pieces, max_records, urgency):
    """A window has one range of each partition at most; all are taken, each partition in order."""
    ranges, at = [], dict.fromkeys(range(4), 0)
    for p, gap, length in pieces:
        ranges.append(OffsetRange("t", p, at[p] + gap, at[p] + gap + length))
        at[p] += gap + length
    windows = cut_chunks(ranges, max_records, {("t", p): n for p, n in urgency.items()})
    for window in windows:
        assert 0 < sum(map(len, window)) <= max_records
        assert len({r.partition for r in window}) == len(window)
    for p in at:
        taken = [o for w in windows for r in w if r.partition == p for o in range(r.start, r.end)]
        assert taken == [o for r in ranges if r.partition == p for o in range(r.start, r.end)]


def test_fair_shares_by_example():
    """10 for lengths 2, 9 and 9: the small one whole, 4 for each of the others, then the rest."""
    windows = cut_chunks([OffsetRange("t", p, 0, n) for p, n in enumerate((2, 9, 9))], 10)
    assert [[(r.partition, r.start, r.end) for r in w] for w in windows] == [
        [(0, 0, 2), (1, 0, 4), (2, 0, 4)],
        [(1, 4, 9), (2, 4, 9)],
    ]


def test_a_cap_of_nothing_is_refused():
    """Planning would not end."""
    with pytest.raises(ValueError):
        cut_chunks([OffsetRange("t", 0, 0, 1)], 0)
