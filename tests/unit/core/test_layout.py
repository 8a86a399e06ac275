"""Names in the lake: round trips, lengths, and nothing that leads out of it."""

import posixpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import layout
from tidegate.core.layout import DataFile

PLAN = "0123456789abcdef"

topics = st.text(
    alphabet="abcXYZ019._-", min_size=1, max_size=20
).filter(lambda topic: topic not in (".", "..")) | st.sampled_from(
    ["a" * 249, "-" * 249, "0-" * 124, ".a", "_a", "x-00001-0000000000000000001"]
)  # fmt: skip
offset = st.integers(0, 2**63 - 1)


def test_a_data_file_has_the_name_of_the_contract():
    """Offsets inclusive, padded so that names sort as numbers do."""
    file = DataFile("flights", "2024-05-01", 3, 7, 1200, PLAN)
    assert file.path == (
        "data/topic=flights/window_date=2024-05-01/"
        "part-flights-00003-0000000000000000007-0000000000000001200-0123456789abcdef.parquet"
    )


@settings(max_examples=150, deadline=None)
@given(topics, st.integers(0, 2**31 - 1), offset, offset, st.integers(0, 9999))
def test_a_name_reads_back(topic, partition, first, last, k):
    """Any topic, partition and offsets Kafka can have; 255 bytes are enough for the name."""
    file = DataFile(topic, "2024-05-01", partition, first, last, PLAN, k)
    assert DataFile.parse(file.path) == file
    assert all(len(part.encode()) <= 255 for part in file.path.split("/"))


def test_two_long_topics_never_meet():
    """Their names are shortened, but differ."""
    one, other = "a" * 248 + "b", "a" * 248 + "c"
    names = {
        posixpath.basename(DataFile(t, "2024-05-01", 0, 0, 1, PLAN).path) for t in (one, other)
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    "topic",
    ["", ".", "..", "../x", "a/b", "/a", "a\n", "a\0", "a b", "%2e", "ä", "~", "a" * 250],
)
def test_a_topic_that_kafka_would_not_have_names_no_file(topic):
    """No topic leads out of its directory."""
    with pytest.raises(ValueError):
        DataFile(topic, "2024-05-01", 0, 0, 1, PLAN)


GOOD = DataFile("t", "2024-05-01", 0, 0, 1, PLAN).path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../" + GOOD,
        "/" + GOOD,
        GOOD + "\n",
        GOOD.replace("topic=t/", "topic=../"),
        GOOD.replace("topic=t/", "topic=u/"),
        GOOD.replace("/part-t-", "/part-t-x-"),
        GOOD.replace("/part-t-", "/t-"),
        GOOD.replace(".parquet", "-0.parquet"),
        GOOD.replace("-00000-", "-000000-"),
        GOOD.replace("-00000-", "-0000\u0660-"),
        GOOD.replace("data/", "data/../data/"),
        GOOD.replace(PLAN, PLAN.upper()),
    ],
)
def test_only_our_own_names_are_read(path):
    """What `path` would not have made is no data file."""
    with pytest.raises(ValueError):
        DataFile.parse(path)


def test_numbered_names_sort_as_numbers():
    """Listings of entries and markers come in the order of the ledger."""
    assert layout.entry(9) < layout.entry(10) < layout.entry(10**19)
    assert layout.placed(9) < layout.placed(10)
