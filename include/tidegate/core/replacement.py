"""Replacement: the committed files that a re-ingest replaces, and the offsets they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from tidegate.core.accounting import StagedFile
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.json_codec import Form
from tidegate.core.offsets import OffsetRange, Window


class Replaced(NamedTuple):
    """A range of whole files of an earlier commit that a later commit replaces."""

    commit: int
    range: OffsetRange


def replaces_to_json(replaces: Iterable[Replaced]) -> list[dict[str, Any]]:
    """Return one object per commit: `{"commit": 7, "ranges": {"t": {"0": [[0, 500]]}}}`."""
    forms: dict[int, dict[str, dict[str, list[list[int]]]]] = {}
    for n, r in replaces:
        partitions = forms.setdefault(n, {}).setdefault(r.topic, {})
        partitions.setdefault(str(r.partition), []).append([r.start, r.end])
    return [{"commit": n, "ranges": ranges} for n, ranges in sorted(forms.items())]


def replaces_from_json(forms: Iterable[Mapping[str, Any]]) -> tuple[Replaced, ...]:
    """Return the parts that `replaces_to_json` has written."""
    return tuple(
        Replaced(form["commit"], OffsetRange(topic, int(p), start, end))
        for form in forms
        for topic, partitions in form["ranges"].items()
        for p, spans in partitions.items()
        for start, end in spans
    )


Replaces = Annotated[tuple[Replaced, ...], Form(replaces_to_json, replaces_from_json)]


@dataclass(frozen=True, order=True, slots=True)
class Tile:
    """The offsets of commit `n` that a file stands for: up to the next file's first row.

    `file` is the file's final name; None for a range of the commit without a row.
    """

    range: OffsetRange
    n: int
    file: str | None


def tiles_of(
    n: int, ranges: Iterable[OffsetRange], files: Iterable[tuple[StagedFile, str]]
) -> list[Tile]:
    """Cut a commit's ranges at its files, each given with its final name."""
    by_partition: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for staged, final in files:
        by_partition.setdefault((staged.topic, staged.partition), []).append((staged.first, final))
    tiles = []
    for r in ranges:
        starts = sorted(by_partition.get((r.topic, r.partition), ()))
        cuts = [r.start, *(first for first, _ in starts[1:]), r.end]
        names: list[str | None] = [final for _, final in starts] or [None]
        parts = r.parts(pairwise(cuts))
        tiles += [Tile(part, n, name) for part, name in zip(parts, names, strict=True)]
    return tiles


def select_tiles(
    window: Sequence[OffsetRange], tiles: Iterable[Tile], complaints: list[str]
) -> list[Tile]:
    """Return the tiles of a window, sorted; add complaints unless they are exactly the window."""
    selected = []
    by_partition: dict[tuple[str, int], list[Tile]] = {}
    for tile in sorted(tiles):
        by_partition.setdefault((tile.range.topic, tile.range.partition), []).append(tile)
    for r in (r for r in window if len(r)):
        overlapping = [
            tile
            for tile in by_partition.get((r.topic, r.partition), ())
            if tile.range.start < r.end and r.start < tile.range.end
        ]
        covered = Intervals.of((tile.range.start, tile.range.end) for tile in overlapping)
        missing = covered.missing(r.start, r.end)
        complaints += [
            f"partition {r.partition}: [{start}, {end}) is not in the lake: there is nothing "
            "to replace; backfill it"
            for start, end in missing
        ]
        if overlapping and not missing:
            low, high = overlapping[0].range.start, overlapping[-1].range.end
            if (low, high) != (r.start, r.end):
                complaints.append(
                    f"partition {r.partition}: [{r.start}, {r.end}) cuts committed files; the "
                    f"nearest window of whole ones is [{low}, {high})"
                )
        selected += overlapping
    return selected


def pack(tiles: Sequence[Tile], max_records: int) -> list[list[Tile]]:
    """Divide tiles, in order, into chunks of at most `max_records` offsets, or one larger file."""
    chunks: list[list[Tile]] = []
    room = 0
    for tile in tiles:
        if not chunks or len(tile.range) > room:
            chunks.append([])
            room = max_records
        chunks[-1].append(tile)
        room -= len(tile.range)
    return chunks


def merge_ranges(ranges: Iterable[OffsetRange]) -> Window:
    """Return ranges joined where they touch or overlap, sorted."""
    merged = OffsetSets()
    for r in ranges:
        merged.add((r.topic, r.partition), r.start, r.end)
    return tuple(
        OffsetRange(topic, p, start, end)
        for (topic, p), spans in sorted(merged.items())
        for start, end in spans
    )
