"""Files into topics, effectively once: plan → send → publish, and what is asked about it."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.egress.plan import plan
from tidegate.egress.publish import Published, publish, verdict
from tidegate.egress.send import send
from tidegate.egress.sender import IsOver
from tidegate.runs.run import EgressRun
from tidegate.runs.steps import Planned, Submit


def egress(
    run: EgressRun,
    submit: Submit,
    is_over: IsOver,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Plan, send, publish, and raise PartitionsLeftOut at the end if files had to be left out."""
    planned = plan(run, is_over, replan=replan)
    on_planned(planned)
    send(run, submit, is_over)
    published = publish(run)
    on_published(published)
    verdict(run)
    return published
