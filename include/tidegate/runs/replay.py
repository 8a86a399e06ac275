"""Replay by re-ingest: a window that is in the lake is read again, and its files are replaced.

To send such a window to a topic again is an egress: `tidegate.runs.egress.again`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.broker.cluster import Survey
from tidegate.core import replays, windows
from tidegate.core.draft import Draft
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.core.planning import Watermarks
from tidegate.core.replays import Replaced, Tile, replaces_to_json
from tidegate.core.windows import Replay
from tidegate.errors import ReplayRefused
from tidegate.lake import publishing
from tidegate.lake.store import Store
from tidegate.runs.backfill import refusal, refuse_leaderless, times_of
from tidegate.runs.run import AnyRun, Run

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}")


def draft(run: Run, asked: Replay, store: Store, fold: Fold, seen: Survey) -> Draft:
    """Draft a re-ingest; WindowRefused with every complaint about what was asked for."""
    topic = asked.topic
    found = windows.edges(topic, asked.start, asked.end, datetime.now(UTC))
    complaints = list(found.complaints)
    if asked.where is not None:
        complaints.insert(0, "where: a re-ingest replaces whole files, it takes no filter")
    complaints[:0] = id_complaints(asked)
    if topic not in run.spec.topics:
        complaints.insert(0, f"{topic} is not among its topics {list(run.spec.topics)}")
    marks, topic_id = seen.watermarks.get(topic), seen.topic_ids.get(topic)
    if marks is None or topic_id is None:
        raise refusal(run, topic, [*complaints, f"there is no topic {topic}"])
    was = fold.topic_ids.get(topic, topic_id)
    if was != topic_id:
        across = f"the topic was recreated: offsets of {was} say nothing about {topic_id}"
        raise refusal(run, topic, [*complaints, across])
    refuse_leaderless(seen, topic, asked.partitions)
    partitions = windows.chosen(asked.partitions, found, marks, complaints)
    cuts = times_of(run, store, seen, topic, found.moments, complaints)
    window = windows.ranges(topic, partitions, found, cuts, complaints)
    complaints += _expired(window, marks)
    held = _held(store, fold, window, topic_id)
    chosen = replays.whole(window, held, complaints)
    if not complaints and not chosen:
        complaints.append("the window is empty")
    if complaints:
        raise refusal(run, topic, complaints)
    packed = replays.packed(chosen, run.chunk_size)
    return Draft(
        boundaries=list(cuts.values()),
        ranges=[tile.range for tile in chosen],
        chunks=tuple(replays.merged(tile.range for tile in chunk) for chunk in packed),
        replay={
            "id": asked.id,
            "asked": asked.to_json(),
            "replaces": [_replaces(chunk) for chunk in packed],
        },
    )


def id_complaints(asked: Replay) -> list[str]:
    """Return what is wrong with a replay's id, if anything."""
    if _ID.fullmatch(asked.id):
        return []
    return [f"replay id {asked.id!r}: letters, digits and _.:+-, 128 at most"]


def refuse_another(run: AnyRun, asked: Replay, plan: Plan) -> None:
    """Raise ReplayRefused if the id stands for another window already."""
    if plan.replay is None or plan.replay["asked"] != asked.to_json():
        known = None if plan.replay is None else plan.replay["asked"]
        raise ReplayRefused(
            f"pipeline {run.spec.name!r}: replay id {asked.id!r} stands for {known}, as plan "
            f"{plan.id}; nothing was done. Another window needs another id",
            replay_id=asked.id,
            plan_id=plan.id,
        )


def _expired(window: list[OffsetRange], marks: Mapping[int, Watermarks]) -> list[str]:
    return [
        f"partition {r.partition}: [{r.start}, {min(r.end, start)}) is before the log start "
        f"{start}: it cannot be read again"
        for r in window
        if len(r) and r.start < (start := marks[r.partition].start)
    ]


def _held(store: Store, fold: Fold, window: list[OffsetRange], topic_id: str) -> list[Tile]:
    """Return the live tiles of all commits that hold any of the window."""
    held = []
    for n in fold.commits_over(tuple(window), {r.topic: topic_id for r in window}):
        commit = fold.live[n]
        ranges = [r for each_id, r in commit.ranges if each_id == topic_id]
        files = [(f.staged, f.final) for f in publishing.read_manifest(store, commit)]
        held += [
            tile
            for tile in replays.tiles(n, ranges, files)
            if fold.holds(n, topic_id, tile.range.partition, tile.range.start)
        ]
    return held


def _replaces(chunk: list[Tile]) -> list[dict[str, Any]]:
    """Return what a chunk replaces, commit by commit: the ranges, and the names of the files."""
    by_commit: dict[int, list[Tile]] = {}
    for tile in chunk:
        by_commit.setdefault(tile.n, []).append(tile)
    forms = []
    for n, mine in sorted(by_commit.items()):
        ranges: Window = replays.merged(tile.range for tile in mine)
        (form,) = replaces_to_json(Replaced(n, r) for r in ranges)
        forms.append(form | {"files": sorted(tile.file for tile in mine if tile.file)})
    return forms
