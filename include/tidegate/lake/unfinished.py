"""Plans that may still have sealed chunks to commit: found without listing all of the staging."""

from __future__ import annotations

import logging

from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.errors import TidegateError
from tidegate.lake import attempts, plans, publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store

logger = logging.getLogger(__name__)


def publish_unfinished(store: Store, ledger: Ledger, *, run: str, other_than: str | None) -> bool:
    """Commit what other runs have sealed and not published; return whether anything was.

    A run that still works on such a plan finds its chunk committed, and goes on with the rest. A
    plan that cannot be published now is logged and stays; it never stops the caller's own work.
    Raises transient errors of the lake only: what is sealed must not be given up because of them.
    """
    before = ledger.fold.n
    for plan_id in plans.unfinished(store):
        if plan_id == other_than:
            continue
        try:
            plan = plans.load(store, plan_id)
            publishing.publish_sealed(store, ledger, plan, run=run, not_placed=[])
        except TidegateError as error:
            if error.kind == "transient":
                raise
            logger.warning("plan %s: its sealed chunks were not published: %s", plan_id, error)
            continue
        if _is_over(store, ledger.fold, plan):
            plans.finish(store, plan_id)
    return ledger.fold.n > before


def _is_over(store: Store, fold: Fold, plan: Plan) -> bool:
    """Say whether no chunk can be committed any more: what is covered never becomes uncovered."""
    left = [
        (number, window)
        for number, window in enumerate(plan.chunks)
        if (plan.id, number) not in fold.committed and not fold.covered_part(window, plan.topics)
    ]
    if not left:
        return True
    seals = attempts.sealed(store, plan, fold)
    return all(number not in seals and _skipped(fold, plan, window) for number, window in left)


def _skipped(fold: Fold, plan: Plan, window: Window) -> bool:
    return all(
        not fold.skipped.get((plan.topics[r.topic], r.partition), NOTHING).missing(r.start, r.end)
        for r in window
    )
