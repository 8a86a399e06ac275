"""The picture of a partition: its intervals tile, and its bar shows small problems."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.coverage import CoverageInterval, coverage_bar, partition_coverage
from tidegate.core.cursor import Watermarks


def live(start, end):
    return CoverageInterval(start, end, "covered", lane="live")


def test_each_offset_has_its_state():
    """Before the origin, covered by lane, skipped with reason, expired, and to come."""
    known = [
        live(20, 30),
        CoverageInterval(5, 8, "covered", lane="backfill"),
        live(30, 35),
        CoverageInterval(35, 40, "skipped", reason="expired", by="r"),
    ]
    assert partition_coverage(10, known, Watermarks(45, 60, 70)) == (
        CoverageInterval(5, 8, "covered", lane="backfill"),
        CoverageInterval(8, 10, "before"),
        CoverageInterval(10, 20, "expired"),
        live(20, 35),
        CoverageInterval(35, 40, "skipped", reason="expired", by="r"),
        CoverageInterval(40, 45, "expired"),
        CoverageInterval(45, 60, "unseen"),
    )


def test_without_a_broker_the_ledgers_part_is_shown():
    assert partition_coverage(0, [live(2, 5)], None) == (
        CoverageInterval(0, 2, "unseen"),
        live(2, 5),
    )
    assert partition_coverage(7, [], None) == ()


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9), st.booleans()), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 40), spans, st.integers(0, 50), st.integers(0, 30))
def test_intervals_tile(origin, spans, log_start, length):
    """No offset twice, none missing, whatever is known; each in the state that it was given."""
    state, known = {}, []
    for start, size, covered in spans:
        if not state.keys() & set(range(start, start + size)):
            kind = {"lane": "live"} if covered else {"reason": "r", "by": "b"}
            known.append(
                CoverageInterval(start, start + size, "covered" if covered else "skipped", **kind)
            )
            state |= dict.fromkeys(range(start, start + size), known[-1].state)
    marks = Watermarks(log_start, log_start + length, log_start + length)
    at = low = min([origin, log_start, *state])
    for i in partition_coverage(origin, known, marks):
        assert i.start == at < i.end
        at = i.end
        for offset in range(i.start, i.end):
            rest = "before" if offset < origin else "expired" if offset < log_start else "unseen"
            assert i.state == state.get(offset, rest)
    assert at == max([low, origin, marks.end, *(o + 1 for o in state)])


def test_a_bar_is_as_wide_as_asked():
    halves = (live(0, 50), CoverageInterval(50, 100, "unseen"))
    assert coverage_bar(halves, 10) == [("live", 5), ("unseen", 5)]
    assert coverage_bar((live(3, 4),), 10) == [("live", 10)]
    assert coverage_bar((), 10) == []


@pytest.mark.parametrize("state", ["expired", "unseen", "skipped"])
def test_one_lost_offset_in_a_million_is_seen(state):
    whole = (live(0, 499_999), CoverageInterval(499_999, 500_000, state), live(500_000, 1_000_000))
    assert coverage_bar(whole, 40) == [("live", 19), (state, 1), ("live", 20)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 50))
def test_every_kind_keeps_a_cell_unless_a_more_important_one_takes_it(sizes, width):
    """The cells add up, and the most important kind is always there."""
    at, intervals = 0, []
    for number, size in enumerate(sizes):
        state = ("covered", "unseen", "expired")[number % 3]
        intervals.append(
            CoverageInterval(at, at + size, state, lane="live" if number % 3 == 0 else None)
        )
        at += size
    bar = coverage_bar(intervals, width)
    assert sum(cells for _, cells in bar) == width
    states = {i.state for i in intervals}
    loudest = next(s for s in ("expired", "unseen", "covered") if s in states)
    assert (loudest if loudest != "covered" else "live") in {kind for kind, _ in bar}
