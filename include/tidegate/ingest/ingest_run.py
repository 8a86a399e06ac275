"""A whole ingest run in one process: plan, stage, publish, verdict."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.core.wording import counted
from tidegate.core.work import chunks_to_commit
from tidegate.errors import NotSealed, PlanDead, TidegateError
from tidegate.ingest.planning import plan
from tidegate.ingest.publish import Published, publish, refuse_incomplete
from tidegate.ingest.stage import stage
from tidegate.lake.plan_work import gather_work
from tidegate.runs import history
from tidegate.runs.run import OpenRun, Run, open_run
from tidegate.runs.steps import NO_PLAN, EarlyEnd, OnProgress, Planned, StepProgress

logger = logging.getLogger(__name__)


def ingest(
    run: Run,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
) -> Published:
    """Plan, stage and publish; then raise PartitionsLeftOut if partitions had to be excluded.

    If `stage` fails, sealed chunks are published before its error is raised.
    """
    with history.recorded(run) as opened:
        opened.on_progress = on_progress
        return _ingest(opened, replan, on_planned, on_published)


def _ingest(
    opened: OpenRun[Run],
    replan: bool,
    on_planned: Callable[[Planned], None],
    on_published: Callable[[Published], None],
) -> Published:
    planned = plan(opened, replan=replan)
    on_planned(planned)
    if planned.plan.chunks:
        try:
            _stage(opened)
        except TidegateError:
            _publish_sealed(opened, on_published)
            raise
    try:
        published = publish(opened)
    except PlanDead:  # others have committed a part: stage the rest
        _stage(opened)
        published = publish(opened)
    on_published(published)
    refuse_incomplete(opened.run, published.plan, published.missing)
    return published


def _stage(opened: OpenRun[Run]) -> None:
    """Stage, and check the ledger again: Spark may have read for hours."""
    stage(opened)
    opened.ledger.recheck()
    opened.on_progress(StepProgress("publishing"))


def _publish_sealed(opened: OpenRun[Run], on_published: Callable[[Published], None]) -> None:
    """Publish the sealed chunks after `stage` has failed, and log what is missing."""
    try:
        opened.ledger.recheck()
        published = publish(opened)
        on_published(published)
        refuse_incomplete(opened.run, published.plan, published.missing)
    except NotSealed:
        pass  # nothing is sealed: the caller raises the cause
    except TidegateError as error:
        logger.error("%s", error)


def early_end(run: Run) -> EarlyEnd:
    """Return what a run that ended early leaves behind."""
    opened = open_run(run)
    frozen, fold, store = opened.latest_plan(), opened.ledger.fold, opened.store
    if frozen is None:
        return NO_PLAN
    plan, chunks = frozen.plan, len(frozen.plan.chunks)
    left = {chunk.number for chunk in chunks_to_commit(fold, plan)}
    if not left:
        return EarlyEnd("all that was planned is in the lake", finished=True)
    work = gather_work(store, plan, fold, known=opened.manifests)
    staged = left & (work.sealed.keys() | {attempt.chunk for attempt in work.finished})
    return EarlyEnd(
        f"plan {plan.id}: of {counted(chunks, 'chunk')}, {chunks - len(left)} in the lake and "
        f"{len(staged)} staged"
    )
