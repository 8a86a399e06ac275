"""Check whether anything can be written to a store, before any work is planned for it."""

from __future__ import annotations

import secrets
import tempfile

from tidegate.core import layout
from tidegate.lake.store import LocalStore, Store
from tidegate.lake.store_errors import as_lake_errors


def refuse_unwritable(store: Store) -> None:
    """Raise LakeReadOnly or LakeUnavailable if the store cannot be written; leave nothing behind.

    Of a directory that does not exist yet, the nearest one above it must be writable.
    """
    if isinstance(store, LocalStore):
        with as_lake_errors(store.url):
            above = (store.root, *store.root.parents)
            existing = next(each for each in above if each.exists())
            try:
                tempfile.TemporaryFile(dir=existing).close()
            except OSError as error:
                error.filename = str(existing)
                raise
        return
    probe = f"{layout.PROBES}{secrets.token_hex(8)}"
    store.create(probe, b"may this be written?")
    store.delete(probe)
