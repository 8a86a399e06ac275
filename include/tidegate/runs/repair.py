"""Repair: finish what crashed publishers left, and take strangers out of `data/`."""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime
from typing import Any

from tidegate.core import layout
from tidegate.lake import publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Listed, Store, open_store
from tidegate.pipelines.spec import Ingest

FORMAT = 1

logger = logging.getLogger(__name__)


def repair(spec: Ingest) -> dict[str, Any]:
    """Place unplaced commits; move files in `data/` that no live commit lists to quarantine.

    The ledger is read and never written. A manifest that cannot be read stops it before anything
    is moved.
    """
    store = open_store(spec.lake, spec.name)
    # Listed first: a file is placed only after its commit, so what is listed here and unknown to
    # the ledger that is read next was never committed.
    listed = store.objects(layout.DATA)
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    known = {
        file.final for n in fold.live
        for file in publishing.files_of(store, fold, n)
    }  # fmt: skip
    placed = publishing.roll_forward(store, ledger)
    strangers = [each for each in listed if each.path not in known]
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "placed": placed,
        "quarantined": _quarantine(store, strangers),
    }


def _quarantine(store: Store, strangers: list[Listed]) -> list[dict[str, Any]]:
    """Move files to a directory of this repair's own, under the names that they had."""
    directory = f"{layout.QUARANTINE}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}/"
    moved = []
    for path, size in strangers:
        if store.size(path) is None:
            continue  # a replace has moved it away meanwhile
        store.place(path, directory + path)
        store.delete(path)
        logger.warning("%s: no live commit lists it; moved to quarantine", store.uri(path))
        moved.append(
            {"from": store.uri(path), "to": store.uri(directory + path), "bytes": size}
        )  # fmt: skip
    return moved
