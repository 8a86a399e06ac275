"""Reconcile: compare Variables and group offsets with the ledger, and rewrite those behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.ingest import consumer_group
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs import variables
from tidegate.runs.run import Mirror

FORMAT = 1


def reconcile_pipeline(
    spec: Spec, mirror: Mirror | None, kafka: KafkaCluster | None
) -> dict[str, Any]:
    """Rewrite each Variable and group offset that differs from the ledger. Return all of them.

    A Variable that is ahead is not changed. The others are rewritten. `mirror` is None without
    Airflow. `kafka` is needed only if the pipeline has a group.
    """
    ledger = Ledger(open_store(spec.lake, spec.name), spec.name)
    rewritten = None
    if mirror is not None:
        drifts = variables.find_drifts(mirror, spec, ledger)
        for drift in drifts:
            if drift.state != "ahead":
                drift.rewrite(mirror)
        rewritten = [{**drift.to_json(), "mended": drift.state != "ahead"} for drift in drifts]
    group = None
    if isinstance(spec, Ingest) and spec.progress_group and kafka is not None:
        group = consumer_group.reconcile_group(spec, kafka, ledger.fold)
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "entry": ledger.fold.n,
        "variables": rewritten,
        "group": group,
    }


def left_ahead(reconciled: Mapping[str, Any]) -> list[str]:
    """Return the names of the Variables that are ahead of the ledger and were not changed."""
    return [each["name"] for each in reconciled["variables"] or () if not each["mended"]]
