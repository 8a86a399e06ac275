"""Frozen boundaries: where a moment cuts a topic, decided once for all who ask."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from tidegate.core import canonical, layout
from tidegate.core.windows import Boundary, clamped
from tidegate.lake import documents
from tidegate.lake.store import Store

FORMAT = 1


def boundary(
    store: Store, topic: str, topic_id: str, moment: int, found: Mapping[int, int]
) -> Boundary:
    """Return the frozen boundary of a moment, or what it would be: `found`, between neighbours.

    Writes nothing. `moment` is in ms since the epoch and must have passed.
    """
    frozen = _moments(store, topic_id)
    if moment in frozen:
        return _read(store, topic_id, moment)
    earlier = [each for each in frozen if each < moment]
    later = [each for each in frozen if each > moment]
    below = _read(store, topic_id, max(earlier)) if earlier else None
    above = _read(store, topic_id, min(later)) if later else None
    return Boundary(topic, topic_id, moment, clamped(found, below, above))


def freeze(store: Store, made: Boundary) -> bool:
    """Create a boundary; False if another one stands there already, which then counts."""
    data = canonical.encode({"format": FORMAT, **made.to_json()})
    return store.create(layout.boundary(made.topic_id, made.moment), data)


def _moments(store: Store, topic_id: str) -> list[int]:
    listed = store.objects(layout.boundaries(topic_id))
    names = (posixpath.basename(each.path).removesuffix(".json") for each in listed)
    return [int(name) for name in names if name.isdecimal()]


def _read(store: Store, topic_id: str, moment: int) -> Boundary:
    found = documents.read(store, layout.boundary(topic_id, moment), Boundary.from_json)
    assert found is not None  # it was listed, and nothing deletes it
    return found
