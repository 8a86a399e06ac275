"""Reports of egress runs: what was sent, the receipts, and the backlog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core import layout
from tidegate.core.entries import Commit, Receipt
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document
from tidegate.core.plan import Plan, TargetTopic
from tidegate.egress.status import Waiting, read_source, waiting_items
from tidegate.lake.deliveries import Delivery
from tidegate.lake.plans import Frozen
from tidegate.lake.store_protocol import Store
from tidegate.runs.client_options import InEffect, effective_settings
from tidegate.runs.run import EgressRun
from tidegate.runs.steps import RunDetails, RunReport
from tidegate.spark.egress_job import SentRows


@dataclass(frozen=True, kw_only=True)
class EgressReport(RunReport):
    """What a run did (contract: the XCom `report`, and `run --json`, of an egress).

    `rows` were sent, `duplicates` of them twice. `quarantined` rows lie in the directory with the
    URI `quarantine`. `broken_order` names topics or partitions. `commit` is None for a run that
    sent nothing.
    """

    kind: str
    duplicates: int
    quarantined: int
    quarantine: str | None
    files: tuple[str, ...]
    commit: int | None
    receipts: tuple[Receipt, ...]
    proof: str | None
    broken_order: tuple[str, ...]


@dataclass(frozen=True)
class ReplayReport(Document):
    """The id of a replay, and the SQL condition for its rows, if any."""

    id: str
    where: str | None


@dataclass(frozen=True, kw_only=True)
class EgressDetails(RunDetails):
    """What the full report adds: rows of each file, and the backlog and settings of now."""

    replay: ReplayReport | None
    target: Mapping[str, TargetTopic]
    attempt: str | None
    versions: Mapping[str, str]
    sent: tuple[SentRows, ...]
    source: str
    source_problem: str | None
    waiting: Waiting | None
    settings: Mapping[str, InEffect]


def summarize(
    run: EgressRun,
    store: Store,
    frozen: Frozen,
    n: int | None,
    commit: Commit | None,
    delivery: Delivery | None,
) -> EgressReport:
    """Return what a run did, by its commit with the number `n`, and the delivery of it."""
    plan = frozen.plan
    receipts = commit.receipts if commit else ()
    quarantined = sum(file.bad for file in delivery.files) if delivery else 0
    return EgressReport(
        pipeline=run.spec.name,
        kind=run.spec.kind,
        run=run.run_id,
        run_key=run.key,
        generation=frozen.generation,
        plan_id=plan.id,
        lane=plan.lane,
        rows=sum(r.sent for r in receipts),
        duplicates=commit.duplicates if commit else 0,
        quarantined=quarantined,
        quarantine=store.uri(layout.quarantine(plan.id, delivery.attempt))
        if delivery and quarantined
        else None,
        files=tuple(file.name for file in plan.files),
        commit=n,
        receipts=receipts,
        proof=delivery.proof if delivery else None,
        broken_order=delivery.broken_order if delivery else (),
        left_out=plan.left_out,
    )


def describe(
    run: EgressRun,
    store: Store,
    plan: Plan,
    delivery: Delivery | None,
    fold: Fold,
    through: str | None,
) -> EgressDetails:
    """Return the rows of each file, and the backlog and settings of now.

    All of the source is sent `through` this time.
    """
    replay = plan.replay or {}
    now = read_source(run.spec, run.stores, run.pipelines, store, fold)
    files = delivery.files if delivery else ()
    return EgressDetails(
        bytes=None,
        complete_through=through,
        lag=waiting_items(now.waiting),
        expires_at=None,
        bad=sum(each.bad for each in files),
        replay=ReplayReport(replay["id"], plan.where) if "asked" in replay else None,
        target=plan.target or {},
        attempt=delivery.attempt if delivery else None,
        versions=delivery.versions if delivery else {},
        sent=tuple(SentRows(each.file, each.rows, each.bad, each.digest) for each in files),
        source=now.source,
        source_problem=now.source_problem,
        waiting=now.waiting,
        settings=effective_settings(run.spec, run.kafka, {}),
    )
