"""A whole egress run in one process: plan, send, publish, verdict."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.work import Sending, delivery_state
from tidegate.egress.planning import plan
from tidegate.egress.publish import Published, publish, verdict
from tidegate.egress.send import send
from tidegate.lake import deliveries
from tidegate.runs import history
from tidegate.runs.run import EgressRun, open_run
from tidegate.runs.steps import NO_PLAN, EarlyEnd, OnProgress, Planned


def egress(
    run: EgressRun,
    *,
    replan: bool = False,
    on_planned: Callable[[Planned], None] = lambda _: None,
    on_published: Callable[[Published], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
) -> Published:
    """Plan, send and publish; PartitionsLeftOut at the end if the plan excludes files or ranges."""
    with history.recorded(run) as opened:
        opened.on_progress = on_progress
        planned = plan(opened, replan=replan)
        on_planned(planned)
        send(opened)
        opened.ledger.recheck()  # Spark may have run for hours
        published = publish(opened)
        on_published(published)
        verdict(opened)
    return published


def early_end(run: EgressRun) -> EarlyEnd:
    """Return what a run that ended early leaves behind."""
    opened = open_run(run)
    frozen, fold = opened.latest_plan(), opened.ledger.fold
    if frozen is None:
        return NO_PLAN
    plan = frozen.plan
    state = delivery_state(fold, plan.id)
    if state.sending is Sending.DECLARED:
        return EarlyEnd(f"plan {plan.id} was declared sent", finished=True)
    if state.is_done or not plan.has_work:
        n = state.commit
        return EarlyEnd(f"all that was planned is sent{f', as #{n}' if n else ''}", finished=True)
    if deliveries.sealed_delivery(opened.store, plan, fold):
        return EarlyEnd(f"all rows of plan {plan.id} are sent and read back; the commit is missing")
    if state.claim:
        return EarlyEnd(
            f"the claim of plan {plan.id}: some of its rows may be sent, and only the others "
            "will be"
        )
    if state.ends and not state.is_unsent:
        return EarlyEnd(
            f"some rows of plan {plan.id} may be sent; its claim was released to send all again"
        )
    return EarlyEnd(f"nothing of plan {plan.id} was sent")
