"""Complete-through times: until when all that could be read of a topic is in the lake.

Each record that a consumer with the pipeline's isolation could read at that time, from the origin
of its partition on, is committed, or its offset is in a gap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core.coverage import is_complete
from tidegate.core.fold import Fold
from tidegate.core.plan import Plan
from tidegate.errors import ConfigurationError
from tidegate.ingest import drafting
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.lake.placing import unplaced_commits
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.run import Run
from tidegate.runs.spec_protocol import IngestSpec

logger = logging.getLogger(__name__)


def survey_times(
    spec: IngestSpec, plan: Plan, note: Mapping[str, Any], fold: Fold
) -> dict[str, str]:
    """Return the time of the survey for each complete topic of a plan.

    It is just before the broker was asked. None of a plan that was made for fewer partitions or
    another isolation level than the pipeline has now, or whose note is lost.
    """
    if "surveyed_at" not in note or plan.isolation != spec.isolation:
        return {}
    return {
        topic: note["surveyed_at"]
        for topic, marks in note["watermarks"].items()
        if _has_examined(spec, note, topic)
        and is_complete(
            fold, plan, topic, note["topic_ids"].get(topic),
            {int(p): each["end"] for p, each in marks.items()},
            spec.partitions_of(topic),
        )
    }  # fmt: skip


def _has_examined(spec: IngestSpec, note: Mapping[str, Any], topic: str) -> bool:
    """Return whether a plan was made for all partitions that the pipeline reads now.

    Partitions that were not assigned are not in `left_out`, whatever had become of them.
    """
    if (assigned := note.get("assigned")) is None:  # all
        return True
    now = spec.partitions_of(topic)
    return now is not None and now <= set(assigned.get(topic, ()))


def is_complete_through(
    spec: IngestSpec,
    topic: str,
    until: datetime,
    stores: Stores,
    run_of: Callable[[IngestSpec], Run],
) -> bool:
    """Return whether a topic is complete through a time, and its files are in `data/`.

    The ledger answers if a plan that was surveyed at that time or later is complete. The broker is
    asked only if not, by a live run of `run_of`: of a topic in which nothing is new, no plan is
    committed. Writes nothing.
    Raises ConfigurationError for a topic that is not the pipeline's, or a time without a zone.
    """
    if until.tzinfo is None:
        raise ConfigurationError(f"until {until.isoformat()}: a time needs a zone")
    if topic not in spec.select([topic]):
        raise ConfigurationError(
            f"pipeline {spec.name!r} does not read topic {topic!r}: it reads {spec.subscription}"
        )
    if until > datetime.now(UTC):
        return False
    store = stores.open(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    done = _by_ledger(spec, topic, until, store, fold) or _by_broker(
        run_of(spec.with_topics((topic,))), topic, store, fold
    )
    return done and _is_placed(spec, topic, store, fold)


def _is_placed(spec: IngestSpec, topic: str, store: Store, fold: Fold) -> bool:
    """Return whether readers of `data/`, too, find all commits of a topic."""
    of_topic = [n for n in fold.unsettled if n in fold.live and topic in fold.live[n].topic_ids]
    if late := unplaced_commits(store, fold, among=of_topic):
        numbers = ", ".join(f"#{n}" for n in late)
        logger.info("%s: topic %s: not in data/ yet: commits %s", spec.name, topic, numbers)
    return not late


def _by_ledger(spec: IngestSpec, topic: str, until: datetime, store: Store, fold: Fold) -> bool:
    """Return whether a committed plan says so. Read back to the first that is too old."""
    seen = set()
    for n in sorted(fold.live, reverse=True):
        commit = fold.live[n]
        if commit.lane != "live" or commit.plan_id in seen:
            continue
        seen.add(commit.plan_id)
        note = plans.read_note(store, commit.plan_id) or {}
        if "surveyed_at" not in note or datetime.fromisoformat(note["surveyed_at"]) < until:
            return False
        if topic in survey_times(spec, plans.load_plan(store, commit.plan_id), note, fold):
            return True
    return False


def _by_broker(run: Run, topic: str, store: Store, fold: Fold) -> bool:
    """Return whether the topic is complete now, as `explain` would find it; writes nothing."""
    seen = drafting.survey_topics(run)
    draft = drafting.draft(run, store, fold, seen)
    if draft.ranges:  # a plan of them could need a sample of the records
        return False
    plan = drafting.plan_of(run, store, fold, seen, draft, run.window_date.isoformat())
    ends = {p: marks.end for p, marks in seen.watermarks.get(topic, {}).items()}
    topic_id = seen.topic_ids.get(topic)
    return is_complete(fold, plan, topic, topic_id, ends, run.spec.partitions_of(topic))
