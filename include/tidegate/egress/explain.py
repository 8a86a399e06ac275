"""Explain an egress: what `plan` would plan now. Read-only."""

from __future__ import annotations

from typing import Any

from tidegate.core.offsets import window_to_json
from tidegate.egress.lake_source import open_lake_of, planned_files, window_of
from tidegate.egress.plan import preview
from tidegate.egress.sender import is_dead_here
from tidegate.runs.run import EgressRun, OpenRun

FORMAT = 1


def explain(opened: OpenRun[EgressRun]) -> dict[str, Any]:
    """Return what the run would do (contract: `explain --json`, egress)."""
    run, fold = opened.run, opened.ledger.fold
    plan, backlog = preview(opened)
    target = plan.target or {}
    claim = fold.claims.get(plan.id) if run.asked else fold.oldest_open_claim
    lake_files = (
        planned_files(backlog.unsent.lake or open_lake_of(plan), plan) if plan.chunks else []
    )
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
            "sender_dead": is_dead_here(claim.sender, claim.attempt),
        },
        "files": [file.to_json() for file in plan.files],
        "offsets": [window_to_json(window) for window in plan.chunks],
        "records": plan.records,
        "bytes": sum(f.size for f in plan.files) + sum(f.size for f in lake_files),
        "later": {
            "files": len(backlog.files) - len(plan.files),
            "offsets": sum(map(len, backlog.unsent.ranges)) - sum(map(len, window_of(plan))),
            "young": len(backlog.young),
            "ahead": backlog.unsent.ahead,
        },
        "left_out": [each.to_json() for each in plan.left_out],
        "target": {
            topic: {"topic_id": each.topic_id or None, "partitions": each.partitions}
            for topic, each in target.items()
        },
    }
