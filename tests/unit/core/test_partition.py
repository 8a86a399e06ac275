"""What stops a planned range from being read, and how exclusions are told."""

import pytest

from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut, Reason, TopicState, describe_problems, range_problem

R = OffsetRange("t", 0, 10, 60)
WHOLE = Watermarks(10, 60, 60)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (TopicState("id", {0: WHOLE}), None),
        (TopicState("id", {0: Watermarks(0, 40, 60)}), None),  # of an open transaction, as planned
        (TopicState("id", {0: Watermarks(0, 59, 59)}), "t-0: truncated (planned 60, end 59)"),
        (TopicState("id", {0: Watermarks(12, 90, 90)}), "t-0: expired: [10, 12), 2 offsets"),
        (TopicState("id", {0: Watermarks(80, 90, 90)}), "t-0: expired: [10, 60), 50 offsets"),
        (TopicState("id", {1: WHOLE}), "t-0: the partition vanished"),
        (TopicState("id", {1: WHOLE}, {0}), "t-0: no leader"),
        (TopicState("new", {0: WHOLE}), "t: the topic was recreated (was id, is new)"),
        (TopicState(), "t: no such topic (was id)"),
    ],
)
def test_a_planned_range(now: TopicState, says: str | None) -> None:
    """It is read only while the log has all of it, under the topic id that was planned."""
    found = range_problem(R, "id", now)
    assert (found and str(found)) == says


def test_exclusions_of_one_kind_are_one_sentence() -> None:
    """With the partitions; one alone has its numbers."""
    some = [
        LeftOut("t", 0, Reason.NO_LEADER),
        LeftOut("u", 4, Reason.TRUNCATED, {"cursor": 9, "end": 5}),
        LeftOut("t", 2, Reason.NO_LEADER),
    ]
    assert [says for _, says in describe_problems(some)] == [
        "t: no leader: partitions [0, 2]",
        "u-4: truncated (cursor 9, end 5)",
    ]
