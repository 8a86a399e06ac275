"""Boundaries: the offsets at which a timestamp cuts a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from tidegate.core.json_codec import Document, Name


@dataclass(frozen=True)
class Boundary(Document):
    """Where a moment (ms since the epoch) cuts a topic. A partition that is not named: at 0."""

    topic: str
    topic_id: str
    moment: Annotated[int, Name("timestamp")]
    offsets: Annotated[Mapping[int, int], Name("partitions")]


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
