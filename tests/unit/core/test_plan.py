"""A plan's identity is its work, and canonical JSON gives it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import canonical
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut
from tidegate.core.plan import Plan

PLAN = Plan(
    pipeline="flights",
    kind="ingest",
    lane="live",
    window_date="2024-05-01",
    cluster_id="cluster",
    isolation="read_committed",
    topics={"a": "id-a", "b": "id-b"},
    chunks=((OffsetRange("a", 0, 0, 5), OffsetRange("b", 0, 1, 2)), (OffsetRange("a", 0, 5, 9),)),
    destination="file:///lake/flights",
    byte_settings={"compression": "zstd", "level": 1},
)

words = st.text(alphabet="abcä ")
json_values = st.dictionaries(
    words, st.none() | st.booleans() | st.integers() | words | st.lists(st.integers(), max_size=3)
)


def test_canonical_json_is_one_byte_sequence():
    """Keys sorted at every depth, no spaces, UTF-8 as it is."""
    value = {"b": [1, {"z": None, "a": True}], "a": "grüße"}
    assert canonical.encode(value) == '{"a":"grüße","b":[1,{"a":true,"z":null}]}'.encode()


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(words, json_values, max_size=4))
def test_canonical_json_does_not_see_the_order_of_keys(value):
    """The same mapping, written the other way round, has the same bytes."""
    turned = {key: dict(reversed(value[key].items())) for key in reversed(value)}
    assert canonical.encode(turned) == canonical.encode(value)


@pytest.mark.parametrize("bad", [1.0, [0.5], {"a": {"b": (1, float("nan"))}}, {1: "a"}, {None: 1}])
def test_canonical_json_refuses_what_has_no_one_form(bad):
    """Floats and keys that are not strings, at any depth."""
    with pytest.raises(TypeError):
        canonical.encode(bad)


def test_the_id_does_not_see_the_order_of_keys():
    """Topics and settings in another order are the same work."""
    other = replace(
        PLAN,
        topics={"b": "id-b", "a": "id-a"},
        byte_settings={"level": 1, "compression": "zstd"},
    )
    assert other.id == PLAN.id
    assert other.encoded == PLAN.encoded


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline": "other"},
        {"kind": "egress"},
        {"lane": "backfill"},
        {"window_date": "2024-05-02"},
        {"cluster_id": "another"},
        {"isolation": "read_uncommitted"},
        {"topics": {"a": "id-a", "b": "recreated"}},
        {"chunks": PLAN.chunks[:1]},
        {"chunks": PLAN.chunks[::-1]},
        {"chunks": (PLAN.chunks[0], (OffsetRange("a", 0, 5, 10),))},
        {"left_out": (LeftOut("c", None, "no such topic"),)},
        {"destination": "file:///other/flights"},
        {"byte_settings": {"compression": "zstd", "level": 2}},
        {"replay": {"id": "again", "replaces": ["x"]}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_work_is_another_plan(change):
    """Every field of a plan decides its id."""
    assert replace(PLAN, **change).id != PLAN.id


def test_a_plan_reads_back():
    """Through JSON, with what was left out and its numbers."""
    left_out = (
        LeftOut("c", 3, "expired", {"start": 1, "end": 5, "offsets": 4}),
        LeftOut("d", None, "no such topic"),
    )
    plan = replace(PLAN, left_out=left_out, replay={"id": "again", "replaces": []})
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.records == 10


def test_what_is_left_out_says_why():
    """For people: where, the reason, the numbers."""
    assert str(LeftOut("c", 3, "truncated", {"cursor": 9, "end": 5})) == (
        "c-3: truncated (cursor 9, end 5)"
    )
    unread = LeftOut("c", 3, "expired", {"start": 1463, "end": 1700, "offsets": 1})
    assert str(unread) == "c-3: expired: [1,463, 1,700), 1 offset"
    assert str(LeftOut("d", None, "no such topic")) == "d: no such topic"
