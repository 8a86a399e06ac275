"""What a re-ingest replaces: whole committed files, and the offsets that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from tidegate.core.accounting import StagedFile
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Form
from tidegate.core.offsets import OffsetRange, Window


class Replaced(NamedTuple):
    """A part of an earlier commit that a later one replaces: whole files of it."""

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

    `file` is its final name; None for a range of the commit without a row.
    """

    range: OffsetRange
    n: int
    file: str | None


def tiles(
    n: int, ranges: Iterable[OffsetRange], files: Iterable[tuple[StagedFile, str]]
) -> list[Tile]:
    """Cut a commit's ranges at its files (each with its final name): they tile the ranges."""
    by_partition: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for staged, final in files:
        by_partition.setdefault((staged.topic, staged.partition), []).append((staged.first, final))
    found = []
    for r in ranges:
        mine = sorted(by_partition.get((r.topic, r.partition), ()))
        cuts = [r.start, *(first for first, _ in mine[1:]), r.end]
        names: list[str | None] = [final for _, final in mine] or [None]
        for start, end, name in zip(cuts, cuts[1:], names, strict=False):
            found.append(Tile(OffsetRange(r.topic, r.partition, start, end), n, name))
    return found


def whole(window: Sequence[OffsetRange], held: Iterable[Tile], complaints: list[str]) -> list[Tile]:
    """Return the tiles of a window, sorted; complain unless they are all of it and no more."""
    chosen = []
    by_partition: dict[tuple[str, int], list[Tile]] = {}
    for tile in sorted(held):
        by_partition.setdefault((tile.range.topic, tile.range.partition), []).append(tile)
    for r in (r for r in window if len(r)):
        mine = [
            t
            for t in by_partition.get((r.topic, r.partition), ())
            if t.range.start < r.end and r.start < t.range.end
        ]
        covered = Intervals.of((t.range.start, t.range.end) for t in mine)
        for start, end in covered.missing(r.start, r.end):
            complaints.append(
                f"partition {r.partition}: [{start}, {end}) is not in the lake: there is nothing "
                "to replace; backfill it"
            )
        if mine and not covered.missing(r.start, r.end):
            low, high = mine[0].range.start, mine[-1].range.end
            if (low, high) != (r.start, r.end):
                complaints.append(
                    f"partition {r.partition}: [{r.start}, {r.end}) cuts committed files; the "
                    f"nearest window of whole ones is [{low}, {high})"
                )
        chosen += mine
    return chosen


def packed(chosen: Sequence[Tile], max_records: int) -> list[list[Tile]]:
    """Divide tiles, in order, into chunks of at most `max_records` offsets, or one file."""
    chunks: list[list[Tile]] = []
    room = 0
    for tile in chosen:
        if not chunks or len(tile.range) > room:
            chunks.append([])
            room = max_records
        chunks[-1].append(tile)
        room -= len(tile.range)
    return chunks


def merged(ranges: Iterable[OffsetRange]) -> Window:
    """Join ranges that touch."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for r in ranges:
        spans.setdefault((r.topic, r.partition), []).append((r.start, r.end))
    return tuple(
        OffsetRange(topic, p, start, end)
        for (topic, p), each in sorted(spans.items())
        for start, end in Intervals.of(each)
    )
