"""When a checkpoint of a ledger is made: each day by maintenance, and by a publish if it is due."""

from __future__ import annotations

import logging

from tidegate.errors import TidegateError
from tidegate.lake import checkpoints, placing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store

DUE = 500
"""Entries after the newest checkpoint; of 100 partitions each, opening reads them in 0.4 s."""

logger = logging.getLogger(__name__)


def make_checkpoint(store: Store, pipeline: str, ledger: Ledger) -> int:
    """Write the state of a ledger that was just read as a checkpoint. Return its size in bytes."""
    fold = ledger.fold
    unsettled = [
        *placing.unplaced_commits(store, fold),
        *placing.uncleared_replacements(store, fold),
    ]
    size = checkpoints.write_checkpoint(store, pipeline, fold, unsettled=unsettled)
    ledger.checkpoint = fold.n
    return size


def make_if_due(store: Store, pipeline: str, ledger: Ledger) -> None:
    """Make a checkpoint if the ledger was opened with DUE entries after the newest one.

    A checkpoint only saves time: if it cannot be written, no run fails.
    """
    if ledger.fold.n - ledger.checkpoint < DUE:
        return
    try:
        size = make_checkpoint(store, pipeline, ledger)
    except (TidegateError, OSError) as error:
        logger.warning("%s: no checkpoint could be written: %s", pipeline, error)
    else:
        logger.info("%s: checkpoint at entry %d, %d bytes", pipeline, ledger.fold.n, size)
