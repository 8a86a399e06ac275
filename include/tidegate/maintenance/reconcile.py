"""Reconcile: compare Variables and group offsets with the ledger, and rewrite those behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.json_codec import Document
from tidegate.ingest import consumer_group
from tidegate.ingest.consumer_group import ReconciledGroup
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs import variables
from tidegate.runs.run import Mirror
from tidegate.runs.variables import PartitionDrift

FORMAT = 1


@dataclass(frozen=True)
class ReconciledVariable(Document):
    """A Variable that differed, its state as in `variables.Drift`, and whether it was mended."""

    name: str
    topic: str
    state: str
    partitions: Mapping[int, PartitionDrift]
    mended: bool


@dataclass(frozen=True, kw_only=True)
class Reconciled(Document):
    """What differed from the ledger after an `entry` (contract: `reconcile --json`).

    `variables` is None without Airflow, `group` for a pipeline that has none.
    """

    format: int = FORMAT
    pipeline: str
    entry: int
    variables: tuple[ReconciledVariable, ...] | None
    group: ReconciledGroup | None

    @property
    def ahead(self) -> list[str]:
        """The names of the Variables that are ahead of the ledger, and were not changed."""
        return [each.name for each in self.variables or () if not each.mended]


def reconcile_pipeline(spec: Spec, mirror: Mirror | None, kafka: KafkaCluster | None) -> Reconciled:
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
        rewritten = tuple(
            ReconciledVariable(
                drift.name,
                drift.topic,
                drift.state,
                drift.partitions,
                drift.state != "ahead",
            )
            for drift in drifts
        )
    group = None
    if isinstance(spec, Ingest) and spec.progress_group and kafka is not None:
        group = consumer_group.reconcile_group(spec, kafka, ledger.fold)
    return Reconciled(pipeline=spec.name, entry=ledger.fold.n, variables=rewritten, group=group)
