"""Plan: finish crashed runs, survey the broker, freeze the offsets that the run will read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidegate import faults
from tidegate.core import decoding, work
from tidegate.core.cluster_answers import Survey
from tidegate.core.draft import Draft
from tidegate.core.fold import Fold
from tidegate.core.judge import Lost
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import Reason, range_problem
from tidegate.core.plan import Plan
from tidegate.core.requests import Replay
from tidegate.core.work import Standing
from tidegate.errors import BrokerError, ConfigurationError, LakeUnavailable, ReplayRefused
from tidegate.ingest import drafting, sealing, truncation
from tidegate.ingest.sealing import CheckedPlan
from tidegate.lake import boundary_files, committing, decodings, placing, plans
from tidegate.lake.attempts import Staged
from tidegate.lake.plan_work import gather_work
from tidegate.lake.plans import Frozen
from tidegate.lake.unfinished_plans import load_unfinished, publish_unfinished
from tidegate.runs import topics, variables
from tidegate.runs.replay_id import refuse_another
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.steps import MOST_LISTED, Planned

logger = logging.getLogger(__name__)


def plan(opened: OpenRun[Run], *, replan: bool = False) -> Planned:
    """Return the run's plan, freezing one if it has none that can still be carried out.

    What earlier runs have left is finished first. `replan` makes the next generation even if the
    current plan is valid. BrokerError if a gap would be recorded over rows of an attempt that
    cannot be sealed now. ReplayRefused for a replay whose plan is dead: it has no next generation.
    """
    run, ledger = opened.run, opened.ledger
    current, checked = _finish_earlier_work(opened)
    run = topics.with_topics(run, ledger.fold)
    variables.refuse_ahead(run.mirror, run.spec, ledger)
    if current:
        run = _in_lane_of(run, current.plan)
        found = _examined(opened, checked[0])
        cause = found if isinstance(found, str) else None
        if cause is None and not (replan and current.plan.replay is None):
            if work.chunks_to_commit(ledger.fold, current.plan):
                _warn_of_other_settings(run, current.plan)
            return Planned(current, known=True)
        _leave_plan(opened, current.plan, cause)
    return _plan_anew(opened, run, current, checked)


class EarlierWork(NamedTuple):
    """The run's latest plan, None if it has none, and all plans that are not over, that one first.

    Their finished attempts were checked.
    """

    current: Frozen | None
    checked: Sequence[CheckedPlan]


def _finish_earlier_work(opened: OpenRun[Run]) -> EarlierWork:
    """Do what crashed processes and other runs have left, before anything new is planned.

    Variables are restored, files of commits placed, finished attempts sealed, and sealed chunks of
    other runs committed. An attempt that cannot be sealed now stays.
    """
    run, store, ledger = opened.run, opened.store, opened.ledger
    variables.restore_variables(run.mirror, run.spec, ledger)
    placing.roll_forward(store, ledger)
    current = opened.latest_plan()
    others = load_unfinished(store, other_than=current.plan.id if current else None)
    unfinished = [*([current.plan] if current else []), *others]
    checked = [sealing.seal_finished(opened, each) for each in unfinished]
    if publish_unfinished(store, ledger, others, run=run.run_id):
        variables.write_variables(run.mirror, run.spec, ledger.fold)
        checked = [sealing.compare_decodings(opened, each) for each in checked]
    return EarlierWork(current, checked)


def _in_lane_of(run: Run, plan: Plan) -> Run:
    """Return the run in the lane of its frozen plan. ReplayRefused for another replay's plan."""
    _refuse_another_replay(run, plan)
    if plan.lane == run.asked.lane:
        return run
    logger.warning(
        "%s: this run keeps its frozen plan %s (lane %s); use `tidegate replay` to read "
        "offsets again",
        run.spec.name, plan.id, plan.lane,
    )  # fmt: skip
    return run.in_lane(plan.lane)


def _leave_plan(opened: OpenRun[Run], plan: Plan, cause: str | None) -> None:
    """Commit what is sealed of a plan that gets a next generation: it may have expired in Kafka.

    `cause` says why it is dead. None: a new plan was asked for. Raises ReplayRefused for a replay.
    """
    if cause:
        logger.warning("plan %s: %s; making a new plan", plan.id, cause)
    ledger = opened.ledger
    ledger.refresh()
    try:
        committing.commit_sealed_chunks(
            opened.store, ledger, plan, run=opened.run.run_id, not_placed=[]
        )
    except ConfigurationError as error:  # its decoding contradicts live rows. It is kept
        logger.warning("%s", error)
    if plan.replay is not None:
        raise ReplayRefused(
            f"pipeline {opened.run.spec.name!r}: replay {plan.replay['id']!r}, plan {plan.id}, can "
            f"no longer be carried out: {cause}. To read the window again, start a replay with a "
            "new id",
            plan_id=plan.id,
        )


def _plan_anew(
    opened: OpenRun[Run], run: Run, current: Frozen | None, checked: Sequence[CheckedPlan]
) -> Planned:
    """Draft and freeze a plan. If the draft is the plan that the run has, that one is kept."""
    store, ledger = opened.store, opened.ledger
    surveyed_at = datetime.now(UTC)
    seen, drafted = _recorded_draft(run, opened, checked, replanning=current is not None)
    _log_covered(run, ledger.fold, drafted, seen)
    day = current.plan.window_date if current else run.window_date.isoformat()
    planned = drafting.plan_of(run, store, ledger.fold, seen, drafted, day)
    if current and planned.id == current.plan.id:
        return Planned(current, known=True)
    frozen = opened.freeze(planned, _note(run, seen, drafted, surveyed_at))
    faults.point("plan.frozen")
    return Planned(frozen, known=False)


def _warn_of_other_settings(run: Run, plan: Plan) -> None:
    """Log what the pipeline's file says now, and this run's plan does not have."""
    spec, now = run.spec, []
    if plan.isolation != spec.isolation:
        now.append(f"isolation: {spec.isolation}, was {plan.isolation}")
    if gone := sorted(plan.topics.keys() - set(run.topics)):
        now.append(f"topics: without {', '.join(gone)}")
    decoded = decoding.decodings_of_plan(plan)
    if other := sorted(
        t for t in plan.topics if decoded.get(t) != decoding.decoding_of_topic(spec.decoding, t)
    ):
        now.append(f"decode: another one for {', '.join(other)}")
    was = plan.parquet
    for name, value in vars(spec.parquet(was.max_records_per_file)).items():
        if getattr(was, name) != value:
            now.append(f"{name}: {value}, was {getattr(was, name)}")
    if plan.replay and plan.keep_replaced != spec.keep_replaced:
        now.append(f"keep_replaced: {spec.keep_replaced}, was {plan.keep_replaced}")
    largest = max(sum(map(len, window)) for window in plan.chunks)
    if plan.replay is None and largest > run.chunk_size:
        now.append(f"max_records: {run.chunk_size:,}, the largest chunk has {largest:,} offsets")
    if now:
        logger.warning(
            "%s: this run keeps its frozen plan %s, made before the pipeline had %s; the next run "
            "has that",
            spec.name, plan.id, "; ".join(now),
        )  # fmt: skip


class Living(NamedTuple):
    """A plan that can still be carried out, and its chunks that must be staged.

    `seen` is the survey by which the plan was checked. None if nothing must be staged.
    """

    checked: CheckedPlan
    chunks: Sequence[int] = ()
    seen: Survey | None = None


def living_plan(opened: OpenRun[Run]) -> Living | None:
    """Return the run's latest plan. None if it has none or it can no longer be carried out.

    Finished attempts of the plan are sealed first, so that their records are not read again.
    """
    opened.ledger.refresh()
    current = opened.latest_plan()
    if current is None:
        return None
    _refuse_another_replay(opened.run, current.plan)
    checked = sealing.seal_finished(opened, current.plan)
    # The listing is still valid unless a seal was added since.
    found = _examined(opened, checked, None if checked.sealed else checked.staged)
    return None if isinstance(found, str) else found


def _refuse_another_replay(run: Run, plan: Plan) -> None:
    if isinstance(run.asked, Replay):
        refuse_another(run, run.asked, plan)


def _examined(
    opened: OpenRun[Run], checked: CheckedPlan, staged: Staged | None = None
) -> Living | str:
    """Return what is left to stage of a plan, or why it can never be carried out.

    `staged` are the plan's staged files, if they were just listed. An unproven chunk is not read
    again: its finished attempt waits for its seal. The broker is asked only if something must be
    staged.
    """
    plan, fold = checked.plan, opened.ledger.fold
    for chunk in work.chunks_of(fold, plan):
        if chunk.standing is Standing.DEAD:
            if plan.replay is not None:
                return f"others have replaced {chunk.contested[0]}"
            return f"others have committed {chunk.contested[0]} of its chunk {chunk.number}"
    found = gather_work(opened.store, plan, fold, staged, opened.manifests)
    to_stage = [number for number in found.to_stage if number not in checked.unproven]
    if not to_stage:
        return Living(checked)
    for wrong in decodings.chunk_contradictions(opened.store, fold, plan, to_stage).values():
        return f"newer rows have another `decode`: {wrong[0]}"
    seen = drafting.survey_topics(opened.run, sorted(plan.topics))
    cause = _unreadable_because(opened.run, plan, to_stage, seen)
    return cause or _rewritten(opened, plan, to_stage, seen) or Living(checked, to_stage, seen)


def _unreadable_because(run: Run, plan: Plan, chunks: Sequence[int], seen: Survey) -> str | None:
    """Return why chunks can no longer be read as planned. None if they can.

    Raises BrokerError for a replay while a partition has no leader.
    """
    if seen.cluster_id != plan.cluster_id:
        return f"the cluster is {seen.cluster_id}, not {plan.cluster_id}"
    for r in (r for number in chunks for r in plan.chunks[number]):
        if problem := range_problem(r, plan.topics[r.topic], seen.state(r.topic)):
            if problem.reason is Reason.NO_LEADER and plan.replay is not None:
                # A replay has no next generation.
                raise BrokerError(f"plan {plan.id}: {problem}; try again when it has one")
            return f"it reads {r}, but {problem}"
    return _unreadable(run, plan, chunks, seen)


def _rewritten(opened: OpenRun[Run], plan: Plan, chunks: Sequence[int], seen: Survey) -> str | None:
    """Return the first range of these chunks that a cut of its log has made wrong since it was
    planned.

    If the lake, or another chunk, has the record before the range, a commit of the range would
    hide that the log now has another one there. A replay would replace rows by other records.
    What nobody has read yet is read as it is now.
    """
    ranges = [r for number in chunks for r in plan.chunks[number]]
    noted = plans.noted_epochs(opened.note(plan))
    cut = truncation.truncated_since(opened.run.kafka, noted, seen, ranges)
    for r, at in cut.items():
        hides = at < r.start and _has_record(opened.ledger.fold, plan, chunks, r)
        if hides or plan.replay is not None:
            return f"it reads {r}, but its log was cut off at {at}"
    return None


def _has_record(fold: Fold, plan: Plan, to_stage: Sequence[int], r: OffsetRange) -> bool:
    """Return whether the record before a range is in the lake, or was read by another chunk."""
    if fold.covered[plan.topics[r.topic], r.partition].within(r.start - 1, r.start):
        return True
    done = (plan.chunks[number] for number in range(len(plan.chunks)) if number not in to_stage)
    return any(
        (other.topic, other.partition) == (r.topic, r.partition) and other.end == r.start
        for window in done
        for other in window
    )


def _unreadable(run: Run, plan: Plan, chunks: Sequence[int], seen: Survey) -> str | None:
    """Return the first record of these chunks that Spark cannot read, if there is one.

    Plans of earlier releases may contain such records. Later plans exclude them, so only ranges
    that begin at or below the log's first such record are scanned.
    """
    if plan.replay is not None:
        return None
    ranges = [
        r
        for number in chunks
        for r in plan.chunks[number]
        if r.start <= seen.too_late.get(r.topic, {}).get(r.partition, -1)
    ]
    scans = run.kafka.unreadable(ranges, plan.isolation, seen.too_late, first_only=True)
    for r, scan in scans.items():
        if scan.first:
            offset, timestamp = scan.first
            return f"Spark cannot read {r.topic}-{r.partition} offset {offset}, of time {timestamp}"
    return None


def _recorded_draft(
    run: Run,
    opened: OpenRun[Run],
    checked: Sequence[CheckedPlan],
    *,
    replanning: bool,
) -> tuple[Survey, Draft]:
    """Survey, draft, and record boundaries, origins and gaps. Again if another run recorded first.

    Its origin may be above the ends of the earlier survey.
    """
    store, ledger = opened.store, opened.ledger
    for _ in range(boundary_files.MOST_TRIES):
        seen = drafting.survey_topics(run)
        draft = drafting.draft(run, store, ledger.fold, seen, replanning=replanning)
        if draft.gaps:
            sealing.refuse_gaps(
                [sealing.compare_decodings(opened, each) for each in checked], draft.gaps
            )
        if all(
            boundary_files.freeze_boundary(store, each) for each in draft.boundaries
        ) and not any(
            isinstance(ledger.append(origin, run=run.run_id), Lost) for origin in draft.origins
        ):
            break
    else:
        raise LakeUnavailable(
            f"pipeline {run.spec.name!r}: other processes recorded origins or boundaries first, "
            f"{boundary_files.MOST_TRIES} times in a row; nothing was planned, try again"
        )
    for notice in draft.notices:
        logger.warning("%s: %s", run.spec.name, notice)
    for origin in draft.origins:
        logger.info(
            "%s: discovered %s, partitions %s",
            run.spec.name,
            origin.topic,
            sorted(origin.partitions),
        )
    for gap in draft.gaps:
        ledger.skip(gap, run=run.run_id)
    return seen, draft


def _log_covered(run: Run, fold: Fold, draft: Draft, seen: Survey) -> None:
    """Log which of the requested offsets are committed already, or left to the live lane."""
    if draft.ahead:
        parts = ", ".join(map(str, draft.ahead[:MOST_LISTED]))
        logger.warning(
            "%s: left to the live lane, at or above its cursor: %s", run.spec.name, parts
        )
    if not draft.covered:
        return
    covered = draft.covered[:MOST_LISTED]
    commits = sorted({n for r in covered for n in fold.commits_over((r,), seen.topic_ids)})
    numbers = ", ".join(f"#{n}" for n in commits[:MOST_LISTED])
    more = " and others" if len(draft.covered) > len(covered) or len(commits) > MOST_LISTED else ""
    if draft.ranges:
        parts = ", ".join(map(str, covered))
        logger.info("%s: already committed as %s%s: %s", run.spec.name, numbers, more, parts)
    else:
        logger.warning(
            "%s: all requested offsets are already committed as %s%s; use `tidegate replay` to "
            "read them again",
            run.spec.name, numbers, more,
        )  # fmt: skip


def _note(run: Run, seen: Survey, draft: Draft, surveyed_at: datetime) -> dict[str, Any]:
    return {
        "run": run.run_id,
        "dag": run.dag_id,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        # Records appended after this time may be above the watermarks.
        "surveyed_at": surveyed_at.isoformat(timespec="milliseconds"),
        "assigned": run.spec.assign and {t: sorted(ps) for t, ps in run.spec.assign.items()},
        "topic_ids": seen.topic_ids,
        "watermarks": {
            topic: {str(p): asdict(m) for p, m in marks.items()}
            for topic, marks in seen.watermarks.items()
        },
        "epochs": {
            topic: {str(p): epoch for p, epoch in each.epochs.items()}
            for topic, each in seen.identities.items()
        },
        "taken_up": {origin.topic: sorted(origin.partitions) for origin in draft.origins},
    }
