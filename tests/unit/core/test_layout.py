"""Names in the lake: round trips, lengths, and nothing that leads out of it."""

import posixpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import layout
from tidegate.core.files import Part, final_name

PLAN = "0123456789abcdef"

topics = st.text(
    alphabet="abcXYZ019._-", min_size=1, max_size=20
).filter(lambda topic: topic not in (".", "..")) | st.sampled_from(
    ["a" * 249, "-" * 249, "0-" * 124, ".a", "_a", "x-00001-0000000000000000001"]
)  # fmt: skip
offset = st.integers(0, 2**63 - 1)


def test_a_data_file_has_the_name_of_the_contract():
    """Offsets inclusive, padded so that names sort as numbers do; the first part names it."""
    parts = (Part(3, 7, 1200, 9), Part(4, 0, 5, 6))
    directory = "data/topic=flights/window_date=2024-05-01/part-flights-"
    assert final_name("flights", ["window_date=2024-05-01"], parts[:1], PLAN) == (
        f"{directory}00003-0000000000000000007-0000000000000001200-0123456789abcdef.parquet"
    )
    assert final_name("flights", ["window_date=2024-05-01"], parts, PLAN) == (
        f"{directory}shared-00003-0000000000000000007-0123456789abcdef.parquet"
    )


@settings(max_examples=150, deadline=None)
@given(topics, st.integers(0, 2**31 - 1), offset, offset, st.booleans())
def test_a_name_fits(topic, partition, first, last, is_shared):
    """Any topic, partition and offsets Kafka can have; 255 bytes are enough for the name."""
    parts = [Part(partition, first, last, 1)] * (1 + is_shared)
    path = final_name(topic, ["window_date=2024-05-01"], parts, PLAN)
    assert layout.window_date(path) == "2024-05-01"
    assert all(len(part.encode()) <= 255 for part in path.split("/"))


def test_two_long_topics_never_meet():
    """Their names are shortened, but differ."""
    one, other = "a" * 248 + "b", "a" * 248 + "c"
    names = {posixpath.basename(layout.data_file(t, [], "x")) for t in (one, other)}
    assert len(names) == 2


@pytest.mark.parametrize(
    "topic",
    ["", ".", "..", "../x", "a/b", "/a", "a\n", "a\0", "a b", "%2e", "ä", "~", "a" * 250],
)
def test_a_topic_that_kafka_would_not_have_names_no_file(topic):
    """No topic leads out of its directory."""
    with pytest.raises(ValueError):
        layout.data_file(topic, [], "x")


def test_numbered_names_sort_as_numbers():
    """Listings of entries and markers come in the order of the ledger."""
    assert layout.entry(9) < layout.entry(10) < layout.entry(10**19)
    assert layout.placed(9) < layout.placed(10)
