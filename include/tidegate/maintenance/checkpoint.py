"""Checkpoint: let the next opening of a ledger be quick."""

from __future__ import annotations

from typing import Any

from tidegate.lake import checkpoints, placing
from tidegate.lake.ledger import Ledger
from tidegate.lake.placing import recent_replacements
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Spec

FORMAT = 1


def checkpoint(spec: Spec) -> dict[str, Any]:
    """Write down what the ledger adds up to; nothing if the newest checkpoint is at its end.

    `read` counts the entries that had to be read for it.
    """
    store = open_store(spec.lake, spec.name)
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    read = fold.n - ledger.checkpoint
    size = 0
    if read:
        waiting = [*placing.unplaced(store, fold), *recent_replacements(store, fold)]
        size = checkpoints.write(store, spec.name, fold, waiting=waiting)
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "entry": fold.n,
        "read": read,
        "bytes": size,
    }
