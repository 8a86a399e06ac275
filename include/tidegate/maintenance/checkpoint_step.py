"""Checkpoint: store the state of a ledger, so that it opens with few reads."""

from __future__ import annotations

from typing import Any

from tidegate.lake import checkpointing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.runs.spec_protocol import Spec

FORMAT = 1


def checkpoint_pipeline(spec: Spec, store: Store) -> dict[str, Any]:
    """Write a checkpoint of the ledger's state, unless the newest one is at its end.

    `read` is the number of entries read since the previous checkpoint.
    """
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    read = fold.n - ledger.checkpoint
    size = checkpointing.make_checkpoint(store, spec.name, ledger) if read else 0
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "entry": fold.n,
        "read": read,
        "bytes": size,
    }
