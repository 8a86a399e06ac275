"""Explain an egress: what a run would send now. It drafts as `plan` does, and does nothing."""

from __future__ import annotations

from typing import Any

from tidegate.core.offsets import window_to_json
from tidegate.egress import lake_source
from tidegate.egress import plan as planning
from tidegate.egress.sender import is_dead
from tidegate.runs.run import EgressRun

FORMAT = 1


def explain(run: EgressRun) -> dict[str, Any]:
    """Return what the run would do (contract: `explain --json`, egress)."""
    fold = run.ledger(run.store()).fold
    plan, found = planning.preview(run)
    target = plan.target or {}
    claim = fold.claims.get(plan.id) if run.asked else fold.oldest_open_claim
    held = lake_source.lake_files(plan) if plan.chunks else []
    return {
        "format": FORMAT,
        "pipeline": run.spec.name,
        "kind": run.spec.kind,
        "lane": plan.lane,
        "replay": run.asked
        and {
            "id": run.asked.id,
            "where": run.asked.where,
            "done": fold.is_sent(plan.id),
            "commit": fold.committed.get((plan.id, 0)),
        },
        "plan_id": plan.id if all(each.topic_id for each in target.values()) else None,
        "finishes_first": claim
        and {
            "plan_id": claim.plan_id,
            "attempt": claim.attempt,
            "sender_dead": is_dead(claim.sender, claim.attempt, lambda _: False, patience=0),
        },
        "files": [file.to_json() for file in plan.files],
        "offsets": [window_to_json(window) for window in plan.chunks],
        "records": plan.records,
        "bytes": sum(f.size for f in plan.files) + sum(f.size for f in held),
        "later": {
            "files": len(found.files) - len(plan.files),
            "offsets": sum(map(len, found.ranges)) - sum(len(r) for w in plan.chunks for r in w),
            "young": len(found.young),
            "ahead": found.ahead,
        },
        "left_out": [each.to_json() for each in plan.left_out],
        "target": {
            topic: {"topic_id": each.topic_id or None, "partitions": each.partitions}
            for topic, each in target.items()
        },
    }
