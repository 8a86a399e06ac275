"""Plan what is sent: finish what another began, else the files or offsets that were not sent."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from tidegate import faults
from tidegate.broker.target import TargetSurvey, survey_target
from tidegate.core.chunking import chunked
from tidegate.core.ledger import REPLAY, Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan, TargetTopic
from tidegate.egress import lake_source, loops, replay
from tidegate.egress.backlog import Waiting, waiting
from tidegate.egress.sender import IsOver, is_dead
from tidegate.errors import ConfigurationError, SenderAlive
from tidegate.lake import plans, sources
from tidegate.lake.sources import Root
from tidegate.pipelines.spec import Egress, as_text
from tidegate.runs import variables
from tidegate.runs.cluster_identity import refuse_another_cluster
from tidegate.runs.run import EgressRun
from tidegate.runs.steps import Planned

LANE = "live"
ISOLATION = "read_uncommitted"  # of the scans that look for what was sent

# What becomes of a row where the pipeline does not say.
_OF_A_LAKE = {"key": "key", "value": "value", "headers": "headers", "partition": "partition"}
_OF_TEXT = {"key": "null", "value": "value", "headers": "null", "partition": "null"}
_OF_FILES = {**_OF_TEXT, "value": "*"}

logger = logging.getLogger(__name__)


def plan(run: EgressRun, is_over: IsOver, *, replan: bool = False) -> Planned:
    """Return the run's plan, freezing one if it has none that can still be carried out.

    The oldest open claim comes first, whoever made it: SenderAlive while its sender is not proven
    dead. Another generation is made when the claim was released or the files changed. CursorAhead
    when more was shown as sent than the ledger knows: it would all be sent once more. What is asked
    to be sent again of a lake has one plan, and no claim comes before it; another request under its
    id is planned only where that plan was refused and has sent nothing.
    """
    store = run.store()
    ledger = run.ledger(store)
    variables.restore(run.mirror, run.spec, ledger)
    current = plans.latest(store, run.key)
    if current and run.asked and not replay.is_void(run.asked, ledger, current.plan):
        return Planned(replay.known(run, run.asked, ledger.fold, current), known=True)
    if current and not run.asked and _is_well(ledger.fold, current.plan) and not replan:
        return Planned(current, known=True)
    number = current.generation + 1 if current else 1
    survey: dict[str, Any] = {}  # of a plan that was begun, its own note tells it
    if not run.asked and (claim := ledger.fold.oldest_open_claim):
        if not is_dead(claim.sender, claim.attempt, is_over):
            raise SenderAlive(
                f"pipeline {run.spec.name!r}: attempt {claim.attempt} of plan {claim.plan_id} is "
                f"being sent by process {claim.sender['pid']} on {claim.sender['host']}, which is "
                f"not proven dead. Wait; or, if you know that it is, `tidegate release`",
                sender=dict(claim.sender),
                plan_id=claim.plan_id,
            )
        made = plans.load(store, claim.plan_id)
        logger.info("%s: plan %s was begun and is finished first", run.spec.name, made.id)
    else:
        surveyed_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        made, found = draft(run, ledger.fold, record=True)
        takes_all = _takes_all(run, ledger.fold, made, found)
        survey = {"surveyed_at": surveyed_at, "takes_all": takes_all}
    if current and made.id == current.plan.id:
        return Planned(current, known=True)
    note = {
        "format": 1, "run": run.run_id, "dag": run.dag_id,
        "at": datetime.now(UTC).isoformat(timespec="seconds"), **survey,
    }  # fmt: skip
    frozen = plans.freeze(store, run.key, made, number, note=note)
    faults.point("plan.frozen")
    return Planned(frozen, known=False)


def preview(run: EgressRun) -> tuple[Plan, Waiting]:
    """Return the plan that `plan` would freeze now, and what it is made of; nothing is written."""
    store = run.store()
    ledger = run.ledger(store)
    fold, current = ledger.fold, plans.latest(store, run.key)
    if run.asked and current and not replay.is_void(run.asked, ledger, current.plan):
        made = replay.known(run, run.asked, fold, current).plan
        return made, Waiting(ranges=made.chunks[0])
    return draft(run, fold, record=False)


def target_of(run: EgressRun, *, make: bool = True) -> TargetSurvey:
    """Look at the target; unless told not to, make its topics if the pipeline says so."""
    target = run.spec.target
    return survey_target(run.kafka, target.names, create_with=target.partitions, make=make)


def draft(run: EgressRun, fold: Fold, *, record: bool) -> tuple[Plan, Waiting]:
    """Return the plan of what waits, as much as one run takes; or of all that is asked for. And
    what waits.

    WindowRefused where that makes no sense. `record` freezes what its moments mean, and makes the
    target's topics.
    """
    spec = run.spec
    found = None
    if run.asked:
        ids, ranges = replay.window(run, run.asked, record=record)
        found = Waiting(topic_ids=ids, ranges=ranges)
    target = target_of(run, make=record)
    refuse_another_cluster(spec, run.kafka, fold, target.cluster_id)
    if found:  # bounded: whatever it feeds, it ends
        chunk: tuple[Window, ...] = (found.ranges,)
    else:
        loops.refuse_loop(spec, target.cluster_id)
        _refuse_other_names(run, fold)
        max_records = run.max_records or spec.max_records
        compacted = any(state.compacted for state in target.topics.values())
        found = waiting(spec, fold, max_records, resend=run.resend, compacted=compacted)
        chunk = chunked(found.ranges, max_records)[:1]
    made = Plan(
        pipeline=spec.name,
        kind=spec.kind,
        lane=REPLAY if run.resend or run.asked else LANE,
        window_date=run.window_date.isoformat(),
        cluster_id=target.cluster_id,
        isolation=ISOLATION,
        topics={r.topic: (found.topic_ids or {})[r.topic] for window in chunk for r in window},
        chunks=chunk,
        destination="kafka",
        byte_settings=_settings(spec),
        left_out=found.left_out,
        replay=_replay(run),
        files=found.taken,
        target={t: TargetTopic(s.topic_id, s.partitions) for t, s in target.topics.items()},
    )
    return made, found


def _takes_all(run: EgressRun, fold: Fold, plan: Plan, found: Waiting) -> bool:
    """Say whether a plan leaves nothing of the source to later runs, and excludes none of it: of a
    window that is sent again, never.
    """
    if run.asked:
        return False
    if run.spec.source.lake is not None:
        unsent = lake_source.unsent_offsets(run.spec, run.spec.source.lake, fold)
        return unsent <= plan.records
    # By name and content: the rows of a file are counted only where it is taken.
    there, taken = ({(f.name, f.etag) for f in files} for files in (found.files, found.taken))
    return not found.young and not found.left_out and there == taken


def _replay(run: EgressRun) -> dict[str, Any] | None:
    if run.asked:
        return {"id": run.asked.id, "asked": run.asked.to_json(), "replaces": []}
    return {"id": run.run_id, "replaces": []} if run.resend else None


def _refuse_other_names(run: EgressRun, fold: Fold) -> None:
    """Refuse a path whose fixed part lies above or below one that files were sent from: by their
    new names, files would be new.
    """
    if run.spec.source.path is None:
        return
    now = Root.of(run.spec.source.path).url
    roots = set(fold.roots)
    if fold.live:  # claims of an earlier release do not name it
        last = plans.load(run.store(), fold.live[max(fold.live)].plan_id)
        roots |= {root_of(last).url} if last.files else set()
    for was in sorted(roots - {now}):
        here, there = PurePosixPath(now), PurePosixPath(was)
        if there.is_relative_to(here) or here.is_relative_to(there):
            raise ConfigurationError(
                f"pipeline {run.spec.name!r}: files were sent by their names below {was}, and "
                f"source.path now has them below {now}: what was sent would be sent again. Leave "
                "its fixed part as it was, or give the other path a pipeline of its own"
            )


def _is_well(fold: Fold, plan: Plan) -> bool:
    """Say whether a run's plan still stands: it is done, or can still be begun."""
    if (plan.id, 0) in fold.committed or not plan.has_work:
        return True
    if plan.id in fold.claims:
        return False  # its sender is looked at, as any other's
    if any(plan_id == plan.id for plan_id, _, _ in fold.abandoned):
        return False  # it was released
    if plan.files:
        sent = [
            file
            for file in plan.files
            if fold.sent.get(file.name) == file.etag
            or (file.name in fold.sent and plan.lane != REPLAY)
        ]
        return not sent and not sources.changed(root_of(plan), plan.files)
    return not fold.sent_part(tuple(r for w in plan.chunks for r in w), plan.topics)


def root_of(plan: Plan) -> Root:
    """Return where a plan's files lie: where they were planned, whatever the pipeline says now."""
    return Root.of(plan.byte_settings["source"]["path"])


def _settings(spec: Egress) -> dict[str, Any]:
    """Return what decides the records, and the order in which they are sent."""
    source = spec.source
    defaults = _OF_A_LAKE if source.lake else _OF_TEXT if source.format == "text" else _OF_FILES
    given = {name: value for name, value in spec.columns if value is not None}
    return {
        "source": {
            "path": source.path,
            "lake": source.lake,
            "format": "parquet" if source.lake else source.format,
            "options": {name: as_text(value) for name, value in source.options.items()},
            "columns": source.columns,
        },
        "topic": spec.target.topic,
        "columns": {**defaults, **given},
        "order_by": list(spec.order_by),
        "order": spec.order,
        "tombstones": spec.sends_tombstones,
        "on_bad_row": spec.on_bad_row,
    }
