"""The check that Kafka is the cluster whose offsets the ledger has."""

from __future__ import annotations

from tidegate.core.fold import Fold
from tidegate.errors import IdentityChanged
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import Spec


def refuse_another_cluster(spec: Spec, kafka: Kafka, fold: Fold, cluster_id: str) -> None:
    """Raise IdentityChanged if the ledger's offsets are those of another cluster."""
    if fold.cluster_id in (None, cluster_id):
        return
    done = "read" if spec.kind == "ingest" else "written to"
    raise IdentityChanged(
        f"pipeline {spec.name!r} has {done} cluster {fold.cluster_id}; Kafka at "
        f"{kafka.bootstrap_servers} is cluster {cluster_id}. Point the connection "
        f"{kafka.connection!r} back, or give the new cluster a pipeline of its own",
        was=fold.cluster_id,
        now=cluster_id,
    )
