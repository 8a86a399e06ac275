"""Checkpoint: store the state of a ledger, so that it opens with few reads."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.json_codec import Document
from tidegate.lake import checkpointing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.runs.spec_protocol import Spec

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Checkpointed(Document):
    """A checkpoint at the `entry` of the ledger, for which `read` entries were read.

    `bytes` is its size, 0 if nothing was written.
    """

    format: int = FORMAT
    pipeline: str
    entry: int
    read: int
    bytes: int


def checkpoint_pipeline(spec: Spec, store: Store) -> Checkpointed:
    """Write a checkpoint of the ledger's state, unless the newest one is at its end.

    `read` counts the entries since the previous checkpoint.
    """
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    read = fold.n - ledger.checkpoint
    size = checkpointing.make_checkpoint(store, spec.name, ledger) if read else 0
    return Checkpointed(pipeline=spec.name, entry=fold.n, read=read, bytes=size)
