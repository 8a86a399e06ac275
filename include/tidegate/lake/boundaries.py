"""Frozen boundaries: the offsets at which a timestamp cuts a topic, decided once."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from tidegate.core import canonical, layout
from tidegate.core.boundaries import Boundary
from tidegate.lake import json_documents
from tidegate.lake.store import Store

FORMAT = 1


@dataclass(frozen=True)
class Neighbours:
    """The frozen boundary of a timestamp, else those of the timestamps before and after it."""

    frozen: Boundary | None = None
    below: Boundary | None = None
    above: Boundary | None = None

    def start(self, partition: int) -> int:
        """Return the offset of the earlier boundary: that of the timestamp cannot be lower."""
        return self.below.offsets.get(partition, 0) if self.below else 0


def neighbours(store: Store, topic_id: str, timestamp: int) -> Neighbours:
    """Return the boundaries that are frozen at or next to a timestamp (ms since the epoch)."""
    frozen = _timestamps(store, topic_id)
    if timestamp in frozen:
        return Neighbours(frozen=_read(store, topic_id, timestamp))
    earlier = [each for each in frozen if each < timestamp]
    later = [each for each in frozen if each > timestamp]
    return Neighbours(
        below=_read(store, topic_id, max(earlier)) if earlier else None,
        above=_read(store, topic_id, min(later)) if later else None,
    )


def freeze(store: Store, made: Boundary) -> bool:
    """Create a boundary; False if another one stands there already, which then counts."""
    data = canonical.encode({"format": FORMAT, **made.to_json()})
    return store.create(layout.boundary(made.topic_id, made.moment), data)


def _timestamps(store: Store, topic_id: str) -> list[int]:
    listed = store.objects(layout.boundaries(topic_id))
    names = (posixpath.basename(each.path).removesuffix(".json") for each in listed)
    return [int(name) for name in names if name.removeprefix("-").isdecimal()]  # before 1970: -


def _read(store: Store, topic_id: str, timestamp: int) -> Boundary:
    found = json_documents.read(store, layout.boundary(topic_id, timestamp), Boundary.from_json)
    assert found is not None  # it was listed, and nothing deletes it
    return found
