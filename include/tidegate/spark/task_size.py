"""The split of a window into tasks: all cores are busy to the end, and files are few."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from tidegate.core.offsets import Window

_SMALLEST = 20_000  # below this, a task costs more than a second core saves
_NONE: Mapping[str, str] = {}
_SLACK = 1.1  # of the busiest core's share, relative to equal shares


def records_per_task(window: Window, cores: int, options: Mapping[str, str] = _NONE) -> int:
    """Return the maximum length of the range that one task reads.

    Ranges are split only until the busiest core has little more than its share, unless the options
    of Spark's source, by their names, say otherwise: `maxRecordsPerPartition` and `minPartitions`.
    """
    sizes = [len(r) for r in window if len(r)]
    given = options.get("maxRecordsPerPartition")
    limit = int(given) if given else _by_cores(sizes, cores)
    least = int(options.get("minPartitions", 0))
    if _pieces(sizes, limit) >= least:
        return limit
    low, high = 1, limit  # the greatest limit with so many tasks, if there is one
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _pieces(sizes, middle) >= least else (low, middle)
    return low


def tasks(window: Window, limit: int) -> int:
    """Return how many tasks read a window, each at most `limit` records."""
    return _pieces([len(r) for r in window], limit)


def splits(window: Window, cores: int, options: Mapping[str, str] = _NONE) -> list[tuple[int, int]]:
    """Return how many tasks there would be of which number of records, as pairs."""
    limit = records_per_task(window, cores, options)
    tasks = []
    for size in filter(None, map(len, window)):
        pieces = -(-size // limit)
        larger = size % pieces
        tasks += [(pieces - larger, size // pieces), (larger, size // pieces + 1)]
    return [each for each in tasks if each[0]]


def _by_cores(sizes: Sequence[int], cores: int) -> int:
    share = sum(sizes) / cores
    limit = max(sizes, default=1)
    for pieces in range(1, 9):
        if limit <= _SMALLEST or _busiest(sizes, limit, cores) <= share * _SLACK:
            break
        limit = max(_SMALLEST, math.ceil(share / pieces))
    return limit


def _pieces(sizes: Sequence[int], limit: int) -> int:
    return sum(-(-size // limit) for size in sizes)


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
