"""Explain an egress: what `plan` would plan now. Nothing stays written."""

from __future__ import annotations

from typing import Any

from tidegate.core.offsets import window_to_json
from tidegate.core.plan import Plan
from tidegate.core.work import delivered
from tidegate.egress import proposal
from tidegate.egress.lake_source import open_lake_of, planned_files, window_of
from tidegate.egress.planning import preview
from tidegate.egress.sender import is_dead_here
from tidegate.runs.client_options import explained_options
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.run import EgressRun, OpenRun

FORMAT = 1


def explain(opened: OpenRun[EgressRun], *, source_kafka: Kafka | None = None) -> dict[str, Any]:
    """Return what the run would do (contract: `explain --json`, egress).

    `source_kafka` is the Kafka from which the source's lake was read, if there is one.
    LakeReadOnly or LakeUnavailable if the run could not write to its ledger's lake.
    """
    run, fold = opened.run, opened.ledger.fold
    opened.store.check_writing()
    plan, backlog = preview(opened)
    target = plan.target or {}
    state = delivered(fold, plan.id)
    claim = state.claim if run.asked else fold.oldest_open_claim
    lake = backlog.unsent.lake or (
        open_lake_of(plan, run.stores, run.pipelines) if plan.chunks else None
    )
    lake_files = planned_files(lake, plan) if lake and plan.chunks else []
    return {
        "format": FORMAT,
        "pipeline": run.spec.name,
        "kind": run.spec.kind,
        "kafka": run.kafka.to_json(),
        "source_kafka": source_kafka and source_kafka.to_json(),
        "lane": plan.lane,
        "replay": run.asked
        and {
            "id": run.asked.id,
            "where": plan.where,
            "done": state.is_done,
            "commit": state.commit,
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
        "unchecked": _expressions(run, plan),
        "target": {
            topic: {"topic_id": each.topic_id or None, "partitions": each.partitions}
            for topic, each in target.items()
        },
        "settings": explained_options(run),
        "notices": [
            *run.spec.notices,
            *proposal.missing_columns(run, plan),
            *_values_of_directories(plan),
            *run.engine.notices(opened.store),
        ],
    }


def _values_of_directories(plan: Plan) -> list[str]:
    """Return a notice if directories are named as Hive's, and their values stand nowhere else."""
    known = {name.lower() for name, _ in plan.columns or ()}
    names = {
        part.partition("=")[0]
        for file in plan.files
        for part in file.name.split("/")[:-1]
        if "=" in part
    }
    lost = sorted(name for name in names if name.lower() not in known)
    if not lost:
        return []
    listed = ", ".join(f"{each}=…" for each in lost)
    return [
        f"the values in the names of directories ({listed}) are not sent: rows have the columns of "
        "their files alone"
    ]


def _expressions(run: EgressRun, plan: Plan) -> list[str]:
    """Return the names of the given SQL expressions, which only Spark can check."""
    columns = [f"columns.{name}" for name, sql in run.spec.expressions.items() if sql]
    where = ["where"] if plan.where is not None else []
    return [*where, *columns, *(["order_by"] if run.spec.order_by else [])]
