"""A whole egress run in one process: plan, send, publish, verdict."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.egress.plan import plan
from tidegate.egress.publish import Published, publish, verdict
from tidegate.egress.send import send
from tidegate.egress.sender import TaskEnded
from tidegate.runs.run import EgressRun, open_run
from tidegate.runs.steps import Planned, Submit


def egress(
    run: EgressRun,
    submit: Submit,
    task_ended: TaskEnded,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Plan, send and publish; PartitionsLeftOut at the end if the plan excludes files or ranges."""
    opened = open_run(run)
    planned = plan(opened, task_ended, replan=replan)
    on_planned(planned)
    send(opened, submit, task_ended)
    opened.ledger.recheck()  # Spark may have run for hours
    published = publish(opened)
    on_published(published)
    verdict(opened)
    return published
