"""Boundaries: the offsets at which a timestamp cuts a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from tidegate.core.json_codec import Document, Name


@dataclass(frozen=True)
class Boundary(Document):
    """The offset per partition at a timestamp (ms since the epoch). Missing partitions are at 0."""

    topic: str
    topic_id: str
    moment: Annotated[int, Name("timestamp")]
    offsets: Annotated[Mapping[int, int], Name("partitions")]


def clamp_boundary(
    offsets: Mapping[int, int], below: Boundary | None, above: Boundary | None
) -> dict[int, int]:
    """Return a new boundary's offsets, limited by those of an earlier and a later boundary.

    Unlimited, late records or a log that was truncated meanwhile would make boundaries cross.
    """
    low = below.offsets if below else {}
    high = above.offsets if above else None
    return {
        p: max(low.get(p, 0), offset if high is None else min(offset, high.get(p, 0)))
        for p, offset in {**low, **offsets}.items()
    }


def to_milliseconds(moment: datetime) -> int:
    """Return a time as ms since the epoch, rounded down."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
