"""How far the timestamps of records may be from the clock, by the settings of a topic."""

import pytest

from tidegate.broker.target import _time_limits
from tidegate.core.cluster_answers import TimeLimits

MAX = "message.timestamp.{}.max.ms"
NONE = str(2**63 - 1)


@pytest.mark.parametrize(
    ("config", "limits"),
    [
        ({}, TimeLimits()),
        ({MAX.format("before"): NONE, MAX.format("after"): "3600000"}, TimeLimits(None, 3_600_000)),
        ({MAX.format("before"): "5", MAX.format("after"): str(2**63 - 2)}, TimeLimits(5)),
        ({MAX.format("difference"): "7"}, TimeLimits(7, 7)),
        ({MAX.format("difference"): "7", MAX.format("before"): NONE}, TimeLimits(7, 7)),
        ({"retention.ms": "9", "cleanup.policy": "delete"}, TimeLimits(None, None, 9)),
        ({"retention.ms": "9", "cleanup.policy": "compact,delete"}, TimeLimits(None, None, 9)),
        ({"retention.ms": "9", "cleanup.policy": "compact"}, TimeLimits()),
        ({"retention.ms": "-1", "cleanup.policy": "delete"}, TimeLimits()),
    ],
)
def test_what_a_topic_takes(config: dict[str, str], limits: TimeLimits) -> None:
    assert _time_limits(config) == limits
