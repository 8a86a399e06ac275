"""A whole run outside Airflow: the same four steps, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import PlanDead
from tidegate.runs.plan import Planned, plan
from tidegate.runs.publish import Published, publish, verdict
from tidegate.runs.run import Run
from tidegate.runs.stage import Submit, stage


def ingest(
    run: Run,
    submit: Submit,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Plan, stage, publish, and raise PartitionsLeftOut at the end if some had to be left out."""
    planned = plan(run, replan=replan)
    on_planned(planned)
    stage(run, submit)
    try:
        published = publish(run)
    except PlanDead:  # others have committed a part meanwhile: stage what is left
        stage(run, submit)
        published = publish(run)
    on_published(published)
    verdict(run)
    return published
