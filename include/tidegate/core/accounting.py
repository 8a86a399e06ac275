"""Accounting: whether an attempt holds exactly the rows of its window.

Per partition, `end - start = rows + invisible`. A *hole* is a range of offsets without a row.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tidegate.core.files import Contents, LakeFile
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.offsets import OffsetRange


def collect_offsets(
    window: Iterable[OffsetRange], staged: Iterable[tuple[LakeFile, Contents]]
) -> tuple[OffsetSets, list[str]]:
    """Return all offsets of an attempt's files by (topic, partition), and what is wrong.

    Wrong are rows of partitions that were not planned, offsets outside of the ranges, and an offset
    that two files have.
    """
    wrong = []
    ranges = {(r.topic, r.partition): r for r in window}
    spans: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for file, contents in staged:
        for part in contents.parts:
            key = file.topic, part.partition
            r = ranges.get(key)
            if r is None:
                wrong.append(f"{file.path}: {file.topic}-{part.partition} is not in the plan")
            elif part.first < r.start or part.last >= r.end:
                wrong.append(
                    f"{file.path}: offsets {part.first} to {part.last} are outside {r}"
                )  # fmt: skip
            spans.setdefault(key, []).extend(
                (start, end, file.path) for start, end in contents.offsets[part.partition]
            )
    for (topic, partition), each in spans.items():
        wrong += [
            f"{b_path}: offset {start} of {topic}-{partition} is in another file, too, {a_path}"
            for (_, end, a_path), (start, _, b_path) in pairwise(sorted(each))
            if start < end
        ][:1]
    found = {key: Intervals.of((a, b) for a, b, _ in each) for key, each in spans.items()}
    return OffsetSets(found), wrong


def find_holes(
    window: Iterable[OffsetRange], found: OffsetSets
) -> dict[OffsetRange, list[OffsetRange]]:
    """Return the holes of each range that has any, by the offsets of its rows."""
    missing = {
        r: r.parts(found[r.topic, r.partition].missing(r.start, r.end))
        for r in window
        if len(found[r.topic, r.partition]) < len(r)
    }
    return {r: each for r, each in missing.items() if each}


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


def has_expired_part(hole: OffsetRange, log_start: int) -> bool:
    """Return whether a part of a hole is below the log start: it cannot be proven empty."""
    return hole.start < min(hole.end, log_start)
