"""An engine whose applications are functions of the test's own process."""
# ruff: noqa: ARG002 - what it implements has these arguments

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.runs.engine_protocol import Application, Ended, Unknown
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.ingest_job import IngestJob
from tidegate.spark.job_files import KafkaJob

Do = Callable[[Any, Path], None]
"""Does a job, and writes its answers into a directory."""


def starts_nothing(_: KafkaJob, __: Path) -> None:
    raise AssertionError("no application was to be started")


@dataclass
class ToyEngine:
    """Does jobs by a function; another one decides how the applications of other engines ended."""

    do: Do = starts_nothing
    kafka: JavaCluster | None = None
    """If given, its options are added to each job."""
    id: str = "toy"
    line: str = "4.0"
    tasks_at_once: int | None = 2
    asked: list[dict[str, Any]] = field(default_factory=list)
    """With what applications were asked for."""
    ends: Callable[[Mapping[str, str]], Ended | Unknown] = lambda _: Unknown("not known here")

    @property
    def settings(self) -> Mapping[str, str]:
        return {}

    def refuse(self, conf: Mapping[str, str], *, starting: bool = False) -> None:
        pass

    def notices(self, store: Store) -> Iterator[str]:
        yield from ()

    @contextmanager
    def application(self, job: KafkaJob, attempt: Attempt, **asked: Any) -> Iterator[Application]:
        self.asked.append(asked)
        with tempfile.TemporaryDirectory() as directory:
            added = self.kafka.for_java(Path(directory)).options if self.kafka else {}
            whole = replace(job, options={**added, **job.options})
            # It is copied, as by any other engine: what is not in its JSON does not arrive.
            copied = type(job).from_json(whole.to_json())
            yield _Function(self.do, copied, Path(directory))

    def identity(self, attempt: Attempt) -> None:
        return None

    def end(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> Ended | Unknown:
        return self.ends(identity)

    def running(self, identity: Mapping[str, str]) -> list[str]:
        return []

    def withdraw(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> None:
        pass

    def left_behind(self, store: Store, plan_id: str) -> tuple[str, ...]:
        return ()


@dataclass
class _Function:
    do: Do
    job: KafkaJob
    directory: Path

    def run(self) -> None:
        self.do(self.job, self.directory)

    def read(self, name: str) -> str | None:
        return LocalAnswers(self.directory).read(name)


def submitting(do: Do) -> Callable[..., None]:
    """Return what does the job of a call of spark-submit in this process."""

    def submit(call: Any, **_: Any) -> None:
        path = Path(call.args[0])
        kind = IngestJob if call.application.endswith("/ingest.py") else EgressJob
        do(kind.read(path), path.parent)

    return submit
