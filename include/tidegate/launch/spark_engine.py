"""The engine of a Spark connection: applications by spark-submit, on any master."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import cluster_modes, token_settings
from tidegate.launch.jars import find_java
from tidegate.launch.job_in_lake import withdraw_job
from tidegate.launch.masters import for_places
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.launch.submission import Submission, make_submission
from tidegate.runs.engine_protocol import Application, Ended, Unknown
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.job_files import KafkaJob

Submit = Callable[[Submission], None]
"""Runs one call of spark-submit to its end. Raises what `Application.run` raises."""


@dataclass(frozen=True)
class SparkEngine:
    """The engine of one Spark connection, for the cluster of one Kafka connection.

    By `connection` YARN is asked for applications of earlier attempts, too, whatever its own master
    is. `submit` is how this process runs spark-submit. Without it, or without `kafka`, the engine
    only finds and ends them.
    """

    kafka: JavaCluster | None = None
    connection: SparkConnection = LOCAL
    submit: Submit | None = None

    @property
    def id(self) -> str:
        return self.connection.id

    @property
    def line(self) -> str:
        return self.connection.line

    @property
    def settings(self) -> Mapping[str, str]:
        mode = {"spark.submit.deployMode": "cluster"} if self.connection.is_cluster else {}
        return {**self.connection.conf, **mode}

    @property
    def tasks_at_once(self) -> int | None:
        if self.connection.master == "local":
            return 1
        found = re.fullmatch(r"local\[(\*|\d+).*\]", self.connection.master)
        return found and (os.cpu_count() if found[1] == "*" else int(found[1]))

    def ask_master(self) -> str:
        """Return what answers for the master of a cluster that others run.

        OSError if nothing does, ConfigurationError if it cannot be found.
        """
        if mode := cluster_modes.mode_of_master(self.connection):
            return mode.ask(self.connection)
        raise ConfigurationError(f"master {self.connection.master}: there is nobody to ask")

    def refuse(self, conf: Mapping[str, str], *, starting: bool = False) -> None:
        # Another Spark may know its own Java.
        if starting and self.submit and self.connection.home is None:
            find_java()
        if self.kafka and (mode := cluster_modes.mode_of(self.connection)):
            mode.refuse(self.connection, self.kafka, conf)

    def notices(self, store: Store) -> Iterator[str]:
        yield from self.connection.notices
        if mode := cluster_modes.mode_of(self.connection):
            yield from mode.notices(store, self.connection)

    @contextmanager
    def application(
        self,
        job: KafkaJob,
        attempt: Attempt,
        *,
        store: Store,
        conf: Mapping[str, str],
        places: Sequence[str],
        target_ids: Mapping[str, str] | None = None,
    ) -> Iterator[Application]:
        if self.kafka is None or self.submit is None:
            raise ConfigurationError("this run was made for steps that start no Spark")
        with tempfile.TemporaryDirectory(prefix="tidegate-") as temporary:
            # The process list names the attempt: a driver without its submitter is found by that.
            private = Path(temporary, attempt.name)
            private.mkdir(mode=0o700)
            options, logins = token_settings.split_logins(self.kafka, private)
            whole = replace(job, options={**options, **job.options}, logins=logins)
            call = make_submission(
                whole, private / "job.json", conf, kafka=self.kafka, spark=self.connection
            )
            call = for_places(call, *places, spark=self.connection)
            call = replace(call, target_ids=target_ids or {})
            if mode := cluster_modes.mode_of(self.connection):
                yield mode.application(whole, call, attempt, store, self.connection, self.submit)
            else:
                yield _Child(whole, call, private, self.submit)

    def identity(self, attempt: Attempt) -> Mapping[str, str] | None:
        mode = cluster_modes.mode_of(self.connection)
        return mode.identity(attempt, self.connection) if mode else None

    def end(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> Ended | Unknown:
        if (mode := cluster_modes.mode_of_identity(identity)) is None:
            return Unknown(_unknown(identity))
        return mode.end(identity, attempt, store, self.connection)

    def running(self, identity: Mapping[str, str]) -> Sequence[str]:
        if (mode := cluster_modes.mode_of_identity(identity)) is None:
            why = _unknown(identity)
            raise ConfigurationError(f"{why}: release the claim by the version that has made it")
        return mode.running(identity, self.connection)

    def withdraw(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> None:
        if cluster_modes.mode_of_identity(identity) is None:
            raise ConfigurationError(_unknown(identity))
        withdraw_job(attempt, store)

    def left_behind(self, store: Store, plan_id: str) -> Sequence[str]:
        mode = cluster_modes.mode_of(self.connection)
        return mode.left_behind(store, plan_id) if mode else ()


@dataclass(frozen=True)
class _Child:
    """An application whose driver is a child of this process: its answers are beside its job."""

    job: KafkaJob
    call: Submission
    private: Path
    submit: Submit

    def run(self) -> None:
        self.job.write(self.private / "job.json")
        self.submit(self.call)

    def read(self, name: str) -> str | None:
        return LocalAnswers(self.private).read(name)


def _unknown(identity: Mapping[str, str]) -> str:
    """Return why nothing can be said of an application: its engine is none of this version."""
    return f"master {identity.get('master')!r} is not known here"
