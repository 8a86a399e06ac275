"""Reports of egress runs: what was sent, the receipts, and the backlog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tidegate.core import layout
from tidegate.core.entries import Commit
from tidegate.core.fold import Fold
from tidegate.core.plan import Plan
from tidegate.egress.status import read_source
from tidegate.lake.deliveries import Delivery, SentFile
from tidegate.lake.plans import Frozen
from tidegate.lake.store_protocol import Store
from tidegate.runs.client_options import effective_settings
from tidegate.runs.run import EgressRun

FORMAT = 1


def short(
    run: EgressRun,
    store: Store,
    frozen: Frozen,
    n: int | None,
    commit: Commit | None,
    delivery: Delivery | None,
) -> dict[str, Any]:
    """Return what a run did (contract: the XCom `report`, and `run --json`, of an egress)."""
    plan = frozen.plan
    receipts = commit.receipts if commit else ()
    quarantined = sum(file.bad for file in delivery.files) if delivery else 0
    return {
        "format": FORMAT,
        "pipeline": run.spec.name,
        "kind": run.spec.kind,
        "run": run.run_id,
        "run_key": run.key,
        "generation": frozen.generation,
        "plan_id": plan.id,
        "lane": plan.lane,
        "rows": sum(r.sent for r in receipts),
        "duplicates": commit.duplicates if commit else 0,
        "quarantined": quarantined,
        "quarantine": store.uri(layout.quarantine(plan.id, delivery.attempt))
        if delivery and quarantined
        else None,
        "files": [file.name for file in plan.files],
        "commit": n,
        "receipts": [asdict(receipt) for receipt in receipts],
        "proof": delivery.proof if delivery else None,
        "broken_order": list(delivery.broken_order) if delivery else [],
        "left_out": [each.to_json() for each in plan.left_out],
    }


def details(
    run: EgressRun, store: Store, plan: Plan, delivery: Delivery | None, fold: Fold
) -> dict[str, Any]:
    """Return what the full report adds: rows of each file, and the backlog and settings of now."""
    replay = plan.replay or {}
    now = read_source(run.spec, run.stores, run.pipelines, store, fold)
    return {
        "replay": {"id": replay["id"], "where": plan.where} if "asked" in replay else None,
        "target": {topic: asdict(each) for topic, each in (plan.target or {}).items()},
        "attempt": delivery.attempt if delivery else None,
        "versions": dict(delivery.versions) if delivery else {},
        "sent": [_sent(file) for file in delivery.files] if delivery else [],
        "source": now.source,
        "source_problem": now.source_problem,
        "waiting": now.waiting and now.waiting.to_json(),
        "settings": {
            name: each.to_json()
            for name, each in effective_settings(run.spec, run.kafka, {}).items()
        },
    }


def _sent(file: SentFile) -> dict[str, Any]:
    return {"file": file.file, "rows": file.rows, "bad": file.bad, "digest": file.digest}
