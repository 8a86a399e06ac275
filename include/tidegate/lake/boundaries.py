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
    """The frozen boundary of a moment, else those next to it: of an earlier and a later one."""

    frozen: Boundary | None = None
    below: Boundary | None = None
    above: Boundary | None = None

    def start(self, partition: int) -> int:
        """Return where the earlier boundary cuts a partition: the moment's cannot be before."""
        return self.below.offsets.get(partition, 0) if self.below else 0


def neighbours(store: Store, topic_id: str, moment: int) -> Neighbours:
    """Return what is frozen at or next to a moment, which is in ms since the epoch."""
    moments = _moments(store, topic_id)
    if moment in moments:
        return Neighbours(frozen=_read(store, topic_id, moment))
    earlier = [each for each in moments if each < moment]
    later = [each for each in moments if each > moment]
    return Neighbours(
        below=_read(store, topic_id, max(earlier)) if earlier else None,
        above=_read(store, topic_id, min(later)) if later else None,
    )


def freeze(store: Store, made: Boundary) -> bool:
    """Create a boundary; False if another one stands there already, which then counts."""
    data = canonical.encode({"format": FORMAT, **made.to_json()})
    return store.create(layout.boundary(made.topic_id, made.moment), data)


def _moments(store: Store, topic_id: str) -> list[int]:
    listed = store.objects(layout.boundaries(topic_id))
    names = (posixpath.basename(each.path).removesuffix(".json") for each in listed)
    return [int(name) for name in names if name.removeprefix("-").isdecimal()]  # before 1970: -


def _read(store: Store, topic_id: str, moment: int) -> Boundary:
    found = json_documents.read(store, layout.boundary(topic_id, moment), Boundary.from_json)
    assert found is not None  # it was listed, and nothing deletes it
    return found
