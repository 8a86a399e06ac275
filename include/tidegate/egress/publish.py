"""Publish and verdict of an egress: commit and report what was sent and what is excluded."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from tidegate import faults
from tidegate.core.judge import Adopt, Moved, Refused
from tidegate.core.offsets import Offsets
from tidegate.core.plan import Plan
from tidegate.core.work import delivery_state
from tidegate.egress import report as reports
from tidegate.egress.byte_settings import settings_of_plan
from tidegate.errors import (
    AttemptAbandoned,
    IdentityChanged,
    NotSealed,
    PartitionsLeftOut,
    PlanDead,
)
from tidegate.lake import checkpointing, deliveries
from tidegate.lake.attempts import Attempt
from tidegate.lake.ledger import Appended
from tidegate.runs import report_store, variables
from tidegate.runs.run import EgressRun, OpenRun

_NAMED = 20
_REMEDY = (
    ". Correct or remove what is named, or set on_bad_row: quarantine for bad rows; it is tried "
    "again when it or the pipeline's settings change, or with --resend. Rows count from 0, without "
    "a header"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Published:
    """What a run sent. `offsets` are the target's ends at the last commit of each topic.

    `complete_through` is the time just before the source was listed, if all of it is sent. `new`
    has the commit if this call made it.
    """

    plan: Plan
    commit: int | None
    offsets: Offsets
    report: reports.EgressReport
    complete_through: str | None
    new: tuple[int, ...] = ()

    def asset_event(self, topic: str) -> dict[str, Any]:
        """Return the extra of a topic's asset event (contract)."""
        receipts = [r for r in self.report.receipts if r.topic == topic]
        return {
            "ranges": {str(r.partition): [r.before, r.after] for r in receipts},
            "rows": sum(r.sent for r in receipts),
            "commit": self.commit,
            "complete_through": self.complete_through,
            # An item is a topic, or one of its partitions.
            "broken_order": [
                place
                for place in self.report.broken_order
                if topic in (place, place.rpartition("-")[0])
            ],
        }


def publish(opened: OpenRun[EgressRun]) -> Published:
    """Commit the sealed attempt of the run's plan. Needs no broker; idempotent.

    Raises NotSealed if no attempt is sealed, AttemptAbandoned if its claim was released, and
    PlanDead if others have sent a part of the plan.
    """
    run, store, ledger = opened.run, opened.store, opened.ledger
    frozen = opened.frozen_plan()
    plan, fold = frozen.plan, ledger.refresh()
    state, before = delivery_state(fold, plan.id), fold.n
    n = state.commit
    if plan.has_work and not state.is_done:
        delivery = deliveries.sealed_delivery(store, plan, fold)
        if delivery is None:
            raise NotSealed(
                f"plan {plan.id}: no attempt of it is sealed, so nothing proves that all was sent. "
                "Clear the task that runs Spark, or repeat the command with this run id: it sends "
                "what is missing"
            )
        match deliveries.commit_delivery(ledger, plan, delivery, run=run.run_id):
            case Appended(n) | Adopt(n):
                pass
            case Refused(reason):
                raise AttemptAbandoned(f"plan {plan.id}: {reason}")
            case Moved(reason):
                raise IdentityChanged(f"plan {plan.id}: {reason}; it is sent, and not committed")
            case other:
                raise PlanDead(f"plan {plan.id}: others have sent a part of it: {other}")
    variables.write_variables(run.mirror, run.spec, fold)
    faults.point("caches.half")
    commit = fold.live[n] if n is not None else None
    delivery = deliveries.read_delivery(store, Attempt.of(commit)) if commit else None
    report = reports.summarize(run, store, frozen, n, commit, delivery)
    note = opened.note(plan)
    through = note.get("surveyed_at") if commit and note.get("takes_all") else None
    report_store.keep_report(
        run, store, report, plan, note,
        lambda: reports.describe(run, store, plan, delivery, fold, through),
    )  # fmt: skip
    checkpointing.make_if_due(store, run.spec.name, opened.ledger)
    new = (n,) if n is not None and n > before else ()
    return Published(plan, n, fold.egress.target_ends, report, through, new)


def verdict(opened: OpenRun[EgressRun]) -> None:
    """Raise PartitionsLeftOut if the run's plan excludes files or ranges.

    A broken order is only logged: a log cannot be reordered.
    """
    frozen = opened.latest_plan()
    if frozen is None:
        return
    plan, fold = frozen.plan, opened.ledger.refresh()
    n = delivery_state(fold, plan.id).commit
    if n is not None and (where := fold.live[n].broken_order):
        logger.warning(
            "%s: commit #%d: the order is broken in %s: later rows were sent before earlier ones",
            plan.pipeline, n, ", ".join(where),
        )  # fmt: skip
    if plan.left_out:
        raise PartitionsLeftOut(
            f"pipeline {plan.pipeline!r}: all else is sent, this is not: "
            + "; ".join(map(str, plan.left_out[:_NAMED]))
            + (f"; and {len(plan.left_out) - _NAMED} more" if plan.left_out[_NAMED:] else "")
            + (_REMEDY if settings_of_plan(plan).source.path else ""),
            left_out=[each.to_json() for each in plan.left_out],
        )
