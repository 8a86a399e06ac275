"""Replay by sending again: which window of the lake is meant, and what is wrong with it.

Coverage decides, not Kafka: what has expired there long ago can be sent again. Kafka is asked only
where the window's edges are moments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tidegate.broker.cluster import Survey, survey
from tidegate.core import windows
from tidegate.core.boundaries import Boundary
from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.core.requests import Replay
from tidegate.egress.lake_source import lake_of
from tidegate.errors import ConfigurationError, WindowRefused
from tidegate.lake import boundaries
from tidegate.lake.ledger import Ledger
from tidegate.lake.plans import Frozen
from tidegate.lake.store import Store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest, one_of
from tidegate.runs.boundaries import Topic, refuse_leaderless, resolve
from tidegate.runs.replay_id import id_complaints, refuse_another
from tidegate.runs.run import EgressRun

logger = logging.getLogger(__name__)


def lake_name(spec: Egress) -> str:
    """Return the ingest pipeline whose lake is the source; ConfigurationError of a path."""
    if spec.source.lake is None:
        raise ConfigurationError(
            f"pipeline {spec.name!r} sends files, and a replay is a window of offsets: files that "
            "came back are sent again by `tidegate run --resend`"
        )
    return spec.source.lake


def topic_named(spec: Egress, topic: str | None) -> str:
    """Return the topic of the lake that is meant; unnamed, it is the only one."""
    return one_of(spec.name, spec.source.topics or files.load_ingest(lake_name(spec)).topics, topic)


def known(run: EgressRun, asked: Replay, fold: Fold, current: Frozen) -> Frozen:
    """Return the plan of a replay that is known; ReplayRefused if its id is another window's."""
    refuse_another(run, asked, current.plan)
    if fold.is_sent(current.plan.id):
        n = fold.committed.get((current.plan.id, 0))
        logger.info(
            "%s: replay %s was done before%s; to send it once more takes a new id",
            run.spec.name, asked.id, f", as entry #{n}" if n else ": it was declared sent",
        )  # fmt: skip
    return current


def is_void(asked: Replay, ledger: Ledger, plan: Plan) -> bool:
    """Say whether a replay's plan may be replaced by that of a corrected request.

    It may be where it was refused before the first record: its id has sent nothing.
    """
    other = plan.replay is None or plan.replay["asked"] != asked.to_json()
    return other and not ledger.fold.is_sent(plan.id) and ledger.sent_nothing(plan.id)


def window(run: EgressRun, asked: Replay, *, record: bool) -> tuple[Mapping[str, str], Window]:
    """Return the lake's topic ids and the ranges that are meant; WindowRefused with all complaints.

    Unless told to `record`, it writes nothing: else the offsets of its moments are frozen as
    boundaries, for whoever asks for them later.
    """
    source, store, lake = lake_of(lake_name(run.spec))
    topics = run.spec.source.topics or tuple(lake.topic_ids)
    while True:
        ranges, cuts = _judged(run, asked, source, store, lake, topics)
        if not record or all(boundaries.freeze(store, each) for each in cuts):
            return lake.topic_ids, ranges


def _judged(
    run: EgressRun,
    asked: Replay,
    source: Ingest,
    store: Store,
    lake: Fold,
    topics: Sequence[str],
) -> tuple[Window, list[Boundary]]:
    topic = asked.topic
    found = windows.parse_edges(topic, asked.start, asked.end, datetime.now(UTC))
    complaints = id_complaints(asked) + found.complaints
    if asked.where is not None and not asked.where.strip():
        complaints.append("where: an SQL expression, or leave it out")
    topic_id = lake.topic_ids.get(topic) if topic in topics else None
    if topic_id is None:
        known = f"of {source.name!r} there are {[t for t in topics if t in lake.topic_ids]}"
        raise _refusal(run, source, topic, [f"{topic} is not in the lake: {known}", *complaints])
    there = set(lake.origins[topic_id])
    cuts: dict[datetime, Boundary] = {}
    if found.timestamps:
        seen = _surveyed(run, source, topic)
        if seen.topic_ids.get(topic) == topic_id:
            refuse_leaderless(seen, topic)
            there |= seen.watermarks[topic].keys()
            assert run.source_kafka is not None
            cut = Topic(
                topic, topic_id, seen.watermarks[topic], run.source_kafka, store, source.name
            )
            cuts = resolve(cut, found.timestamps, complaints)
        else:
            now = seen.topic_ids.get(topic, "gone")
            complaints.append(
                f"the lake has topic {topic_id}, which is {now} in Kafka: what a time means there "
                "cannot be known; give offsets"
            )
            found.discard(*found.timestamps)
    partitions = windows.choose_partitions(asked.partitions, found, there, complaints)
    asked_for = windows.resolve_ranges(topic, partitions, found, cuts, complaints)
    for r in asked_for:
        complaints += _uncovered(lake, topic_id, r)
    ranges = tuple(r for r in asked_for if len(r))
    if not complaints and not ranges:
        complaints.append("the window is empty")
    if complaints:
        raise _refusal(run, source, topic, complaints)
    return ranges, list(cuts.values())


def _surveyed(run: EgressRun, source: Ingest, topic: str) -> Survey:
    assert run.source_kafka is not None
    return survey(run.source_kafka, [topic], source.isolation)


def _uncovered(lake: Fold, topic_id: str, r: OffsetRange) -> list[str]:
    """Return a complaint for each part of a range that no commit of this topic id holds."""
    complaints = []
    for start, end in lake.covered.get((topic_id, r.partition), NOTHING).missing(r.start, r.end):
        why = "is not in the lake"
        for earlier in lake.earlier_ids.get(r.topic, ()):
            if any(lake.covered.get((earlier, r.partition), NOTHING).within(start, end)):
                why += (
                    f" as a part of this topic, {topic_id}, but of {earlier}, which it was before"
                )
        complaints.append(f"partition {r.partition}: [{start}, {end}) {why}")
    return complaints


def _refusal(run: EgressRun, source: Ingest, topic: str, complaints: list[str]) -> WindowRefused:
    listed = "".join(f"\n  - {each}" for each in complaints)
    return WindowRefused(
        f"pipeline {run.spec.name!r}, replay of {topic}: nothing was sent:{listed}\n"
        f"`tidegate coverage {source.name}` shows what the lake has",
        complaints=complaints,
    )
