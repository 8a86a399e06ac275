"""How far the Spark step of a run is, for those who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class StepProgress(NamedTuple):
    """What a run does now, and how much of that is done.

    `records` are offsets of a topic or rows of a source, `size` bytes that were written. The totals
    are 0 where they are not known.
    """

    doing: str
    records: int = 0
    all_records: int = 0
    chunks: int = 0
    all_chunks: int = 0
    size: int = 0


OnProgress = Callable[[StepProgress], None]
