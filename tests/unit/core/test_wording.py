"""Counts with their nouns, and durations."""

import pytest

from tidegate.core.wording import counted, duration


@pytest.mark.parametrize(
    ("n", "expected"), [(0, "0 chunks"), (1, "1 chunk"), (1_204_551, "1,204,551 chunks")]
)
def test_counts(n, expected):
    assert counted(n, "chunk") == expected


def test_a_plural_of_its_own():
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3, "0 s"), (0.4, "0 s"), (41, "41 s"), (59.4, "59 s"), (59.6, "60 s"), (60, "1m"),
        (250, "4m 10s"), (3_600, "1h"), (3_661, "1h 1m"), (86_399, "23h 59m"),
        (604_799, "6d 23h"), (604_800, "7d"), (7 * 86_400 + 59, "7d"),
    ],
)  # fmt: skip
def test_durations(seconds, expected):
    assert duration(seconds) == expected
