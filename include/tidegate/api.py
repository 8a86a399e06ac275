"""The Python API: `tidegate.files`, `status`, `plan`, `run` and `open_lake` (docs/python-api.md).

A `pipeline` is the name of a pipeline file in TIDEGATE_PIPELINES, the path of a file, or a spec. A
connection that is not given is looked up as the command line does: in the environment, else in the
environment's Airflow. All errors are `tidegate.errors.TidegateError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import connections, flows, statuses
from tidegate.connections import Connection
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import ConfigurationError
from tidegate.orchestration import command_connections
from tidegate.pipelines import pipeline_files as pipeline_files
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from tidegate.broker.kafka_cluster import KafkaCluster
    from tidegate.lake.committed_files import CommittedFile
    from tidegate.lake.dataset import Lake
    from tidegate.launch.spark_submit import Submission
    from tidegate.runs.steps import AnyPublished

__all__ = ["OffsetRange", "files", "open_lake", "plan", "run", "status"]

Pipeline = str | Path | Spec
"""A pipeline's name, the path of its file, or its spec."""

logger = logging.getLogger("tidegate")


def files(pipeline: Pipeline) -> list[CommittedFile]:
    """Return the committed files of an ingest pipeline, in the order of their commits.

    One mapping per file, as `tidegate files --json` prints it: offsets `first` to `last`, both
    inclusive, of one partition, and `rows`, `bytes`, `uri` and `path`. By the ledger alone: neither
    Kafka nor a data file is read. ConfigurationError for an egress, a wrong file or a lake without
    a ledger, LakeUnavailable for a store that does not answer.
    """
    from tidegate.ingest.status import lake_files as committed

    spec = _ingest(pipeline)
    return committed(spec, flows.store(spec))


def open_lake(
    pipeline: Pipeline,
    topic: str | None = None,
    *,
    at: int | datetime | None = None,
    latest: bool = False,
) -> Lake:
    """Return the lake of an ingest pipeline, or one topic of it, read-only, as its ledger is now.

    `at`: as it was after a ledger entry, or the last one written by a time (with a zone). `latest`:
    its views have the latest row of each key, without those that a tombstone ends. Errors as
    those of `files`; ConfigurationError also if decoded columns of one name have types that do not
    fit together: then give the `topic`; and if files of an earlier state are deleted.
    """
    from tidegate.lake import dataset
    from tidegate.lake.ledger import as_of, read_existing

    spec = _ingest(pipeline)
    store = flows.store(spec)
    fold = read_existing(store, spec.name) if at is None else as_of(store, spec.name, at)
    return dataset.Lake(spec.name, store, fold, topic, is_past=at is not None, latest=latest)


def status(pipeline: Pipeline, kafka: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the document of `tidegate status --json`: state, positions and lag, or what waits.

    `kafka` is the extra of a Kafka connection: `{"bootstrap.servers": "host:9092"}`. A broker that
    does not answer is no error: `broker` says why, and its numbers are None. Writes nothing.
    """
    spec = _spec(pipeline)
    return statuses.status_of(spec, lambda _: _kafka(spec, kafka)).to_json()


def plan(
    pipeline: Pipeline,
    run_id: str,
    *,
    kafka: Mapping[str, Any] | None = None,
    max_records: int | None = None,
    max_chunks: int | None = None,
    resend: bool = False,
    replan: bool = False,
) -> Plan:
    """Freeze the plan of a run, and return it. A run that has a valid plan keeps that one.

    `run` with the same `run_id` carries it out. A plan has an `id` of 16 hex digits; `has_work`;
    `records`, the most rows that it can move; of an ingest `chunks`, each a tuple of `OffsetRange`
    that one commit takes; of an egress `files`; and `left_out`, what it excludes and why.

    `kafka` as in `status`. `max_records` is the size of a chunk, `max_chunks` (ingest) the most
    commits; `resend` (egress) also takes changed files whose names were sent. `replan` forces a new
    plan even if the run's plan is valid. Needs Kafka, and no Spark. BrokerUnreachable and
    LakeUnavailable may be retried.
    """
    this = _run(_spec(pipeline), run_id, kafka, max_records, max_chunks, resend=resend)
    planned = flows.flow_of(this.spec).plan(this, replan=replan)
    frozen: Plan = planned.plan
    return frozen


def run(
    pipeline: Pipeline,
    run_id: str | None = None,
    *,
    kafka: Mapping[str, Any] | None = None,
    master: str | None = None,
    max_records: int | None = None,
    max_chunks: int | None = None,
    resend: bool = False,
    replan: bool = False,
    log: Callable[[str], None] = logger.info,
) -> Mapping[str, Any]:
    """Carry out a whole run, and return its report: the document of `tidegate run --json`.

    A run with the id of an earlier one continues it. Without an id it is a new run. `master` is
    Spark's, in place of the Spark connection: `local[2]`, `spark://host:7077`. `log` gets the lines
    of Spark's output that people are to see. The other arguments are those of `plan`.

    Raises PartitionsLeftOut after the healthy partitions or files are published, StageFailed if
    Spark fails, and what `plan` raises. After a transient error, call it again with the same id.
    """
    from tidegate.launch import spark_connection, spark_submit

    spec = _spec(pipeline)
    this = _run(spec, run_id, kafka, max_records, max_chunks, resend=resend)
    if master:
        spark = spark_connection.parse_connection("master", master, {}, spec.spark.place)
    else:
        spark = command_connections.spark(spec)

    def submit(application: Submission) -> None:
        spark_submit.submit(application, master=spark.master, log=log)

    done: AnyPublished = flows.flow_of(spec).run_all(this, spark, submit, replan=replan)
    return done.report.to_json()


def _run(
    spec: Spec,
    run_id: str | None,
    kafka: Mapping[str, Any] | None,
    max_records: int | None,
    max_chunks: int | None,
    *,
    resend: bool,
) -> Any:
    options = flows.given_options(
        spec, max_records=max_records, max_chunks=max_chunks, resend=resend
    )
    return flows.new_run(spec, _kafka(spec, kafka), run_id, **options)


def _kafka(spec: Spec, extra: Mapping[str, Any] | None) -> KafkaCluster:
    if extra is None:
        return command_connections.kafka(spec)
    return connections.kafka(spec, lambda: Connection("kafka", extra=extra))


def _spec(pipeline: Pipeline) -> Spec:
    if isinstance(pipeline, str):
        return pipeline_files.load_named(pipeline)
    return pipeline_files.load_spec(pipeline) if isinstance(pipeline, Path) else pipeline


def _ingest(pipeline: Pipeline) -> Ingest:
    spec = _spec(pipeline)
    if not isinstance(spec, Ingest):
        raise ConfigurationError(
            f"pipeline {spec.name!r} is an egress: only ingest pipelines have a lake of rows"
        )
    return spec
