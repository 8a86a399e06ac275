"""The status of an ingest pipeline, and the files of its lake. Read-only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple

from tidegate.core import partition
from tidegate.core.cluster_answers import iso
from tidegate.core.cursor import Watermarks
from tidegate.core.draft import topic_problems
from tidegate.core.entries import Gap
from tidegate.core.fold import Fold
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.partition import LeftOut, Problem
from tidegate.core.wording import counted
from tidegate.core.work import chunks_to_commit
from tidegate.errors import BrokerUnreachable, LakeDamaged, NotAuthenticated, TidegateError
from tidegate.ingest import truncation
from tidegate.lake import decodings, plans
from tidegate.lake.attempts import staged_files
from tidegate.lake.committed_files import CommittedFile, live_files
from tidegate.lake.ledger import LastEntry, Ledger, last_entry, read_existing
from tidegate.lake.plan_work import open_attempts
from tidegate.lake.store_protocol import Store
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.pipeline_state import Judged, PipelineStatus, State, judge_backlog
from tidegate.runs.spec_protocol import IngestSpec
from tidegate.runs.topics import recorded_topics, refuse_another_cluster, resolve_topics

FORMAT = 1


def lake_files(spec: IngestSpec, store: Store) -> list[CommittedFile]:
    """List the files of the lake (contract: `files --json`)."""
    return live_files(store, read_existing(store, spec.name))


@dataclass(frozen=True)
class PipelineState:
    """The ledger of a pipeline, and the broker's watermarks of the partitions that it reads.

    `topics` are those of the pipeline now. `problem` says why watermarks are missing. `excluded`
    is what a live run would exclude now. `unreachable`: no pipeline of this connection can reach
    the broker. `refused`: a retry would have the same problem.
    """

    store: Store
    fold: Fold
    topics: tuple[str, ...]
    topic_ids: Mapping[str, str]
    watermarks: Mapping[str, Mapping[int, Watermarks]]
    problem: str | None
    unreachable: bool = False
    refused: bool = False
    excluded: tuple[LeftOut, ...] = ()


def read_state(
    spec: IngestSpec, store: Store, kafka: Kafka, *, down: str | None = None
) -> PipelineState:
    """Read the ledger and ask the broker, whose errors are returned as the `problem`.

    `down` is the error of a broker that is known not to answer: it is not asked again.
    """
    fold = Ledger(store, spec.name).fold

    def without_broker(problem: str) -> PipelineState:
        topics = recorded_topics(spec, fold).topics
        return PipelineState(store, fold, topics, fold.topic_ids, {}, problem)

    if down:
        return without_broker(down)
    try:
        topics = resolve_topics(spec, kafka, fold).topics
        seen = kafka.survey(topics, spec.isolation)
        refuse_another_cluster(spec, kafka, fold, seen.cluster_id)
        states = truncation.topic_states(kafka, store, fold, seen, topics, spec.assign)
        seen = seen.only(spec.assign)
    except TidegateError as error:
        unreachable = isinstance(error, BrokerUnreachable | NotAuthenticated)
        refused = error.kind == "terminal"
        problem = f"{type(error).__name__}: {error}" if refused else str(error)
        return replace(without_broker(problem), unreachable=unreachable, refused=refused)
    watermarks = dict(seen.watermarks)
    for topic in topics:
        if fold.topic_ids.get(topic) not in (None, seen.topic_ids.get(topic)):
            watermarks.pop(topic, None)  # its offsets are not those of the ledger
    excluded = [each for topic, now in states.items() for each in topic_problems(fold, topic, now)]
    topic_ids = {**seen.topic_ids, **fold.topic_ids}
    return PipelineState(store, fold, topics, topic_ids, watermarks, None, excluded=tuple(excluded))


class Position(NamedTuple):
    """The offsets of a partition. None where the ledger, or the broker, has none.

    A partition that is no longer assigned has none of the broker's.
    `lag` counts up to the high watermark, including records of open transactions.
    """

    origin: int | None
    cursor: int | None
    log_start: int | None = None
    end: int | None = None
    high: int | None = None
    lag: int | None = None


def positions(
    fold: Fold,
    topic_id: str | None,
    watermarks: Mapping[int, Watermarks],
    assigned: frozenset[int] | None = None,
) -> dict[int, Position]:
    """Return the position of each partition of a topic that the ledger or the broker knows.

    `assigned` are the only ones to return. None: all.
    """
    origins = fold.origins.get(topic_id or "", {})
    by_partition = {}
    known = origins.keys() | watermarks.keys()
    for p in sorted(known if assigned is None else known & assigned):
        cursor = fold.progress(topic_id or "", p).cursor if p in origins else None
        by_partition[p] = Position(origins.get(p), cursor)
        if m := watermarks.get(p):
            lag = max(0, m.high - (m.start if cursor is None else cursor))
            by_partition[p] = Position(origins.get(p), cursor, m.start, m.end, m.high, lag)
    return by_partition


@dataclass(frozen=True)
class PartitionStatus(Document):
    """The offsets of a partition, as `Position` has them.

    `open_since` is the begin of the oldest transaction that is open in it, in ISO 8601.
    """

    origin: int | None
    cursor: int | None
    log_start: int | None
    end: int | None
    high: int | None
    lag: int | None
    open_since: str | None


@dataclass(frozen=True)
class TopicStatus(Document):
    """A topic by its id, None if it was never read, and its partitions."""

    topic_id: str | None
    partitions: Mapping[int, PartitionStatus]


@dataclass(frozen=True)
class UnfinishedPlan(Document):
    """A plan with staged chunks that are not all committed. `sealed` chunks wait for their commit.

    `run` planned it, `at` a time in ISO 8601. `refused` are the reasons why chunks cannot be
    committed.
    """

    plan_id: str
    lane: str
    run: str | None
    at: str | None
    chunks: int
    committed: int
    sealed: int
    refused: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IngestStatus(PipelineStatus):
    """Where an ingest stands (contract: `status --json`).

    The broker's offsets are None, and `broker` says why, if it does not answer, or refuses to
    (`refused`). `undecodable` has, by topic and reason, the rows that do not fit their schema.
    """

    kind: ClassVar[str] = "ingest"
    format: int = FORMAT
    pipeline: str
    topics: Mapping[str, TopicStatus]
    problems: tuple[Problem, ...]
    commits: int
    last_commit: int | None
    last_entry: LastEntry | None
    gaps: tuple[Gap, ...]
    undecodable: Mapping[str, Mapping[str, int]]
    open_claims: tuple[str, ...] = ()
    unfinished: tuple[UnfinishedPlan, ...]
    broker: str | None
    refused: Annotated[bool, OMITTED] = False


def judge_ingest(spec: IngestSpec, status: IngestStatus) -> Judged:
    """Return the state that a status shows. What a run skips by the pipeline's policy is none."""
    waiting = None
    if status.broker is None:
        partitions = (
            each for topic in status.topics.values() for each in topic.partitions.values()
        )
        waiting = sum(each.lag or 0 for each in partitions)
    found = [each for each in status.problems if not partition.is_skipped(spec, each.excluded)]
    expired = [each for each in found if each.excluded.reason is partition.Reason.EXPIRED]
    for state, problems in ((State.LOSING, expired), (State.BLOCKED, found)):
        if problems:
            more = len(problems) - 1
            also = f", and {counted(more, 'other')}" if more else ""
            return Judged(state, f"{problems[0].excluded}{also}", waiting, problems[0].fix)
    for plan in status.unfinished:
        if plan.refused:
            return Judged(State.BLOCKED, f"plan {plan.plan_id}: {plan.refused[0]}", waiting)
    if waiting is None:
        state = State.BLOCKED if status.refused else State.UNKNOWN
        return Judged(state, status.broker or "")
    return judge_backlog(waiting, "offset")


def read_ingest_status(
    spec: IngestSpec, store: Store, kafka: Kafka, state: PipelineState | None = None
) -> IngestStatus:
    """Return the position of each partition that the pipeline reads, and each problem."""
    state = state or read_state(spec, store, kafka)
    since = kafka.open_since(state.watermarks)
    fold = state.fold
    excluded = [*state.excluded, *_hanging(state, since)]
    topics = {}
    for topic in state.topics:
        topic_id = state.topic_ids.get(topic)
        marks, assigned = state.watermarks.get(topic, {}), spec.partitions_of(topic)
        partitions = {
            p: PartitionStatus(*position, iso(since.get((topic, p))))
            for p, position in positions(fold, topic_id, marks, assigned).items()
        }
        topics[topic] = TopicStatus(topic_id, partitions)
    return IngestStatus(
        pipeline=spec.name,
        topics=topics,
        problems=tuple(partition.with_fix(spec, each) for each in excluded),
        commits=len(fold.live),
        last_commit=max(fold.live, default=None),
        last_entry=last_entry(state.store, fold),
        gaps=tuple(fold.gaps),
        undecodable={
            topic: counts for topic in state.topics if (counts := fold.undecodable.get(topic))
        },
        unfinished=tuple(_unfinished(state.store, fold)),
        broker=state.problem,
        refused=state.refused,
    )


def _hanging(state: PipelineState, open_since: Mapping[tuple[str, int], int]) -> Iterator[LeftOut]:
    for topic, marks in state.watermarks.items():
        since = {p: at for (name, p), at in open_since.items() if name == topic}
        yield from partition.hanging_problems(topic, marks, since, time.time() * 1000)


def _unfinished(store: Store, fold: Fold) -> list[UnfinishedPlan]:
    """Return the plans with staged chunks that are not all committed, oldest first."""
    sealed: dict[str, set[int]] = defaultdict(set)
    for attempt, files in open_attempts(fold, staged_files(store)).items():
        is_sealed = attempt.done_path in dict(files) and store.size(attempt.manifest_path)
        sealed[attempt.plan_id] |= {attempt.chunk} if is_sealed else set()
    found = []
    for plan_id, chunks in sealed.items():
        try:
            plan, note = plans.load_plan(store, plan_id), plans.read_note(store, plan_id) or {}
        except LakeDamaged:
            continue  # `verify` and `repair` report it
        if left := {chunk.number for chunk in chunks_to_commit(fold, plan)}:
            waiting = sorted(chunks & left)
            wrong = decodings.chunk_contradictions(store, fold, plan, waiting).values()
            found.append(
                UnfinishedPlan(
                    plan_id=plan_id,
                    lane=plan.lane,
                    run=note.get("run"),
                    at=note.get("at"),
                    chunks=len(plan.chunks),
                    committed=len(plan.chunks) - len(left),
                    sealed=len(waiting),
                    refused=tuple(sorted({each for reasons in wrong for each in reasons})),
                )
            )
    return sorted(found, key=lambda each: (each.at or "", each.plan_id))
