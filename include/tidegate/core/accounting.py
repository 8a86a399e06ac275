"""Accounting: whether an attempt holds exactly the rows of its window.

Per partition, `end - start = rows + invisible`. A *hole* is a range of offsets without a row.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.offsets import OffsetRange, Window


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file of an attempt by its footer: offsets `first` to `last`, both inclusive."""

    path: str
    size: int
    digest: str
    topic: str
    partition: int
    first: int
    last: int
    rows: int


def complaints(window: Window, files: Iterable[StagedFile]) -> list[str]:
    """Name files of unplanned partitions, offsets outside the ranges, and overlapping files."""
    wrong = []
    ranges = {(r.topic, r.partition): r for r in window}
    ends: dict[tuple[str, int], int] = {}
    for f in sorted(files, key=lambda f: (f.topic, f.partition, f.first)):
        r = ranges.get((f.topic, f.partition))
        if r is None:
            wrong.append(f"{f.path}: {f.topic}-{f.partition} is not in the plan")
        elif f.first < r.start or f.last >= r.end:
            wrong.append(f"{f.path}: offsets {f.first} to {f.last} are outside {r}")
        if f.rows > f.last - f.first + 1:
            wrong.append(f"{f.path}: {f.rows} rows for offsets {f.first} to {f.last}")
        if f.first < ends.get((f.topic, f.partition), 0):
            wrong.append(f"{f.path}: offset {f.first} is also in another file of the attempt")
        ends[f.topic, f.partition] = f.last + 1
    return wrong


def rows_by_partition(files: Iterable[StagedFile]) -> dict[tuple[str, int], int]:
    """Count the rows of an attempt's files per (topic, partition)."""
    rows: dict[tuple[str, int], int] = {}
    for f in files:
        rows[f.topic, f.partition] = rows.get((f.topic, f.partition), 0) + f.rows
    return rows


def short_ranges(window: Window, rows: Mapping[tuple[str, int], int]) -> list[OffsetRange]:
    """Return the ranges that have holes: fewer rows than offsets."""
    return [r for r in window if rows.get((r.topic, r.partition), 0) < len(r)]


def holes(r: OffsetRange, offsets: Sequence[int]) -> list[OffsetRange]:
    """Return the holes of a range, by its rows' sorted offsets; ValueError for a repeated one."""
    spans = []
    at = r.start
    for offset in offsets:
        if offset < at:
            raise ValueError(f"offset {offset} of {r.topic}-{r.partition} stands twice")
        if offset > at:
            spans.append((at, offset))
        at = offset + 1
    if at < r.end:
        spans.append((at, r.end))
    return r.parts(spans)


def choose_probes(
    candidates: Sequence[OffsetRange], bound: int, seed: str
) -> tuple[OffsetRange, ...]:
    """Choose at most `bound` holes to probe: the longest half first, then a seeded sample."""
    if len(candidates) <= bound:
        return tuple(candidates)
    by_length = sorted(candidates, key=lambda hole: (-len(hole), hole))
    longest = (bound + 1) // 2
    sample = random.Random(seed).sample(by_length[longest:], bound - longest)
    return (*by_length[:longest], *sorted(sample))


def expired_part(hole: OffsetRange, log_start: int) -> bool:
    """Return whether a part of a hole is below the log start: it cannot be proven empty."""
    return hole.start < min(hole.end, log_start)
