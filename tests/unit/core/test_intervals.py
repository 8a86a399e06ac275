"""Intervals behave as the sets of offsets that they stand for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.intervals import NOTHING, Intervals

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)
point = st.integers(0, 45)


def model(of: list[tuple[int, int]]) -> set[int]:
    return {offset for start, end in of for offset in range(start, end)}


def offsets(intervals: Intervals) -> set[int]:
    return model(list(intervals))


def is_normal(intervals: Intervals) -> bool:
    flat = [bound for span in intervals for bound in span]
    return flat == sorted(set(flat))  # strictly rising: sorted, not empty, not touching


@settings(max_examples=150, deadline=None)
@given(spans, spans, point, point)
def test_every_operation_is_that_of_sets(a, b, start, end):
    """Union, part, complement, difference and length agree with Python's sets."""
    x, y = Intervals.of(a), Intervals.of(b)
    window = set(range(start, end))
    cases = [
        (x, model(a)),
        (x.add(start, end), model(a) | window),
        (x.within(start, end), model(a) & window),
        (x.missing(start, end), window - model(a)),
        (x.subtract(y), model(a) - model(b)),
    ]
    for got, expected in cases:
        assert offsets(got) == expected
        assert is_normal(got)
        assert len(got) == len(expected)
        assert bool(got) == bool(expected)


@settings(max_examples=150, deadline=None)
@given(spans, point)
def test_looking_for_the_next_offset(a, at):
    """`first_missing` and `next_start` are the smallest offsets, from `at`, outside and inside."""
    x = Intervals.of(a)
    inside = [offset for offset in model(a) if offset >= at]
    assert x.first_missing(at) == min(set(range(at, 100)) - model(a))
    assert x.next_start(at) == (min(inside) if inside else None)


def test_touching_spans_become_one():
    """[0, 5) and [5, 7) are one span, however they come together."""
    assert Intervals.of([(5, 7), (0, 5)]).spans == ((0, 7),)
    assert NOTHING.add(0, 2).add(4, 6).add(2, 4).spans == ((0, 6),)
    assert NOTHING.add(3, 3) == NOTHING
