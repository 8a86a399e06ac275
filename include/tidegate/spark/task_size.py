"""The split of a window into tasks: all cores are busy to the end, and files are few."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from tidegate.core.offsets import Window

_SMALLEST = 20_000  # below this, a task costs more than a second core saves
_SLACK = 1.1  # of the busiest core's share, relative to equal shares


def records_per_task(window: Window, cores: int) -> int:
    """Return the maximum length of the range that one task reads.

    Ranges are split only until the busiest core has little more than its share.
    """
    sizes = [len(r) for r in window if len(r)]
    share = sum(sizes) / cores
    limit = max(sizes, default=1)
    for pieces in range(1, 9):
        if limit <= _SMALLEST or _busiest(sizes, limit, cores) <= share * _SLACK:
            break
        limit = max(_SMALLEST, math.ceil(share / pieces))
    return limit


def splits(window: Window, cores: int) -> list[int]:
    """Return how many records each task would read."""
    limit = records_per_task(window, cores)
    tasks = []
    for r in window:
        pieces = math.ceil(len(r) / limit)
        tasks += [len(r) * (i + 1) // pieces - len(r) * i // pieces for i in range(pieces)]
    return tasks


def _busiest(sizes: Sequence[int], limit: int, cores: int) -> float:
    """Return the records of the busiest core when tasks start in order, each on the next free one.

    Spark cuts a range longer than the limit into the fewest pieces of nearly equal length.
    """
    busy = [0.0] * cores
    for size in sizes:
        pieces = math.ceil(size / limit)
        for _ in range(pieces):
            heapq.heapreplace(busy, busy[0] + size / pieces)
    return max(busy)
