"""Boundaries: the offsets at which a timestamp cuts a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


@dataclass(frozen=True)
class Boundary:
    """Where a moment (ms since the epoch) cuts a topic. A partition that is not named: at 0."""

    topic: str
    topic_id: str
    moment: int
    offsets: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "timestamp": self.moment,
            "partitions": {str(p): offset for p, offset in self.offsets.items()},
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Boundary:
        offsets = {int(p): int(offset) for p, offset in form["partitions"].items()}
        return cls(form["topic"], form["topic_id"], form["timestamp"], offsets)


def clamped(
    found: Mapping[int, int], below: Boundary | None, above: Boundary | None
) -> dict[int, int]:
    """Return the offsets of a new boundary: none before an earlier one's, or after a later one's.

    Without it late records, or a log that was cut meanwhile, would make boundaries cross.
    """
    low = below.offsets if below else {}
    high = above.offsets if above else None
    return {
        p: max(low.get(p, 0), offset if high is None else min(offset, high.get(p, 0)))
        for p, offset in {**low, **found}.items()
    }


def milliseconds(moment: datetime) -> int:
    """Return a moment as Kafka counts it, rounded down."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
