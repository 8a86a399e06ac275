"""Ranges and their JSON forms."""

import pytest

from tidegate.core.offsets import (
    OffsetRange,
    parse_spark_offsets,
    spark_offsets,
    window_bounds,
    window_from_json,
    window_to_json,
)


def test_a_range_is_half_open():
    """Its length is end minus start, it may be empty, and it names itself."""
    assert len(OffsetRange("t", 0, 3, 7)) == 4
    assert len(OffsetRange("t", 0, 7, 7)) == 0
    assert str(OffsetRange("t", 2, 3, 7)) == "t-2 [3, 7)"


@pytest.mark.parametrize("numbers", [(-1, 0, 1), (0, -1, 1), (0, 5, 4)])
def test_what_is_no_range_is_refused(numbers):
    """Spark's -1 and -2, and an end before the start, never get into the core."""
    with pytest.raises(ValueError):
        OffsetRange("t", *numbers)


def test_a_window_keeps_its_ranges_through_json():
    """Partitions are string keys; reading sorts by number, not by text."""
    window = (OffsetRange("a", 2, 0, 5), OffsetRange("a", 10, 1, 2), OffsetRange("b", 0, 7, 9))
    form = {"a": {"2": [0, 5], "10": [1, 2]}, "b": {"0": [7, 9]}}
    assert window_to_json(window) == form
    assert window_from_json({"b": form["b"], "a": {"10": [1, 2], "2": [0, 5]}}) == window


def test_sparks_form_is_exact():
    """Topics sorted, partitions in numeric order, no spaces; and it reads back."""
    offsets = {"b": {10: 7, 2: 5}, "a": {0: 0}}
    assert spark_offsets(offsets) == '{"a":{"0":0},"b":{"2":5,"10":7}}'
    assert parse_spark_offsets('{"a":{"0":0},"b":{"2":5,"10":7}}') == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "17",
        '{"t": 5}',
        '{"t": {"0": -1}}',
        '{"t": {"0": -2}}',
        '{"t": {"0": 1.0}}',
        '{"t": {"0": true}}',
        '{"t": {"0": "1"}}',
        '{"t": {"0": null}}',
        '{"t": {"x": 1}}',
        '{"t": {"-1": 1}}',
    ],
)
def test_what_is_not_offsets_is_a_value_error(text):
    """A Variable edited by hand can hold anything; nothing but offsets gets through."""
    with pytest.raises(ValueError):
        parse_spark_offsets(text)


def test_bounds_span_all_chunks():
    """The lowest start and the highest end per partition, over chunks in any order."""
    chunks = [
        (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 1)),
        (OffsetRange("t", 0, 0, 10),),
        (OffsetRange("u", 0, 3, 4),),
    ]
    assert window_bounds(chunks) == (
        {"t": {0: 0, 1: 0}, "u": {0: 3}},
        {"t": {0: 20, 1: 1}, "u": {0: 4}},
    )
