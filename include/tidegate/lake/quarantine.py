"""Quarantine: what lies under `data/` and is no file of a live commit is moved, never deleted."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from tidegate.core import layout
from tidegate.lake.store import Store


def directory() -> str:
    """Return a directory that nobody else uses."""
    return f"{layout.QUARANTINE}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}/"


def move(store: Store, path: str, into: str) -> int | None:
    """Move a file into a directory under the name that it has; return its size, None if gone."""
    size = store.size(path)
    if size is not None:
        store.place(path, into + path, size)
        store.delete(path)
    return size
