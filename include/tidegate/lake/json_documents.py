"""JSON objects of the lake: read as a whole, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tidegate.core.json_codec import MALFORMED
from tidegate.errors import LakeDamaged
from tidegate.lake.store import Store

T = TypeVar("T")


def read(store: Store, path: str, read_form: Callable[[Any], T]) -> T | None:
    """Return what an object says; None where there is none, LakeDamaged if it makes no sense."""
    data = store.get(path)
    if data is None:
        return None
    try:
        return read_form(json.loads(data))
    except MALFORMED as error:
        raise LakeDamaged(
            f"{store.uri(path)} cannot be read: {error!r}; restore it from a copy"
        ) from None
