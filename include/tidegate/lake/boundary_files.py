"""Frozen boundaries: the offsets at which a timestamp cuts a topic, decided once."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from tidegate.core import canonical, layout
from tidegate.core.boundaries import Boundary
from tidegate.core.canonical import FORMAT
from tidegate.errors import LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.store_protocol import Store

MOST_TRIES = 10
"""How often a plan is drafted again because another process has frozen a boundary first."""


@dataclass(frozen=True)
class Neighbours:
    """The frozen boundary of a timestamp, else those of the timestamps before and after it."""

    frozen: Boundary | None = None
    below: Boundary | None = None
    above: Boundary | None = None

    def start(self, partition: int) -> int:
        """Return the offset of the earlier boundary: that of the timestamp cannot be lower."""
        return self.below.offsets.get(partition, 0) if self.below else 0


def neighbouring_boundaries(store: Store, topic_id: str, timestamp: int) -> Neighbours:
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


def freeze_boundary(store: Store, made: Boundary) -> bool:
    """Create a boundary. False if another one stands there already, which then counts."""
    # Two that are frozen at the same time do not see each other and may cross: then one window is
    # empty and two overlap. Each offset is still once in the lake, and none is left out.
    data = canonical.encode({"format": FORMAT, **made.to_json()})
    path = layout.boundary(made.topic_id, made.moment)
    # By its meaning: a copy that was restored, or a later release, may have other bytes.
    return store.create(path, data) or _read(store, made.topic_id, made.moment) == made


def _timestamps(store: Store, topic_id: str) -> list[int]:
    listed = store.objects(layout.boundaries(topic_id))
    names = (posixpath.basename(each.path).removesuffix(".json") for each in listed)
    return [int(name) for name in names if name.removeprefix("-").isdecimal()]  # before 1970: -


def _read(store: Store, topic_id: str, timestamp: int) -> Boundary:
    path = layout.boundary(topic_id, timestamp)
    found = json_documents.read_document(store, path, Boundary.from_json)
    if found is None or (found.topic_id, found.moment) != (topic_id, timestamp):
        state = "is gone" if found is None else f"is that of {found.topic_id} at {found.moment}"
        raise LakeDamaged(f"{store.uri(path)} {state}; restore it from a copy")
    return found
