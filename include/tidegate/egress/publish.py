"""Publish and verdict of an egress: record what was sent, tell it, and what was left out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate import faults
from tidegate.core.judge import Adopt, Refused
from tidegate.core.offsets import Offsets
from tidegate.core.plan import Plan
from tidegate.egress import report as reports
from tidegate.errors import AttemptAbandoned, NotSealed, PartitionsLeftOut, PlanDead
from tidegate.lake import deliveries, plans
from tidegate.lake.ledger import Appended
from tidegate.runs import report_store, variables
from tidegate.runs.run import EgressRun, open_run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Published:
    """What a run sent: `offsets` are the target's ends at the last commit of each topic.

    `complete_through` is the time just before the source was listed, if all that it had is sent.
    """

    plan: Plan
    commit: int | None
    offsets: Offsets
    report: Mapping[str, Any]
    complete_through: str | None

    def asset_event(self, topic: str) -> dict[str, Any]:
        """Return what is told to those who wait for a topic (contract: event extra)."""
        receipts = [r for r in self.report["receipts"] if r["topic"] == topic]
        return {
            "ranges": {str(r["partition"]): [r["before"], r["after"]] for r in receipts},
            "rows": sum(r["sent"] for r in receipts),
            "commit": self.commit,
            "complete_through": self.complete_through,
            # A place is a topic, or one of its partitions.
            "broken_order": [
                place
                for place in self.report["broken_order"]
                if topic in (place, place.rpartition("-")[0])
            ],
        }


def publish(run: EgressRun) -> Published:
    """Commit what is sealed of the run's plan. Needs no broker; may be done again."""
    opened = open_run(run)
    store, ledger = opened.store, opened.ledger
    frozen = opened.frozen_plan()
    plan = frozen.plan
    n = ledger.fold.committed.get((plan.id, 0))
    if plan.has_work and not ledger.fold.is_sent(plan.id):
        sending = deliveries.sealed(store, plan, ledger.fold)
        if sending is None:
            raise NotSealed(
                f"plan {plan.id}: no attempt of it is sealed, so nothing proves that all was sent. "
                "Clear the send task: it sends what is missing"
            )
        match deliveries.commit(store, ledger, plan, sending, run=run.run_id):
            case Appended(n) | Adopt(n):
                pass
            case Refused(reason):
                raise AttemptAbandoned(f"plan {plan.id}: {reason}")
            case other:
                raise PlanDead(f"plan {plan.id}: others have sent a part of it: {other}")
    variables.show(run.mirror, run.spec, ledger.fold)
    faults.point("caches.half")
    commit = ledger.fold.live[n] if n is not None else None
    sending = deliveries.sealed(store, plan, ledger.fold) if commit else None
    report = reports.short(run, frozen, n, commit, sending)
    note = plans.note(store, plan.id) or {}
    report_store.keep(
        run, store, report, plan, note,
        lambda: reports.details(run, plan, sending, ledger.fold),
    )  # fmt: skip
    through = note.get("surveyed_at") if commit and note.get("takes_all") else None
    return Published(plan, n, ledger.fold.target_ends, report, through)


def verdict(run: EgressRun) -> None:
    """Raise PartitionsLeftOut when the run's plan could not take every file; a broken order, which
    cannot be mended in a log, is a warning.
    """
    store = run.store()
    frozen = plans.latest(store, run.key)
    fold = run.ledger(store).fold
    n = fold.committed.get((frozen.plan.id, 0)) if frozen else None
    if n is not None and (where := fold.live[n].broken_order):
        logger.warning(
            "%s: commit #%d: the order is broken in %s: rows stand behind later ones",
            run.spec.name, n, ", ".join(where),
        )  # fmt: skip
    if frozen and frozen.plan.left_out:
        listed = "; ".join(map(str, frozen.plan.left_out))
        raise PartitionsLeftOut(
            f"pipeline {run.spec.name!r}: the other files are sent, these are not: {listed}",
            left_out=[each.to_json() for each in frozen.plan.left_out],
        )
