"""Chunking: cutting offset ranges into chunks, shared fairly between partitions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

from tidegate.core.offsets import OffsetRange, Window

NO_URGENCY: Mapping[tuple[str, int], int] = {}


def cut_chunks(
    ranges: Iterable[OffsetRange],
    max_records: int,
    urgency: Mapping[tuple[str, int], int] = NO_URGENCY,
) -> tuple[Window, ...]:
    """Cut ranges into windows of at most `max_records` offsets, shared fairly.

    A window takes small partitions whole and shares the rest among the large ones. If there is less
    than one record for each, those without one come first in the next window. Partitions with a
    lower `urgency` number come first, those without a number last. Each takes what the more urgent
    ones leave.
    """
    if max_records < 1:
        raise ValueError(f"max_records must be at least 1, not {max_records}")
    partitions: dict[tuple[str, int], deque[OffsetRange]] = {}
    for r in sorted(ranges):
        if len(r):
            partitions.setdefault((r.topic, r.partition), deque()).append(r)
    queues: dict[float, deque[deque[OffsetRange]]] = {}
    for key, each in partitions.items():
        queues.setdefault(urgency.get(key, math.inf), deque()).append(each)
    windows: list[Window] = []
    while queues:
        window: list[OffsetRange] = []
        for _, queue in sorted(queues.items()):
            window += _turn(queue, max_records - sum(map(len, window)))
        windows.append(tuple(sorted(window)))
        queues = {key: queue for key, queue in queues.items() if queue}
    return tuple(windows)


def _turn(queue: deque[deque[OffsetRange]], room: int) -> list[OffsetRange]:
    """Take at most `room` offsets off the partitions' first ranges. Requeue the rest of these."""
    turn = [queue.popleft() for _ in range(min(len(queue), room))]
    taken = []
    for partition, share in zip(turn, _fair_shares([len(p[0]) for p in turn], room), strict=True):
        r = partition.popleft()
        cut = r.start + share
        taken += r.parts([(r.start, cut)])
        if cut < r.end:
            partition.extendleft(r.parts([(cut, r.end)]))
        if partition:
            queue.append(partition)
    return taken


def _fair_shares(wants: list[int], budget: int) -> list[int]:
    """Share `budget`, at least one each: none is cut while another gets more than it wanted."""
    shares = [0] * len(wants)
    left = len(wants)
    for i in sorted(range(len(wants)), key=wants.__getitem__):
        shares[i] = min(wants[i], budget // left)
        budget -= shares[i]
        left -= 1
    return shares
