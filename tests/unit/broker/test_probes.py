"""Probes of holes, with a simulated consumer and clock."""

from typing import Any

import pytest
from kafka import TopicPartition

from tidegate.broker import consumer as module
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError

HOLE = OffsetRange("t", 0, 100, 5_000_100)


class Consumer:
    """Passes `step` offsets without a record in each poll, up to `stops`; a poll takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int, stops: int) -> None:
        self.now, self.at, self.step, self.stops = 0.0, 0, step, stops
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [TopicPartition("t", 0)]

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    def poll(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        self.now += 1
        self.at = min(self.at + self.step, self.stops)
        return {}

    def position(self, _: TopicPartition) -> int:
        return self.at


def test_a_large_hole_is_read_while_there_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted transaction of five million records, of which a second passes 10,000."""
    consumer = Consumer(monkeypatch, 10_000, HOLE.end)
    found = module._probe_one(consumer, HOLE, 10.0)
    assert (found.outcome, consumer.now) == ("empty", 500)


def test_a_probe_without_progress_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds after the last progress, with the offset at which it stands."""
    consumer = Consumer(monkeypatch, 10_000, 200_100)
    with pytest.raises(BrokerError, match="no progress past offset 200100 in 10 s") as failed:
        module._probe_one(consumer, HOLE, 10.0)
    assert (failed.value.numbers, consumer.now) == ({"position": 200_100}, 30)
