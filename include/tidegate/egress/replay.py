"""Replay of an egress: resolve and validate the window of a lake that is sent again.

Anything that the lake covers can be sent, even if Kafka has deleted it. Kafka is asked only if the
window's edges are times.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from tidegate.broker.cluster import survey
from tidegate.core import windows
from tidegate.core.boundaries import Boundary
from tidegate.core.fold import Fold
from tidegate.core.nearest import did_you_mean
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.core.requests import Replay
from tidegate.egress.backlog import Backlog
from tidegate.egress.lake_source import SourceLake, Unsent, open_lake
from tidegate.errors import ConfigurationError, LakeUnavailable, WindowRefused
from tidegate.lake import boundaries
from tidegate.lake.ledger import Ledger
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, one_of
from tidegate.runs.boundaries import Topic, refuse_leaderless, resolve
from tidegate.runs.replay_id import id_complaints, refuse_another
from tidegate.runs.run import EgressRun

logger = logging.getLogger(__name__)


def lake_name(spec: Egress) -> str:
    """Return the ingest pipeline whose lake is the source; ConfigurationError for a path."""
    if spec.source.lake is None:
        raise ConfigurationError(
            f"pipeline {spec.name!r} sends files, and a replay is a window of offsets: files that "
            "came back are sent again by `tidegate run --resend`"
        )
    return spec.source.lake


def choose_topic(spec: Egress, topic: str | None) -> str:
    """Return the named topic of the lake, or its only one; ConfigurationError if it has more."""
    return one_of(spec.name, spec.source.topics or files.load_ingest(lake_name(spec)).topics, topic)


def check_request(run: EgressRun, asked: Replay, fold: Fold, plan: Plan) -> None:
    """Raise ReplayRefused if the replay's id belongs to another request; log if it is done."""
    refuse_another(run, asked, plan)
    if fold.is_sent(plan.id):
        n = fold.committed.get((plan.id, 0))
        logger.info(
            "%s: replay %s was done before%s; use a new id to send it again",
            run.spec.name, asked.id, f", as entry #{n}" if n else ": it was declared sent",
        )  # fmt: skip


def may_be_replaced(asked: Replay, ledger: Ledger, plan: Plan) -> bool:
    """Say whether a corrected request may replace a replay's plan.

    It may if that plan was refused before the first record was sent.
    """
    corrected = plan.replay is None or plan.replay["asked"] != asked.to_json()
    return corrected and ledger.sent_nothing(plan.id)


def requested_backlog(run: EgressRun, asked: Replay, *, record: bool) -> Backlog:
    """Return the ranges of a replay's window; WindowRefused with all complaints.

    With `record`, the boundaries of its times are frozen in the lake; else nothing is written.
    """
    lake = open_lake(lake_name(run.spec))
    for _ in range(boundaries.MOST_TRIES):
        ranges, cuts = _resolve_window(run, asked, lake)
        if not record or all(boundaries.freeze(lake.store, each) for each in cuts):
            return Backlog(unsent=Unsent(lake, lake.fold.topic_ids, tuple(ranges)))
    raise LakeUnavailable(
        f"pipeline {run.spec.name!r}: other processes froze times of {asked.topic} first, "
        f"{boundaries.MOST_TRIES} times in a row; nothing was planned, try again"
    )


def _resolve_window(
    run: EgressRun, asked: Replay, lake: SourceLake
) -> tuple[list[OffsetRange], list[Boundary]]:
    topic, fold = asked.topic, lake.fold
    topics = run.spec.source.topics or tuple(fold.topic_ids)
    edges = windows.parse_edges(topic, asked.start, asked.end, datetime.now(UTC))
    complaints = id_complaints(asked) + edges.complaints
    if asked.where is not None and not asked.where.strip():
        complaints.append("where: an SQL expression, or leave it out")
    topic_id = fold.topic_ids.get(topic) if topic in topics else None
    if topic_id is None:
        in_lake = [t for t in topics if t in fold.topic_ids]
        missing = f"{topic} is not in the lake: of {lake.pipeline.name!r} there are {in_lake}"
        missing += did_you_mean(topic, in_lake)
        raise _refusal(run, lake, topic, [missing, *complaints])
    partitions = set(fold.origins[topic_id])
    by_time: dict[datetime, Boundary] = {}
    if edges.timestamps:
        assert run.source_kafka is not None
        seen = survey(run.source_kafka, [topic], lake.pipeline.isolation)
        if seen.topic_ids.get(topic) == topic_id:
            refuse_leaderless(seen, topic)
            marks = seen.watermarks[topic]
            partitions |= marks.keys()
            in_kafka = Topic(
                topic, topic_id, marks, run.source_kafka, lake.store, lake.pipeline.name
            )
            by_time = resolve(in_kafka, edges.timestamps, complaints)
        else:
            now = seen.topic_ids.get(topic, "gone")
            complaints.append(
                f"the lake has topic {topic_id}, which is {now} in Kafka: a time cannot be "
                "resolved there; give offsets"
            )
            edges.discard(*edges.timestamps)
    chosen = windows.choose_partitions(asked.partitions, edges, partitions, complaints)
    requested = windows.resolve_ranges(topic, chosen, edges, by_time, complaints)
    for r in requested:
        complaints += _uncovered(fold, topic_id, r)
    ranges = [r for r in requested if len(r)]
    if not complaints and not ranges:
        complaints.append("the window is empty")
    if complaints:
        raise _refusal(run, lake, topic, complaints)
    return ranges, list(by_time.values())


def _uncovered(lake: Fold, topic_id: str, r: OffsetRange) -> list[str]:
    """Return a complaint for each part of a range that no commit of this topic id contains."""
    complaints = []
    for start, end in lake.covered[topic_id, r.partition].missing(r.start, r.end):
        why = "is not in the lake"
        for earlier in lake.earlier_ids.get(r.topic, ()):
            if any(lake.covered[earlier, r.partition].within(start, end)):
                why += f" under topic id {topic_id}, only under {earlier}: the topic was recreated"
        complaints.append(f"partition {r.partition}: [{start}, {end}) {why}")
    return complaints


def _refusal(run: EgressRun, lake: SourceLake, topic: str, complaints: list[str]) -> WindowRefused:
    listed = "".join(f"\n  - {each}" for each in complaints)
    return WindowRefused(
        f"pipeline {run.spec.name!r}, replay of {topic}: nothing was sent:{listed}\n"
        f"`tidegate coverage {lake.pipeline.name}` shows what the lake has",
        complaints=complaints,
    )
