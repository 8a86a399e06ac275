"""Plan an egress run: resume the oldest open claim, else freeze a part of the backlog."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from tidegate import faults
from tidegate.core.chunking import cut_chunks
from tidegate.core.cluster_answers import TargetSurvey
from tidegate.core.fold import REPLAY, RESEND, Fold
from tidegate.core.judge import moved_premises
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan, TargetTopic
from tidegate.core.source_root import Root, roots_overlap
from tidegate.core.work import Sending, delivery_state
from tidegate.egress import pipeline_cycles, replay
from tidegate.egress.backlog import Backlog, read_backlog
from tidegate.egress.byte_settings import changed_settings, record_settings, settings_of_plan
from tidegate.egress.lake_source import Unsent, window_of
from tidegate.errors import ConfigurationError, SenderAlive
from tidegate.lake import plans, sources
from tidegate.lake.plans import Frozen
from tidegate.lake.store_protocol import Stores
from tidegate.runs import variables
from tidegate.runs.client_options import refuse_contradictions
from tidegate.runs.run import EgressRun, OpenRun
from tidegate.runs.steps import Planned
from tidegate.runs.topics import refuse_another_cluster

ISOLATION = "read_uncommitted"  # of the scans for records that were sent

_RESUMED = "this run resumes it, the next one sends the remaining files"

logger = logging.getLogger(__name__)


def plan(opened: OpenRun[EgressRun], *, replan: bool = False) -> Planned:
    """Return the run's plan, freezing one if it has none that can still be carried out.

    The oldest open claim is resumed first, whichever run made it; SenderAlive while its sender is
    not proven dead. A new generation is made if the claim was released or files have changed.
    CursorAhead if a Variable is ahead of the ledger. A replay has one plan and resumes no other
    claim. Another request under its id is planned only if the first one was refused before anything
    was sent.
    """
    run, store, ledger = opened.run, opened.store, opened.ledger
    ledger.refresh()
    variables.restore_variables(run.mirror, run.spec, ledger)
    current = opened.latest_plan()
    if current and (run.asked or not replan) and _is_living(opened, current.plan):
        _warn_of_other_settings(opened, current.plan)
        return Planned(current, known=True)
    note: dict[str, Any] = {}  # a resumed plan has its own
    if not run.asked and (claim := ledger.fold.egress.oldest_open_claim):
        if why := run.senders.doubt(claim, run.engine, store):
            raise SenderAlive(
                f"pipeline {run.spec.name!r}: attempt {claim.attempt} of plan {claim.plan_id} is "
                f"not proven dead: {why}. Wait; or, if you know that it is, `tidegate release`",
                sender=dict(claim.sender),
                plan_id=claim.plan_id,
            )
        planned = plans.load_plan(store, claim.plan_id)
        _warn_of_other_settings(opened, planned)
    else:
        surveyed_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        planned, backlog = draft_plan(opened, record=True)
        note = {"surveyed_at": surveyed_at, "takes_all": _takes_all(run, planned, backlog)}
    if current and planned.id == current.plan.id:
        return Planned(current, known=True)
    if delivery_state(ledger.fold, planned.id).claim:
        logger.info("%s: plan %s has an open claim: %s", run.spec.name, planned.id, _RESUMED)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    note = {"run": run.run_id, "dag": run.dag_id, "at": now, **note}
    frozen = opened.freeze(planned, note)
    faults.point("plan.frozen")
    return Planned(frozen, known=False)


def _warn_of_other_settings(opened: OpenRun[EgressRun], plan: Plan) -> None:
    """Log what the pipeline's file says now, and an unfinished plan does not have."""
    spec = opened.run.spec
    done = delivery_state(opened.ledger.fold, plan.id).is_done or not plan.has_work
    if not done and (names := changed_settings(plan.byte_settings, spec)):
        logger.warning(
            "%s: plan %s is frozen, and is sent with its own %s; later plans have what the "
            "pipeline says now",
            spec.name, plan.id, ", ".join(names),
        )  # fmt: skip


def living_plan(opened: OpenRun[EgressRun]) -> Frozen | None:
    """Return the run's plan if it can be carried out. None if a new plan must be made.

    ReplayRefused if a replay's id belongs to another request.
    """
    opened.ledger.refresh()
    current = opened.latest_plan()
    return current if current and _is_living(opened, current.plan) else None


def _is_living(opened: OpenRun[EgressRun], plan: Plan) -> bool:
    run, ledger = opened.run, opened.ledger
    if run.asked is None:
        return _is_still_valid(ledger.fold, plan, run.stores)
    if replay.may_be_replaced(run.asked, ledger.fold, plan):
        return False
    replay.check_request(run, run.asked, ledger.fold, plan)
    return True


def preview(opened: OpenRun[EgressRun]) -> tuple[Plan, Backlog]:
    """Return the plan that `plan` would draft now, and its backlog; writes nothing."""
    living = living_plan(opened) if opened.run.asked else None
    if living:
        plan, window = living.plan, window_of(living.plan)
        return plan, Backlog(files=plan.files, unsent=Unsent(ranges=window))
    return draft_plan(opened, record=False)


def survey_planned_target(run: EgressRun, *, make: bool = True) -> TargetSurvey:
    """Survey the target's topics. `make` creates missing ones if the pipeline says so."""
    target = run.spec.target
    return run.kafka.survey_target(target.names, create_with=target.partitions, make=make)


def draft_plan(opened: OpenRun[EgressRun], *, record: bool) -> tuple[Plan, Backlog]:
    """Return a plan of what one run may send of the backlog, or of a replay's whole window; and the
    backlog.

    WindowRefused if what a replay names was not sent, or is not in the lake. With `record`, the
    boundaries of its times are frozen and the target's topics are created.
    """
    run, fold = opened.run, opened.ledger.fold
    spec = run.spec
    refuse_contradictions(spec, run.kafka)
    if spec.source.lake:
        run.pipelines.load_ingest(spec.source.lake)  # a wrong name creates no topic
    # The window is checked before the target is touched.
    backlog = replay.requested_backlog(opened, run.asked, record=record) if run.asked else None
    target = survey_planned_target(run, make=record)
    refuse_another_cluster(spec, run.kafka, fold, target.cluster_id)
    if backlog:  # a replay has an end, so a loop is harmless
        ranges = backlog.unsent.ranges
        chunks: tuple[Window, ...] = (ranges,) if ranges else ()
    else:
        pipeline_cycles.refuse_loop(spec, target.cluster_id, run.stores, run.pipelines)
        _refuse_renamed_files(opened)
        max_records = run.max_records or spec.max_records
        compacted = any(state.compacted for state in target.topics.values())
        backlog = read_backlog(
            spec,
            run.stores,
            run.pipelines,
            opened.store,
            fold,
            max_records,
            resend=run.resend,
            own=plans.plan_ids(opened.store, run.key) if run.resend else (),
            compacted=compacted,
        )
        if run.resend and not backlog.taken and fold.egress.sent:
            logger.warning(
                "%s: --resend sends files again whose content has changed, or that were refused: "
                "there is none. `tidegate replay` sends one again that is as it was",
                spec.name,
            )
        names = [file.name for file in backlog.taken]
        for notice in pipeline_cycles.notices_of_path(spec, names, target.cluster_id, run.stores):
            logger.warning("%s: %s", spec.name, notice)
        chunks = cut_chunks(backlog.unsent.ranges, max_records)[:1]
    planned = Plan(
        pipeline=spec.name,
        kind=spec.kind,
        lane=run.lane,
        window_date=run.window_date.isoformat(),
        cluster_id=target.cluster_id,
        isolation=ISOLATION,
        topics={r.topic: backlog.unsent.topic_ids[r.topic] for chunk in chunks for r in chunk},
        chunks=chunks,
        destination="kafka",
        byte_settings=record_settings(spec).to_json(),
        left_out=backlog.left_out,
        replay=_replay(run),
        files=backlog.taken,
        target={t: TargetTopic(s.topic_id, s.partitions) for t, s in target.topics.items()},
        columns=backlog.columns,
    )
    if planned.has_work:
        refuse_unordered(planned, target)
        refuse_other_times(planned, target)
    return planned, backlog


def refuse_unordered(plan: Plan, target: TargetSurvey) -> None:
    """Raise ConfigurationError for rows without an order and a compacted topic, which keeps the
    last record of a key.
    """
    settings = settings_of_plan(plan)
    compacted = sorted(topic for topic, state in target.topics.items() if state.compacted)
    if compacted and not (settings.order_by or settings.source.lake):
        raise ConfigurationError(
            f"pipeline {plan.pipeline!r}: {', '.join(compacted)} is compacted and keeps the last "
            "record of a key; rows of files have no order, so which one is the last is left to "
            "chance: give order_by. Nothing was sent",
            topics=compacted,
        )


def refuse_other_times(plan: Plan, target: TargetSurvey) -> None:
    """Raise ConfigurationError if brokers would replace the timestamps that a plan keeps."""
    wrong = sorted(topic for topic, state in target.topics.items() if state.sets_time)
    if wrong and settings_of_plan(plan).timestamps == "source":
        raise ConfigurationError(
            f"pipeline {plan.pipeline!r}: plan {plan.id} has target.timestamps: source, but "
            f"{', '.join(wrong)} has message.timestamp.type=LogAppendTime, and gives records its "
            "own: set CreateTime there. Another setting of the pipeline applies to new plans",
            topics=wrong,
        )


def _takes_all(run: EgressRun, plan: Plan, backlog: Backlog) -> bool:
    """Say whether a plan leaves nothing of the source to later runs and excludes nothing. Never
    for a replay.
    """
    if run.asked:
        return False
    if backlog.unsent.lake:
        return backlog.unsent.offsets <= plan.records
    # By name and content: the rows of a file are counted only if it is taken.
    listed, taken = ({(f.name, f.etag) for f in files} for files in (backlog.files, backlog.taken))
    return not backlog.young and not backlog.left_out and listed == taken


def _replay(run: EgressRun) -> dict[str, Any] | None:
    if run.asked:
        return {"id": run.asked.id, "asked": run.asked.to_json(), "replaces": []}
    return {"id": run.run_id, "replaces": []} if run.resend else None


def _refuse_renamed_files(opened: OpenRun[EgressRun]) -> None:
    """Raise ConfigurationError if the fixed part of the path is above or below an earlier one.

    The files that were sent from there would get other names, and be sent again.
    """
    spec = opened.run.spec
    if spec.source.path is None:
        return
    now = Root.of(spec.source.path).url
    for was in sorted(opened.ledger.fold.egress.roots):
        if roots_overlap(was, now):
            raise ConfigurationError(
                f"pipeline {spec.name!r}: files were sent by their names below {was}, and "
                f"source.path now has them below {now}: what was sent would be sent again. Leave "
                "its fixed part as it was, or give the other path a pipeline of its own"
            )


def _is_still_valid(fold: Fold, plan: Plan, stores: Stores) -> bool:
    """Say whether a run's plan is done, or can still be claimed as it is."""
    sending = delivery_state(fold, plan.id).sending
    if sending is Sending.SENT or not plan.has_work:
        return True
    if sending is not Sending.UNCLAIMED:
        return False  # an open claim is resumed only after its sender is proven dead
    is_live = plan.files and plan.lane != REPLAY
    root = root_of(plan).url if is_live else None
    if moved_premises(fold, plan.cluster_id, root, plan.columns if is_live else None):
        return False
    if plan.files:
        sent = (
            fold.egress.sent.get(file.name) == file.etag
            or (file.name in fold.egress.sent and plan.lane != RESEND)
            for file in plan.files
        )
        return not any(sent) and not sources.changed_files(stores.source(root_of(plan)), plan.files)
    return not fold.sent_part(window_of(plan), plan.topics)


def root_of(plan: Plan) -> Root:
    """Return the root of a plan's files. The pipeline's path may be another one today."""
    path = settings_of_plan(plan).source.path
    assert path is not None
    return Root.of(path)
