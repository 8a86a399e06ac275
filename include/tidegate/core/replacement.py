"""Replacement: the committed files that a re-ingest replaces, and the offsets they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from tidegate.core.files import Tile
from tidegate.core.intervals import OffsetSets
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


def select_tiles(
    window: Sequence[OffsetRange], tiles: Iterable[Tile], complaints: list[str]
) -> list[Tile]:
    """Return the tiles of a window, sorted. Add complaints unless they are exactly the window, and
    all that their files hold.
    """
    tiles = sorted(tiles)
    asked = {(r.topic, r.partition): (r.start, r.end) for r in window if len(r)}
    whole, selected = _whole_files(asked, tiles)
    covered = OffsetSets()
    for tile in selected:
        covered.add((tile.range.topic, tile.range.partition), tile.range.start, tile.range.end)
    for key, (low, high) in whole.items():
        start, end = asked.get(key, (low, low))
        missing = covered[key].missing(start, end)
        complaints += [
            f"partition {key[1]}: [{gap[0]}, {gap[1]}) is not in the lake: there is nothing "
            "to replace; backfill it"
            for gap in missing
        ]
        if key not in asked:
            complaints.append(
                f"partition {key[1]}: [{low}, {high}) shares committed files with the window, "
                "which are replaced as a whole: replay it with them"
            )
        elif not missing and (low, high) != (start, end):
            complaints.append(
                f"partition {key[1]}: [{start}, {end}) cuts committed files; the "
                f"nearest window of whole ones is [{low}, {high})"
            )
    return selected


def nearest_window(window: Sequence[OffsetRange], tiles: Iterable[Tile]) -> list[OffsetRange]:
    """Return the smallest window of whole files that contains another one."""
    asked = {(r.topic, r.partition): (r.start, r.end) for r in window if len(r)}
    whole, _ = _whole_files(asked, sorted(tiles))
    return [OffsetRange(topic, p, low, high) for (topic, p), (low, high) in sorted(whole.items())]


Spans = Mapping[tuple[str, int], tuple[int, int]]


def _whole_files(asked: Spans, tiles: Sequence[Tile]) -> tuple[Spans, list[Tile]]:
    """Return the smallest window of whole files that contains another one, and its tiles."""
    of_files: dict[tuple[str, ...], list[Tile]] = {}
    for tile in tiles:
        if tile.files:
            of_files.setdefault(tile.files, []).append(tile)
    spans = dict(asked)
    while True:
        selected = [
            tile
            for tile in tiles
            if (span := spans.get((tile.range.topic, tile.range.partition)))
            and tile.range.start < span[1]
            and span[0] < tile.range.end
        ]
        grown = dict(spans)
        for chosen in selected:
            for r in (each.range for each in of_files.get(chosen.files, [chosen])):
                low, high = grown.get((r.topic, r.partition), (r.start, r.end))
                grown[r.topic, r.partition] = min(low, r.start), max(high, r.end)
        if grown == spans:
            return spans, selected
        spans = grown


def pack(tiles: Sequence[Tile], max_records: int) -> list[list[Tile]]:
    """Divide tiles, in order, into chunks of at most `max_records` offsets, or larger ones
    of files that are replaced together.

    All tiles of a file are in one chunk, and a chunk has one range of each partition.
    """
    of_files: dict[tuple[str, ...] | Tile, list[Tile]] = {}
    for tile in tiles:
        of_files.setdefault(tile.files or tile, []).append(tile)
    chunks: list[list[Tile]] = []
    for group in of_files.values():
        joined = [*chunks[-1], *group] if chunks else []
        ranges = merge_ranges(tile.range for tile in joined)
        one_range_each = len(ranges) == len({(r.topic, r.partition) for r in ranges})
        if joined and one_range_each and sum(map(len, ranges)) <= max_records:
            chunks[-1] = joined
        else:
            chunks.append(group)
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
