"""A whole run outside Airflow: the same four steps, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.errors import NotSealed, PlanDead, TidegateError
from tidegate.ingest.plan import plan
from tidegate.ingest.publish import Published, publish, verdict
from tidegate.ingest.stage import stage
from tidegate.runs.run import Run
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
    """Plan, stage, publish, and raise PartitionsLeftOut at the end if some had to be left out.

    What is sealed is published even if `stage` fails; its error is raised then.
    """
    planned = plan(run, replan=replan)
    on_planned(planned)
    try:
        stage(run, submit)
    except TidegateError:
        _publish_sealed(run, on_published)
        raise
    try:
        published = publish(run)
    except PlanDead:  # others have committed a part meanwhile: stage what is left
        stage(run, submit)
        published = publish(run)
    on_published(published)
    verdict(run, published.missing)
    return published


def _publish_sealed(run: Run, on_published: Callable[[Published], None]) -> None:
    """Publish what a run has sealed although `stage` failed, and log what is missing."""
    try:
        published = publish(run)
        on_published(published)
        verdict(run, published.missing)
    except NotSealed:
        pass  # nothing to publish: the caller raises the cause
    except TidegateError as error:
        logger.error("%s", error)
