"""Sets of offsets as disjoint, sorted, half-open intervals that do not touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of offsets. Build it with `Intervals.of`. Operations return new sets."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> Intervals:
        """Merge any spans `[start, end)`: unsorted, overlapping, touching or empty."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if start >= end:
                continue
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        return cls(tuple(merged))

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __len__(self) -> int:
        return sum(end - start for start, end in self.spans)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.spans)

    def add(self, start: int, end: int) -> Intervals:
        """Return the union with `[start, end)`; O(log n) beside the copy."""
        if start >= end:
            return self
        low = bisect_left(self.spans, start, key=lambda span: span[1])
        high = bisect_right(self.spans, end, key=lambda span: span[0])
        if low < high:
            start = min(start, self.spans[low][0])
            end = max(end, self.spans[high - 1][1])
        return Intervals((*self.spans[:low], (start, end), *self.spans[high:]))

    def within(self, start: int, end: int) -> Intervals:
        """Return the part inside `[start, end)`."""
        low = bisect_right(self.spans, start, key=lambda span: span[1])
        high = bisect_left(self.spans, end, key=lambda span: span[0])
        return Intervals.of((max(s, start), min(e, end)) for s, e in self.spans[low:high])

    def missing(self, start: int, end: int) -> Intervals:
        """Return the part of `[start, end)` that is not in the set."""
        gaps = []
        at = start
        for s, e in self.within(start, end):
            gaps.append((at, s))
            at = e
        gaps.append((at, end))
        return Intervals.of(gaps)

    def union(self, other: Intervals) -> Intervals:
        """Return the offsets of either set."""
        return Intervals.of((*self.spans, *other.spans))

    def subtract(self, other: Intervals) -> Intervals:
        """Return the offsets of this set that are not in `other`."""
        return Intervals.of(gap for s, e in self.spans for gap in other.missing(s, e))

    def first_missing(self, at: int) -> int:
        """Return the first offset at or after `at` that is not in the set."""
        i = bisect_right(self.spans, at, key=lambda span: span[0]) - 1
        return max(at, self.spans[i][1]) if i >= 0 and self.spans[i][1] > at else at

    def next_start(self, at: int) -> int | None:
        """Return the first offset at or after `at` that is in the set, if any."""
        i = bisect_right(self.spans, at, key=lambda span: span[1])
        return max(at, self.spans[i][0]) if i < len(self.spans) else None


NOTHING = Intervals()


class OffsetSets(dict[tuple[str, int], Intervals]):
    """Sets of offsets per partition: (topic or topic id, partition). A missing key is empty."""

    def __missing__(self, key: tuple[str, int]) -> Intervals:
        return NOTHING

    def add(self, key: tuple[str, int], start: int, end: int) -> None:
        """Add `[start, end)` to a partition's set."""
        self[key] = self[key].add(start, end)
