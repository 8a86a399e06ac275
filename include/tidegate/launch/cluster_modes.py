"""Cluster mode, by the kind of master. Each has one module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import kube_cluster, yarn_cluster
from tidegate.launch.master_kinds import master_kind
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import Submission
from tidegate.runs.engine_protocol import Application, Ended, Unknown
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark.job_files import JobFile


class ClusterMode(Protocol):
    """What differs between clusters that run a driver. `tidegate.runs.engine_protocol` has the
    meaning of what is of the same name there.
    """

    def ask(self, spark: SparkConnection) -> str:
        """Return what answers for the master. OSError if nothing does."""

    def refuse(
        self, spark: SparkConnection, kafka: JavaCluster, conf: Mapping[str, str]
    ) -> None: ...

    def application(
        self,
        job: JobFile,
        call: Submission,
        attempt: Attempt,
        store: Store,
        spark: SparkConnection,
        submit: Callable[[Submission], None],
    ) -> Application:
        """Return an application, whose `call` is that of client mode."""

    def identity(self, attempt: Attempt, spark: SparkConnection) -> Mapping[str, str]: ...

    def end(
        self, identity: Mapping[str, str], attempt: Attempt, store: Store, spark: SparkConnection
    ) -> Ended | Unknown: ...

    def running(self, identity: Mapping[str, str], spark: SparkConnection) -> Sequence[str]: ...

    def left_behind(self, store: Store, plan_id: str) -> Sequence[str]: ...

    def notices(self, store: Store, spark: SparkConnection) -> Iterator[str]: ...


_MODES: Mapping[str, ClusterMode] = MappingProxyType(
    {yarn_cluster.MASTER: yarn_cluster.Yarn(), kube_cluster.MASTER: kube_cluster.Kubernetes()}
)


def mode_of_master(spark: SparkConnection) -> ClusterMode | None:
    """Return the cluster mode that the master has, also for a connection in client mode."""
    kind = master_kind(spark.master)
    return _MODES.get(kind.name) if kind else None


def mode_of(spark: SparkConnection) -> ClusterMode | None:
    """Return the cluster mode of a connection. None for one in client mode."""
    return mode_of_master(spark) if spark.is_cluster else None


def mode_of_identity(identity: Mapping[str, str]) -> ClusterMode | None:
    """Return the cluster mode of an application. None if this version does not know it."""
    return _MODES.get(identity.get("master", ""))
