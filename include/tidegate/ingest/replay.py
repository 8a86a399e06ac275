"""Re-ingest: read a committed window from Kafka again, and replace its files in the lake.

Replays of an egress are in `tidegate.egress.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core import replacement, windows
from tidegate.core.cluster_answers import Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.draft import Draft
from tidegate.core.files import Tile, tiles_of
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.replacement import Replaced, replaces_to_json
from tidegate.core.requests import Replay
from tidegate.ingest.backfill import boundaries_at, checked_topic, not_among, window_refusal
from tidegate.lake import attempts
from tidegate.lake.store_protocol import Store
from tidegate.runs.replay_id import id_complaints
from tidegate.runs.run import Run


def draft_replay(run: Run, asked: Replay, store: Store, fold: Fold, seen: Survey) -> Draft:
    """Draft a re-ingest; WindowRefused lists everything wrong with the request."""
    topic = asked.topic
    edges = windows.parse_edges(topic, asked.start, asked.end, datetime.now(UTC))
    complaints = list(edges.complaints)
    if asked.where is not None:
        complaints.insert(0, "where: a re-ingest replaces whole files and takes no filter")
    complaints[:0] = id_complaints(asked)
    if topic not in run.spec.topics:
        complaints.insert(0, not_among(run.spec, topic))
    topic_id, marks = checked_topic(run, topic, asked.partitions, fold, seen, complaints)
    partitions = asked.partitions
    if partitions is None and not edges.partitions:  # the lake may have others, too
        partitions = tuple(seen.only(run.spec.assign).watermarks[topic])
    chosen_partitions = windows.choose_partitions(partitions, edges, marks, complaints)
    edges.end_at(fold.cursors(topic) if topic in fold.topic_ids else {}, chosen_partitions)
    boundaries = boundaries_at(run, store, seen, topic, edges.timestamps, complaints)
    window = windows.resolve_ranges(topic, chosen_partitions, edges, boundaries, complaints)
    complaints += _expired(window, marks)
    live, is_window = _live_tiles(store, fold, window, topic_id), not complaints
    chosen = replacement.select_tiles(window, live, complaints)
    if not complaints and not chosen:
        complaints.append("the window is empty")
    if complaints:
        nearest = replacement.nearest_window(window, live) if is_window else []
        if any(r.partition not in marks for r in nearest) or _expired(nearest, marks):
            nearest = []
        again: list[str] = []
        replacement.select_tiles(nearest, live, again)
        raise window_refusal(run, topic, complaints, [] if again else nearest)
    packed = replacement.pack(chosen, run.chunk_size)
    kept = {"keep_replaced": run.spec.keep_replaced} if run.spec.keep_replaced else {}
    return Draft(
        boundaries=list(boundaries.values()),
        ranges=[tile.range for tile in chosen],
        chunks=tuple(replacement.merge_ranges(tile.range for tile in chunk) for chunk in packed),
        replay={
            "id": asked.id,
            "asked": asked.to_json(),
            "replaces": [_replaces(chunk) for chunk in packed],
            **kept,
        },
    )


def _expired(window: list[OffsetRange], marks: Mapping[int, Watermarks]) -> list[str]:
    return [
        f"partition {r.partition}: [{r.start}, {min(r.end, start)}) is before the log start "
        f"{start}: it cannot be read again"
        for r in window
        if len(r) and r.start < (start := marks[r.partition].start)
    ]


def _live_tiles(store: Store, fold: Fold, window: list[OffsetRange], topic_id: str) -> list[Tile]:
    """Return the live tiles of all commits that contain offsets of the window."""
    tiles = []
    for n in fold.commits_over(tuple(window), {r.topic: topic_id for r in window}):
        commit = fold.live[n]
        ranges = [r for each_id, r in commit.ranges if each_id == topic_id]
        files = attempts.committed_manifest(store, commit).files
        tiles += [
            tile
            for tile in tiles_of(n, ranges, files)
            if fold.holds(n, topic_id, tile.range.partition, tile.range.start)
        ]
    return tiles


def _replaces(chunk: list[Tile]) -> list[dict[str, Any]]:
    """Return the ranges and the files that a chunk replaces, by commit."""
    by_commit: dict[int, list[Tile]] = {}
    for tile in chunk:
        by_commit.setdefault(tile.n, []).append(tile)
    forms = []
    for n, replaced in sorted(by_commit.items()):
        ranges: Window = replacement.merge_ranges(tile.range for tile in replaced)
        (form,) = replaces_to_json(Replaced(n, r) for r in ranges)
        forms.append(form | {"files": sorted({name for tile in replaced for name in tile.files})})
    return forms
