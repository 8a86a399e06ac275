"""What a data file holds: the rows of one topic, of one partition or of several.

Every question about what a file covers is answered here: its parts, its name, whether it holds
an offset, and which offsets of a commit it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, Self

from tidegate.core import layout
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Document
from tidegate.core.offsets import OffsetRange


class Part(NamedTuple):
    """The rows of one partition in a file: offsets `first` to `last`, both inclusive."""

    partition: int
    first: int
    last: int
    rows: int

    def overlaps(self, spans: Mapping[int, tuple[int, int]]) -> bool:
        """Return whether it has offsets in the span `[start, end)` of its partition."""
        start, end = spans.get(self.partition, (0, 0))
        return self.first < end and start <= self.last


@dataclass(frozen=True)
class Contents:
    """The offsets of a file's rows, by partition.

    `ascending`: the rows of each partition are next to each other, in the order of their offsets.
    """

    offsets: Mapping[int, Intervals]
    ascending: bool

    @classmethod
    def of(cls, runs: Sequence[tuple[int, int, int]]) -> Self:
        """Return the contents of consecutive rows (partition, first offset, last), in file order.

        ValueError for an offset that occurs twice.
        """
        spans: dict[int, list[tuple[int, int]]] = {}
        for partition, first, last in runs:
            spans.setdefault(partition, []).append((first, last + 1))
        offsets = {p: Intervals.of(each) for p, each in sorted(spans.items())}
        for p, each in spans.items():
            if sum(end - start for start, end in each) != len(offsets[p]):
                ordered = sorted(each)
                twice = next(b[0] for a, b in pairwise(ordered) if b[0] < a[1])
                raise ValueError(f"offset {twice} of partition {p} occurs twice")
        together = len(list(groupby(runs, key=lambda run: run[0]))) == len(spans)
        in_order = all(each == sorted(each) for each in spans.values())
        return cls(offsets, together and in_order)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(
            Part(p, each.spans[0][0], each.spans[-1][1] - 1, len(each))
            for p, each in self.offsets.items()
        )

    @property
    def rows(self) -> int:
        return sum(map(len, self.offsets.values()))


@dataclass(frozen=True)
class LakeFile(Document):
    """A data file: what it holds, where it was staged (`path`), and its name under `data/`.

    `digest` is the SHA-256 of its Parquet footer. `parts` are sorted by partition; at least one.
    """

    topic: str
    parts: tuple[Part, ...]
    ascending: bool
    size: int
    digest: str
    path: str
    final: str

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def window_date(self) -> str | None:
        """The date in its path, as YYYY-MM-DD, if there is one."""
        return layout.window_date(self.final)

    @property
    def order(self) -> tuple[str, Part]:
        """What the files of an attempt are sorted by."""
        return self.topic, self.parts[0]

    @property
    def any_offset(self) -> tuple[int, int]:
        """The partition and offset of one of its rows: what holds for it holds for the file,
        because commits replace whole files.
        """
        return self.parts[0].partition, self.parts[0].first

    def overlaps(self, spans: Mapping[int, tuple[int, int]]) -> bool:
        """Return whether a part has offsets in the span `[start, end)` of its partition."""
        return any(part.overlaps(spans) for part in self.parts)

    def stands_in(self, r: OffsetRange) -> bool:
        """Return whether the file is one of those that stand for a range of whole files."""
        partition, offset = self.any_offset
        return (self.topic, partition) == (r.topic, r.partition) and r.start <= offset < r.end


def final_name(topic: str, directories: Iterable[str], parts: Sequence[Part], plan_id: str) -> str:
    """Return the path of a data file, by its directories below that of the topic.

    No other file of the plan has the offset that it names.
    """
    first = parts[0]
    numbers = f"{first.partition:05d}-{first.first:019d}"
    return layout.data_file(
        topic,
        directories,
        f"{numbers}-{first.last:019d}-{plan_id}" if len(parts) == 1
        else f"shared-{numbers}-{plan_id}",
    )  # fmt: skip


def rows_by_partition(files: Iterable[LakeFile]) -> dict[tuple[str, int], int]:
    """Count the rows of files per (topic, partition)."""
    rows: dict[tuple[str, int], int] = {}
    for file in files:
        for part in file.parts:
            key = file.topic, part.partition
            rows[key] = rows.get(key, 0) + part.rows
    return rows


@dataclass(frozen=True, order=True, slots=True)
class Tile:
    """The offsets of commit `n` that files stand for in a partition.

    `files` are their final names: one, whose offsets go on to the next file's first, or all that
    the commit has of the topic, where these have offsets between one another's. None for a range
    without a row.
    """

    range: OffsetRange
    n: int
    files: tuple[str, ...] = ()


def tiles_of(n: int, ranges: Iterable[OffsetRange], files: Iterable[LakeFile]) -> list[Tile]:
    """Cut a commit's ranges at the first offsets of its files' parts.

    Ranges of a topic are not cut if its files have offsets between one another's: such files are
    replaced together.
    """
    by_partition: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    by_topic: dict[str, set[str]] = {}
    for file in files:
        by_topic.setdefault(file.topic, set()).add(file.final)
        for part in file.parts:
            key = file.topic, part.partition
            by_partition.setdefault(key, []).append((part.first, part.last, file.final))
    mixed = {
        topic
        for (topic, _), each in by_partition.items()
        if any(a[1] > b[0] for a, b in pairwise(sorted(each)))
    }
    tiles = []
    for r in ranges:
        if r.topic in mixed:
            tiles.append(Tile(r, n, tuple(sorted(by_topic[r.topic]))))
            continue
        starts = sorted(by_partition.get((r.topic, r.partition), ()))
        cuts = [r.start, *(first for first, *_ in starts[1:]), r.end]
        names: list[tuple[str, ...]] = [(final,) for *_, final in starts] or [()]
        parts = r.parts(pairwise(cuts))
        tiles += [Tile(part, n, name) for part, name in zip(parts, names, strict=True)]
    return tiles
