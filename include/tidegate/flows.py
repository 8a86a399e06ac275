"""The functions and options of each kind of pipeline: ingest and egress.

Commands, DAGs, tasks and the status page use this table. A function is imported when it is called,
so that parsing a DAG file or printing a help text imports neither Kafka nor Spark nor Arrow.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.core.requests import Replay
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Ingest

if TYPE_CHECKING:
    from tidegate.broker.kafka_cluster import KafkaCluster
    from tidegate.lake.store_protocol import Store, Stores
    from tidegate.launch.spark_connection import SparkConnection
    from tidegate.launch.spark_engine import Submit
    from tidegate.runs.engine_protocol import Engine
    from tidegate.runs.run import EgressRun, Run
    from tidegate.runs.spec_protocol import Spec

KafkaOf = Callable[["Spec"], "KafkaCluster"]
"""Returns the settings of a pipeline's Kafka connection."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Flow:
    """The functions of one kind of pipeline. `spec` and `run` are of that kind.

    `spark_step` is the name of the step that starts Spark, and of its task. `option` is the one
    option of a run that the other kind does not have. `publishes_partly`: a run may have chunks to
    publish although its Spark step has failed.
    """

    kind: str
    spark_step: str
    option: str
    publishes_partly: bool
    new_run: Callable[..., Any]
    """(spec, kafka, **settings): the run."""
    replay: Callable[[Any, str | None, KafkaOf, Mapping[str, Any]], dict[str, Any]]
    """(spec, topic, kafka_of, given): settings of a run that replays a window, or files."""
    plan: Callable[..., Any]
    """(run, replan=): the run's Planned, frozen if it had none."""
    work: Callable[..., Any]
    """(run, spark, submit): carry out the Spark step on a Spark connection."""
    publish: Callable[..., Any]
    """(run): commit what is sealed. The run's Published."""
    verdict: Callable[..., None]
    """(run): raise if chunks are missing, or partitions or files were excluded."""
    run_all: Callable[..., Any]
    """(run, spark, submit, replan=, on_planned=, on_published=, on_progress=): all steps;
    Published."""
    early_end: Callable[[Any], Any]
    """(run): what a run that ended early leaves behind, as EarlyEnd."""
    explain: Callable[[Any, SparkConnection, KafkaOf], dict[str, Any]]
    """(run, spark, kafka_of): what the run would do."""
    status: Callable[[Any, KafkaOf], dict[str, Any]]
    """(spec, kafka_of): the document of `tidegate status --json`."""
    verify: Callable[..., dict[str, Any]]
    """(spec, store, kafka, say): the document of `tidegate verify --json`. `say` gets progress
    lines."""


def lazy(function: str) -> Callable[..., Any]:
    """Return a function that imports the named one when it is called."""
    module, _, name = function.rpartition(".")
    return lambda *args, **options: getattr(import_module(module), name)(*args, **options)


def _opening(step: str) -> Callable[..., Any]:
    """Return a function that opens its run, and calls the named step with it."""
    return lambda run, *args, **options: lazy(step)(
        lazy("tidegate.runs.run.open_run")(run), *args, **options
    )


def _stores() -> Stores:
    from tidegate.lake.store import STORES

    return STORES


def store(spec: Spec) -> Store:
    """Return the store of a pipeline's lake."""
    return _stores().open(spec.lake, spec.name)


def engine(
    kafka: KafkaCluster | None = None,
    connection: SparkConnection | None = None,
    submit: Submit | None = None,
) -> Engine:
    """Return the engine of a Spark connection.

    Without a connection or `submit` it starts no application: it finds and ends those of earlier
    attempts.
    """
    from tidegate.launch.spark_connection import LOCAL
    from tidegate.launch.spark_engine import SparkEngine

    return SparkEngine(kafka, connection or LOCAL, submit)


def _complete(run: str) -> Callable[..., Any]:
    """Return what makes a run of this class, with its stores and an engine that starts nothing."""
    return lambda spec, kafka, *args, **settings: lazy(run)(
        spec, kafka, *args, stores=_stores(), engine=engine(kafka), **settings
    )


def with_spark(run: Any, spark: SparkConnection, submit: Submit | None = None) -> Any:
    """Return a run on a Spark connection. Without `submit` it starts no application."""
    return replace(run, engine=engine(run.kafka, spark, submit))


def _status_of_ingest(spec: Ingest, kafka_of: KafkaOf) -> dict[str, Any]:
    from tidegate.ingest.status import status

    return status(spec, store(spec), kafka_of(spec))


def _status_of_egress(spec: Egress, _: KafkaOf) -> dict[str, Any]:
    from tidegate.egress.status import status

    return status(spec, _stores(), pipeline_files)


def _window_again(
    spec: Ingest, topic: str | None, _: KafkaOf, given: Mapping[str, Any]
) -> dict[str, Any]:
    from tidegate.runs.requested_windows import without_files
    from tidegate.runs.topics import choose_topic

    chosen = choose_topic(spec.name, spec.topics, topic)
    return {"asked": Replay(chosen, **without_files(spec.name, given))}


def _kafka_of_lake(spec: Egress, kafka_of: KafkaOf) -> KafkaCluster | None:
    """Return the Kafka that an egress's lake is read from. None: files, or it is not known here."""
    try:
        return kafka_of(pipeline_files.load_ingest(spec.source.lake)) if spec.source.lake else None
    except ConfigurationError:  # to send it, the connection is not needed
        return None


INGEST = Flow(
    kind="ingest",
    spark_step="stage",
    option="max_chunks",
    publishes_partly=True,
    new_run=_complete("tidegate.runs.run.Run"),
    replay=_window_again,
    plan=_opening("tidegate.ingest.planning.plan"),
    work=lambda run, spark, submit: _opening("tidegate.ingest.stage.stage")(
        with_spark(run, spark, submit)
    ),
    publish=_opening("tidegate.ingest.publish.publish"),
    verdict=_opening("tidegate.ingest.publish.verdict"),
    run_all=lambda run, spark, submit, **options: lazy("tidegate.ingest.ingest_run.ingest")(
        with_spark(run, spark, submit), **options
    ),
    early_end=lazy("tidegate.ingest.ingest_run.early_end"),
    explain=lambda run, spark, _: _opening("tidegate.ingest.explain.explain")(
        with_spark(run, spark)
    ),
    status=_status_of_ingest,
    verify=lazy("tidegate.ingest.verify.verify"),
)
EGRESS = Flow(
    kind="egress",
    spark_step="send",
    option="resend",
    publishes_partly=False,
    new_run=lambda spec, kafka, senders=None, **settings: _complete("tidegate.runs.run.EgressRun")(
        spec,
        kafka,
        senders=senders or lazy("tidegate.egress.takeover.ProcessSenders")(),
        pipelines=pipeline_files,
        **settings,
    ),
    replay=lambda spec, topic, kafka_of, given: lazy("tidegate.egress.replay.request")(
        spec, topic, pipeline_files, kafka_of, given
    ),
    plan=_opening("tidegate.egress.planning.plan"),
    work=lambda run, spark, submit: _opening("tidegate.egress.send.send")(
        with_spark(run, spark, submit)
    ),
    publish=_opening("tidegate.egress.publish.publish"),
    verdict=_opening("tidegate.egress.publish.verdict"),
    run_all=lambda run, spark, submit, **options: lazy("tidegate.egress.egress_run.egress")(
        with_spark(run, spark, submit), **options
    ),
    early_end=lazy("tidegate.egress.egress_run.early_end"),
    explain=lambda run, spark, kafka_of: _opening("tidegate.egress.explain.explain")(
        with_spark(run, spark), source_kafka=_kafka_of_lake(run.spec, kafka_of)
    ),
    status=_status_of_egress,
    verify=lazy("tidegate.egress.verify.verify"),
)
FLOWS = {flow.kind: flow for flow in (INGEST, EGRESS)}


def flow_of(spec: Spec) -> Flow:
    """Return the functions of a pipeline's kind."""
    return FLOWS[spec.kind]


def new_run(
    spec: Spec,
    kafka: KafkaCluster,
    run_id: str | None = None,
    *,
    dag_id: str | None = None,
    **settings: Any,
) -> Run | EgressRun:
    """Return a run of a pipeline outside Airflow. Without an id (None) it gets a new one.

    ConfigurationError for an empty id: every repetition of a call with it would be another run.
    """
    from tidegate.connections import of_run

    if run_id == "":
        raise ConfigurationError(f"pipeline {spec.name!r}: the run id is empty")
    now = datetime.now(UTC)
    run_id = run_id or f"manual__{now:%Y-%m-%dT%H:%M:%S}__{secrets.token_hex(3)}"
    run: Run | EgressRun = flow_of(spec).new_run(
        spec,
        of_run(kafka, spec, "run", run_id, secrets.token_hex(4)),
        dag_id=dag_id or f"tidegate__{spec.name}",
        run_id=run_id,
        window_date=now.date(),
        **settings,
    )
    return run


def topics(spec: Spec) -> tuple[str, ...]:
    """Return the topics that a pipeline reads or writes. None where it has a pattern."""
    return spec.topics if spec.kind == "ingest" else spec.target.names


def given_options(spec: Spec, **given: Any) -> dict[str, Any]:
    """Return the options of a run that were given.

    ConfigurationError for the other kind's, and for a limit that is no whole number above 0.
    """
    for option in ("max_records", "max_chunks"):
        if (value := given.get(option)) is not None and (type(value) is not int or value < 1):
            raise ConfigurationError(
                f"pipeline {spec.name!r}: {option}: {value!r} is no whole number of at least 1"
            )
    for flow in FLOWS.values():
        if flow.kind != spec.kind and given.get(flow.option):
            raise ConfigurationError(
                f"pipeline {spec.name!r}: {flow.option} is for {flow.kind} pipelines"
            )
    return {option: value for option, value in given.items() if value}


def for_each(
    names: Iterable[str],
    do: Callable[[Any], dict[str, Any]],
    kinds: Collection[str] = tuple(FLOWS),
) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """Yield each pipeline of these kinds with its result, or with the error.

    An error of one pipeline, whatever its type, never stops the others.
    """
    for name in names:
        try:
            spec = pipeline_files.load_named(name)
            if spec.kind not in kinds:
                continue
            result: dict[str, Any] | Exception = do(spec)
        except Exception as error:
            if not isinstance(error, TidegateError):
                logger.exception("%s: unexpected error", name)
            result = error
        yield name, result
