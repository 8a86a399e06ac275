"""Backfills: windows of a topic by offsets or timestamps, or all topics by dates."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tidegate.core import windows
from tidegate.core.boundaries import Boundary
from tidegate.core.cluster_answers import Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.draft import (
    Draft,
    draft_window,
    expired_below,
    out_of_reach,
    retained_gaps,
)
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.nearest import did_you_mean
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut, Reason, fix_for, topic_problem
from tidegate.core.requests import Backfill, DataInterval, Replay
from tidegate.core.windows import Edges
from tidegate.errors import WindowRefused
from tidegate.lake.store_protocol import Store
from tidegate.runs.boundary_search import Topic, refuse_leaderless, resolve_boundaries
from tidegate.runs.run import Run
from tidegate.runs.spec_protocol import IngestSpec


def draft_backfill(
    run: Run, asked: Backfill, store: Store, fold: Fold, seen: Survey, *, replanning: bool
) -> Draft:
    """Draft a backfill of a window; WindowRefused lists everything wrong with the request.

    With `replanning` the window was accepted by an earlier plan of the run: `on_expired` decides
    about records that have expired since.
    """
    if asked.ranges:
        return _draft_ranges(run, asked, fold, seen, replanning=replanning)
    topic = asked.topic
    edges, complaints = _edges(run, asked)
    topic_id, marks = checked_topic(run, topic, asked.partitions, fold, seen, complaints)
    assigned = run.spec.partitions_of(topic)
    partitions = windows.choose_partitions(asked.partitions, edges, marks, complaints, assigned)
    if asked.fill_gaps:
        window, boundaries = retained_gaps(fold, topic, topic_id, partitions, marks), {}
    else:
        edges.end_at({p: at.end for p, at in marks.items()}, partitions)
        boundaries = boundaries_at(run, store, seen, topic, edges.timestamps, complaints)
        window = windows.resolve_ranges(topic, partitions, edges, boundaries, complaints)
    reachable: list[OffsetRange] = []
    if not replanning:
        is_window = not complaints
        complaints += out_of_reach(fold, topic_id, window, marks)
        if is_window:
            reachable = [_within_log(r, marks[r.partition]) for r in window]
        if isinstance(edges.start, datetime):
            complaints += _may_have_expired(fold, topic_id, window, marks, edges.start)
    if complaints:
        raise window_refusal(run, topic, complaints, reachable)
    drafted = draft_window(
        fold, topic_id, window, marks, on_expired=run.spec.on_expired, by=run.run_id
    )
    drafted.boundaries = list(boundaries.values())
    return drafted


def _draft_ranges(
    run: Run, asked: Backfill, fold: Fold, seen: Survey, *, replanning: bool
) -> Draft:
    """Draft exact ranges of one topic or several."""
    complaints = _complaints(run, asked)
    parts = []
    for topic in asked.topics:
        window = sorted(r for r in asked.ranges if r.topic == topic)
        numbers = tuple(sorted({r.partition for r in window}))
        topic_id, marks = checked_topic(run, topic, numbers, fold, seen, complaints)
        found: list[str] = []
        assigned = run.spec.partitions_of(topic)
        chosen = windows.choose_partitions(numbers, Edges(), marks, found, assigned)
        window = [r for r in window if r.partition in chosen]
        found += [
            f"{a} and {b} overlap"
            for a, b in itertools.pairwise(window)
            if a.partition == b.partition and b.start < a.end
        ]
        if not replanning:
            found += out_of_reach(fold, topic_id, window, marks)
        complaints += [f"{topic}: {each}" for each in found]
        parts.append(
            draft_window(
                fold, topic_id, window, marks, on_expired=run.spec.on_expired, by=run.run_id
            )
        )
    if complaints:
        raise window_refusal(run, ", ".join(asked.topics), complaints)
    drafted = Draft()
    for part in parts:
        drafted.include(part)
    return drafted


def draft_dates(
    run: Run, interval: DataInterval, store: Store, fold: Fold, seen: Survey, live: Draft
) -> Draft:
    """Draft the records of an interval below the cursors. The rest is left to the live lane.

    What expired right below the interval, and may belong to it, is decided by `on_expired`.
    `live` is what a live run would draft now: its origins and its excluded topics apply here, too.
    """
    drafted = Draft(origins=live.origins, notices=live.notices)
    drafted.left_out = [each for each in live.left_out if each.partition is None]
    start, end = interval
    if end > datetime.now(UTC):
        raise WindowRefused(
            f"pipeline {run.spec.name!r}: the interval ends at {end.isoformat()}, in the future; "
            "it has no offsets yet"
        )
    excluded = {each.topic for each in drafted.left_out}
    for topic in (t for t in run.topics if t not in excluded):
        if leaderless := seen.leaderless.get(topic):
            # A boundary is frozen for all partitions.
            drafted.left_out.append(
                LeftOut(topic, None, Reason.NO_LEADER, {"partitions": leaderless})
            )
            continue
        topic_id, marks = seen.topic_ids[topic], seen.watermarks[topic]
        complaints: list[str] = []
        boundaries = boundaries_at(run, store, seen, topic, [start, end], complaints)
        if complaints:
            raise window_refusal(run, topic, complaints)
        partitions = sorted(seen.only(run.spec.assign).watermarks[topic])
        window = windows.resolve_ranges(topic, partitions, Edges(start, end), boundaries, [])
        below: list[OffsetRange] = []
        for r in window:
            progress = live.progress(fold, topic_id, r.partition)
            cursor = progress.cursor if progress else 0
            cut = min(max(cursor, r.start), r.end)
            expired = expired_below(fold, topic_id, r, marks).within(0, cursor)
            below += r.parts(Intervals.of([*expired, (r.start, cut)]))
            if cut < r.end:
                drafted.ahead.append(OffsetRange(topic, r.partition, cut, r.end))
        part = draft_window(
            fold, topic_id, below, marks, on_expired=run.spec.on_expired, by=run.run_id
        )
        drafted.boundaries += boundaries.values()
        drafted.include(part)
    return drafted


def _may_have_expired(
    fold: Fold,
    topic_id: str,
    window: Sequence[OffsetRange],
    marks: Mapping[int, Watermarks],
    start: datetime,
) -> list[str]:
    """Name the expired offsets of which nobody can tell whether they are before `start`."""
    return [
        f"partition {r.partition}: [{first}, {end}) has expired and is in no commit: "
        f"whether any of it is since {start.isoformat()} is not known. To begin behind it, give "
        f"both edges as offsets, this partition's start as {end}"
        for r in window
        for first, end in expired_below(fold, topic_id, r, marks)
    ]


def checked_topic(
    run: Run,
    topic: str,
    requested: Sequence[int] | None,
    fold: Fold,
    seen: Survey,
    complaints: list[str],
) -> tuple[str, Mapping[int, Watermarks]]:
    """Return id and watermarks of a requested topic. `requested` are its partitions, None: all.

    Raises WindowRefused if it does not exist or was recreated, BrokerError if a partition has no
    leader.
    """
    near = ""
    marks, topic_id = seen.watermarks.get(topic), seen.topic_ids.get(topic)
    if marks is None or topic_id is None:
        if topic in run.spec.topics:  # else the nearest of these was offered
            near = run.kafka.nearest([topic])
        raise window_refusal(run, topic, [*complaints, f"there is no topic {topic}{near}"])
    # Which partitions need a leader depends on the request.
    state = replace(seen.state(topic), leaderless=())
    if problem := topic_problem(topic, fold.topic_ids.get(topic), state):
        raise window_refusal(run, topic, [*complaints, f"{problem}: {fix_for(run.spec, problem)}"])
    assigned = run.spec.partitions_of(topic)
    refuse_leaderless(seen, topic, assigned if requested is None else requested)
    return topic_id, marks


def boundaries_at(
    run: Run, store: Store, seen: Survey, topic: str, times: list[datetime], complaints: list[str]
) -> dict[datetime, Boundary]:
    """Return the boundaries of times in a topic of the run."""
    if times:
        refuse_leaderless(seen, topic)
    in_kafka = Topic(
        topic, seen.topic_ids[topic], seen.watermarks[topic], run.kafka, store, run.spec.name
    )
    return resolve_boundaries(in_kafka, times, complaints)


def _edges(run: Run, asked: Backfill) -> tuple[Edges, list[str]]:
    """Return the edges of a window, and the complaints found without asking the broker."""
    complaints = _complaints(run, asked)
    if asked.fill_gaps:
        if asked.start or asked.end:
            complaints.append("give start and end, or fill gaps: not both")
        return Edges(), complaints
    edges = windows.parse_edges(asked.topic, asked.start, asked.end, datetime.now(UTC))
    return edges, complaints + edges.complaints


def _complaints(run: Run, asked: Backfill) -> list[str]:
    complaints = [
        not_among(run.spec, topic) for topic in asked.topics if topic not in run.spec.topics
    ]
    if asked.ranges and any(
        (asked.topic, asked.partitions, asked.start, asked.end, asked.fill_gaps)
    ):
        complaints.append("give ranges, or a topic with start and end: not both")
    if asked.chunk_size is not None and asked.chunk_size < 1:
        complaints.append(f"chunk size {asked.chunk_size}: at least 1")
    return complaints


def not_among(spec: IngestSpec, topic: str) -> str:
    """Return the complaint about a topic that the pipeline does not read."""
    near = did_you_mean(topic, spec.topics)
    return f"{topic} is not among its topics {list(spec.topics)}{near}"


def _within_log(r: OffsetRange, marks: Watermarks) -> OffsetRange:
    """Return the part of a range that the log has."""
    start = min(max(r.start, marks.start), marks.end)
    return OffsetRange(r.topic, r.partition, start, max(start, min(r.end, marks.end)))


def window_refusal(
    run: Run, topic: str, complaints: list[str], nearest: Sequence[OffsetRange] = ()
) -> WindowRefused:
    """Return the error that lists the complaints about a window.

    `nearest` is the window like it that would be accepted. Its command is in the message.
    """
    listed = "".join(f"\n  - {each}" for each in complaints)
    name, way_out = run.spec.name, f"`tidegate coverage {run.spec.name}` shows what there is"
    if any(map(len, nearest)):
        starts = {topic: {str(r.partition): r.start for r in nearest}}
        ends = {topic: {str(r.partition): r.end for r in nearest}}
        words = ["tidegate", run.asked.lane, name, "--topic", topic]
        words += ["--start", json.dumps(starts), "--end", json.dumps(ends)]
        if isinstance(run.asked, Replay):
            words += ["--replay-id", run.asked.id]
        way_out += f", and this shows the nearest window:\n{shlex.join([*words, '--dry-run'])}"
    return WindowRefused(
        f"pipeline {name!r}, {run.asked.lane} of {topic}: nothing was done:{listed}\n{way_out}",
        complaints=complaints,
    )
