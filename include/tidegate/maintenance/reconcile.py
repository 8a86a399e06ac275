"""Reconcile: hold every copy of the cursors against the ledger, and mend what is behind."""

from __future__ import annotations

from typing import Any

from tidegate.broker.settings import KafkaSettings
from tidegate.ingest import consumer_group
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs import variables as mirrored
from tidegate.runs.run import Mirror

FORMAT = 1


def reconcile(spec: Spec, mirror: Mirror | None, kafka: KafkaSettings | None) -> dict[str, Any]:
    """Name each Variable, and each offset of the group, that is not the ledger's cursor; mend it.

    A Variable that is ahead is left alone, and the others are mended all the same. `mirror` is
    None where there is no Airflow; `kafka` is needed only if the pipeline has a group.
    """
    ledger = Ledger(open_store(spec.lake, spec.name), spec.name)
    variables = None
    if mirror is not None:
        found = mirrored.drifts(mirror, spec, ledger)
        for drift in found:
            if drift.state != "ahead":
                drift.mend(mirror)
        variables = [{**drift.to_json(), "mended": drift.state != "ahead"} for drift in found]
    group = None
    if isinstance(spec, Ingest) and spec.progress_group and kafka is not None:
        group = consumer_group.reconcile(spec, kafka, ledger.fold)
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "entry": ledger.fold.n,
        "variables": variables,
        "group": group,
    }


def left_ahead(found: dict[str, Any]) -> list[str]:
    """Return the names of the Variables that could not be mended."""
    return [each["name"] for each in found["variables"] or () if not each["mended"]]
