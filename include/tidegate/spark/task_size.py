"""The division of a window into tasks: all cores are busy to the end, and files are few.

A long range has tasks, and so files, of its own. Short ranges share them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.core.offsets import OffsetRange, Window

_SMALLEST = 20_000  # below this, a task costs more than a second core saves
_MOST_RANGES = 100  # each costs a consumer: with more, a second core saves time
_MOST_GROUPS = 4  # each is planned by Spark on its own
# Of each of its ranges a task keeps the last fetch until it ends: Spark closes no reader before.
_FETCH = 1 << 20  # bytes at most, compressed: Kafka's max.partition.fetch.bytes
_MOST_FETCHED = 32 << 20
_FILE = 256 << 20  # bytes of as many records as a file has. Their size is known by it
_LEAST_RECORD = 300  # bytes: files have no more records while their size is known by a sample
WRITERS = 8
"""Files that a task writes at the same time; for as many topics Spark sorts the rows, by topic."""
_NONE: Mapping[str, str] = {}
_SLACK = 1.1  # of the busiest core's share, relative to equal shares


class Reading(NamedTuple):
    """Ranges that are read together, by so many tasks; by None, each range has its own."""

    window: Window
    tasks: int | None = None


def divide_window(
    window: Window, cores: int, most: int, options: Mapping[str, str] = _NONE
) -> list[Reading]:
    """Divide a window into long ranges, and groups of short ones that share tasks.

    `most` is the number of records of a file. The ranges of a topic are in one group: Spark divides
    those of a group among its tasks in an order of its own, and each task writes a file for each of
    its topics. Rows that Spark sorts by topic may leave the order of their offsets: files that a
    topic is cut into would overlap. So a topic of more than `most` records is in a group of so few
    topics that nothing is sorted. With `minPartitions` or `maxRecordsPerPartition` among the
    options of Spark's source, no range shares a task.

    A task that many ranges share has what one core does, and no more than it can keep in memory.
    """
    short = sorted(r for r in window if 0 < len(r) < _SMALLEST)
    if len(short) < 2 or {"minPartitions", "maxRecordsPerPartition"} & options.keys():
        return [Reading(window)]
    long = tuple(r for r in window if len(r) >= _SMALLEST)
    pieces = max(sum(map(len, short)) / _SMALLEST, len(short) / _MOST_RANGES)
    record = max(_FILE // most, _LEAST_RECORD)
    fetched = sum(min(len(r) * record, _FETCH) for r in short)
    tasks = max(min(cores, math.ceil(pieces)), math.ceil(fetched / _MOST_FETCHED))
    number = min(tasks, _MOST_GROUPS)
    records: Counter[str] = Counter()
    for r in short:
        records[r.topic] += len(r)
    cut = [topic for topic, n in records.items() if n > most]
    group_of = {topic: number + i // (WRITERS - 1) for i, topic in enumerate(cut)}
    groups: dict[int, list[OffsetRange]] = {}
    for i, r in enumerate(short):
        group = group_of.setdefault(r.topic, i * number // len(short))
        groups.setdefault(group, []).append(r)
    return [
        *([Reading(long)] if long else []),
        *(
            Reading(tuple(ranges), max(1, round(tasks * len(ranges) / len(short))))
            for ranges in groups.values()
        ),
    ]


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


def count_tasks(window: Window, limit: int) -> int:
    """Return how many tasks read a window, each at most `limit` records."""
    return _pieces([len(r) for r in window], limit)


def count_splits(
    window: Window, cores: int, most: int, options: Mapping[str, str] = _NONE
) -> list[tuple[int, int]]:
    """Return how many tasks there would be of which number of records, as pairs."""
    found = []
    for reading in divide_window(window, cores, most, options):
        if reading.tasks:
            found += _shares(sum(map(len, reading.window)), reading.tasks)
            continue
        limit = records_per_task(reading.window, cores, options)
        for size in filter(None, map(len, reading.window)):
            found += _shares(size, -(-size // limit))
    return [each for each in found if each[0]]


def count_files(window: Window, cores: int, most: int, options: Mapping[str, str] = _NONE) -> int:
    """Return how many files of at most so many records there would be, or a few more."""
    found = 0
    for reading in divide_window(window, cores, most, options):
        if not reading.tasks:
            tasks = count_splits(reading.window, cores, most, options)
            found += sum(number * math.ceil(records / most) for number, records in tasks)
            continue
        ranges = Counter(r.topic for r in reading.window)
        for topic, number in ranges.items():
            records = sum(len(r) for r in reading.window if r.topic == topic)
            found += max(math.ceil(records / most), min(number, reading.tasks))
    return found


def _shares(records: int, tasks: int) -> list[tuple[int, int]]:
    larger = records % tasks
    return [(tasks - larger, records // tasks), (larger, records // tasks + 1)]


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
