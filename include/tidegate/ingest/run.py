"""A whole ingest run in one process: plan, stage, publish, verdict."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.errors import NotSealed, PlanDead, TidegateError
from tidegate.ingest.plan import plan
from tidegate.ingest.publish import Published, publish, refuse_incomplete
from tidegate.ingest.stage import stage
from tidegate.runs.run import OpenRun, Run, open_run
from tidegate.runs.steps import Planned, Submit

logger = logging.getLogger(__name__)


def ingest(
    run: Run,
    submit: Submit,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Plan, stage and publish; then raise PartitionsLeftOut if partitions had to be excluded.

    If `stage` fails, sealed chunks are published before its error is raised.
    """
    opened = open_run(run)
    planned = plan(opened, replan=replan)
    on_planned(planned)
    if planned.plan.chunks:
        try:
            _stage(opened, submit)
        except TidegateError:
            _publish_sealed(opened, on_published)
            raise
    try:
        published = publish(opened)
    except PlanDead:  # others have committed a part: stage the rest
        _stage(opened, submit)
        published = publish(opened)
    on_published(published)
    refuse_incomplete(run, published.plan, published.missing)
    return published


def _stage(opened: OpenRun[Run], submit: Submit) -> None:
    """Stage, and check the ledger again: Spark may have read for hours."""
    stage(opened, submit)
    opened.ledger.recheck()


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
