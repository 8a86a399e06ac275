"""Explain: what `plan` would plan now. Nothing stays written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.cluster_answers import Survey, iso
from tidegate.core.cursor import Progress
from tidegate.core.draft import Draft
from tidegate.core.entries import Gap
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Document
from tidegate.core.offsets import Window
from tidegate.core.partition import Problem, with_fix
from tidegate.core.plan import Plan
from tidegate.core.requests import Replay
from tidegate.core.work import chunks_to_commit, commits_of
from tidegate.ingest import drafting, file_size
from tidegate.runs import topics as subscription
from tidegate.runs.client_options import InEffect, explain_settings
from tidegate.runs.replay_id import refuse_another
from tidegate.runs.run import OpenRun, Run
from tidegate.spark.task_size import count_files, count_splits

FORMAT = 1
MANY_TASKS = 100_000  # in a driver of 1 GB


@dataclass(frozen=True)
class ChunkExplained(Document):
    """A chunk: its records, the tasks of Spark that would read it, and the files of the lake.

    `splits` and `files` are None if the number of tasks that run at once is unknown.
    """

    records: int
    splits: int | None
    files: int | None


@dataclass(frozen=True)
class PartitionExplained(Document):
    """What would be read of a partition, and the offsets of it that other plans cover.

    `cursor` is that of now, `cursor_after` that of the ledger after the run. `expires_at` is the
    time, in ISO 8601, when the first record may expire.
    """

    ranges: tuple[tuple[int, int], ...]
    records: int
    covered: tuple[tuple[int, int], ...]
    origin: int | None
    cursor: int | None
    cursor_after: int | None
    log_start: int
    end: int
    expires_at: str | None


@dataclass(frozen=True)
class TopicExplained(Document):
    """A topic by its id, and its partitions."""

    topic_id: str
    partitions: Mapping[int, PartitionExplained]


@dataclass(frozen=True, kw_only=True)
class IngestExplained(Document):
    """What a run of an ingest would do (contract: `explain --json`).

    `bytes` is an estimate, None if no file of the lake tells. `done` has the commits of a run that
    is done. `later` records are left to later runs.
    """

    format: int = FORMAT
    pipeline: str
    kafka: Mapping[str, str | None]
    lane: str
    plan_id: str
    window_date: str
    records: int
    bytes: int | None
    splits: int | None
    files: int | None
    chunks: tuple[ChunkExplained, ...]
    done: tuple[int, ...] | None
    later: int
    topics: Mapping[str, TopicExplained]
    gaps: tuple[Gap, ...]
    left_out: tuple[Problem, ...]
    settings: Mapping[str, InEffect]
    notices: tuple[str, ...]


def explain(opened: OpenRun[Run]) -> IngestExplained:
    """Return what the run would do.

    LakeReadOnly or LakeUnavailable if the run could not write to the lake, ReplayRefused for the id
    of another replay.
    """
    store, fold = opened.store, opened.ledger.fold
    store.check_writing()
    current = opened.latest_plan()
    if current and isinstance(opened.run.asked, Replay):
        refuse_another(opened.run, opened.run.asked, current.plan)
    done = None
    if current and not chunks_to_commit(fold, current.plan):
        done = tuple(commits_of(fold, current.plan).values())
    run = subscription.with_topics(opened.run, fold)
    seen = drafting.survey_topics(run)
    draft = drafting.draft(run, store, fold, seen)
    plan = drafting.plan_of(run, store, fold, seen, draft, run.window_date.isoformat())
    density = file_size.measure_density(store, fold)
    size = plan.records * density.size // density.rows if density and density.rows else None
    cores = run.engine.tasks_at_once
    options = run.spec.source_options
    chunks = tuple(_chunk(window, plan, cores, options) for window in plan.chunks)
    return IngestExplained(
        pipeline=plan.pipeline,
        kafka=run.kafka.to_json(),
        lane=plan.lane,
        plan_id=plan.id,
        window_date=plan.window_date,
        records=plan.records,
        bytes=size,
        splits=sum(each.splits or 0 for each in chunks) if cores else None,
        files=sum(each.files or 0 for each in chunks) if cores else None,
        chunks=chunks,
        done=done,
        later=sum(map(len, draft.ranges)) - plan.records,
        topics=_topics(run, fold, seen, draft, plan),
        gaps=tuple(draft.gaps),
        left_out=tuple(with_fix(run.spec, each, run.asked.lane) for each in draft.left_out),
        settings=explain_settings(run),
        notices=(
            *run.spec.notices,
            *draft.notices,
            *run.engine.notices(store),
            *_notices_of_tasks(plan, cores or 1, options),
        ),
    )


def _notices_of_tasks(plan: Plan, cores: int, options: Mapping[str, str]) -> Iterator[str]:
    per_file = plan.byte_settings["max_records_per_file"]
    tasks = (sum(n for n, _ in count_splits(w, cores, per_file, options)) for w in plan.chunks)
    if (most := max(tasks, default=0)) > MANY_TASKS:
        yield (
            f"options: a chunk has {most:,} tasks: Spark's driver needs memory for each; give a "
            "larger maxRecordsPerPartition, or a smaller minPartitions"
        )


def _chunk(
    window: Window, plan: Plan, cores: int | None, options: Mapping[str, str]
) -> ChunkExplained:
    most = plan.byte_settings["max_records_per_file"]
    tasks = count_splits(window, cores, most, options) if cores else None
    return ChunkExplained(
        records=sum(map(len, window)),
        splits=sum(number for number, _ in tasks) if tasks is not None else None,
        files=count_files(window, cores, most, options) if cores else None,
    )


def _topics(
    run: Run, fold: Fold, seen: Survey, draft: Draft, plan: Plan
) -> dict[str, TopicExplained]:
    planned: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for r in (r for window in plan.chunks for r in window):
        planned.setdefault((r.topic, r.partition), []).append((r.start, r.end))
    expire = draft.expires or run.kafka.expiries(draft.ranges, plan.isolation)
    topics: dict[str, TopicExplained] = {}
    for topic, marks in seen.only(run.spec.assign).watermarks.items():
        topic_id = seen.topic_ids[topic]
        partitions = {}
        for p, m in sorted(marks.items()):
            ranges = Intervals.of(planned.get((topic, p), ()))
            before = draft.progress(fold, topic_id, p)
            after = before and _after(before, ranges, draft, topic_id, p)
            partitions[p] = PartitionExplained(
                ranges=tuple(ranges),
                records=len(ranges),
                covered=tuple(
                    (r.start, r.end) for r in draft.covered if (r.topic, r.partition) == (topic, p)
                ),
                origin=before.origin if before else None,
                cursor=before.cursor if before else None,
                cursor_after=after.cursor if after else None,
                log_start=m.start,
                end=m.end,
                expires_at=iso(expire.get((topic, p))),
            )
        topics[topic] = TopicExplained(topic_id, partitions)
    return topics


def _after(
    before: Progress, ranges: Intervals, draft: Draft, topic_id: str, partition: int
) -> Progress:
    """Return the progress of a partition after the plan is carried out."""
    covered, skipped = before.covered, before.skipped
    for start, end in ranges:
        covered = covered.add(start, end)
    for gap in draft.gaps:
        if (gap.topic_id, gap.partition) == (topic_id, partition):
            skipped = skipped.add(gap.start, gap.end)
    return Progress(before.origin, covered, skipped)
