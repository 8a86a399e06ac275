"""The steps of each kind of pipeline: ingest and egress, as one class each.

Commands, DAGs, tasks and the status page call them. A method imports its step when it is called,
so that parsing a DAG file or printing a help text imports neither Kafka nor Spark nor Arrow.
"""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tidegate.core.requests import Replay
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.pipelines import pipeline_files

if TYPE_CHECKING:
    from tidegate.broker.kafka_cluster import KafkaCluster
    from tidegate.core.ended_run import EndedRun, RunError
    from tidegate.core.json_codec import Document
    from tidegate.egress.explain import EgressExplained
    from tidegate.egress.status import EgressStatus
    from tidegate.ingest.explain import IngestExplained
    from tidegate.ingest.status import IngestStatus
    from tidegate.lake.store_protocol import Store, Stores
    from tidegate.launch.spark_connection import SparkConnection
    from tidegate.launch.spark_engine import Submit
    from tidegate.runs.engine_protocol import Engine
    from tidegate.runs.findings import Verified
    from tidegate.runs.pipeline_state import Judged
    from tidegate.runs.run import EgressRun, Run, Senders
    from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Spec
    from tidegate.runs.steps import AnyPublished, EarlyEnd, Planned

KafkaOf = Callable[["Spec"], "KafkaCluster"]
"""Returns the settings of a pipeline's Kafka connection."""
Say = Callable[[str], None]
"""Takes a line of progress."""
AnySpec = TypeVar("AnySpec", "IngestSpec", "EgressSpec")
ThisRun = TypeVar("ThisRun", "Run", "EgressRun")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class Flow(ABC, Generic[AnySpec, ThisRun]):
    """The steps of one kind of pipeline."""

    kind: ClassVar[str]
    spark_step: ClassVar[str]
    """The name of the step that starts Spark, and of its task."""
    option: ClassVar[str]
    """The one option of a run that the other kind does not have."""
    publishes_partly: ClassVar[bool]
    """Whether a run may have chunks to publish although its Spark step has failed."""

    @abstractmethod
    def new_run(self, spec: AnySpec, kafka: KafkaCluster, **settings: Any) -> ThisRun:
        """Return a run, with its stores and an engine that starts no application."""

    @abstractmethod
    def replay(
        self, spec: AnySpec, topic: str | None, kafka_of: KafkaOf, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the settings of a run that replays a window, or files."""

    @abstractmethod
    def plan(self, run: ThisRun, *, replan: bool = False) -> Planned:
        """Return the run's plan. It is frozen now if the run had none."""

    @abstractmethod
    def work(self, run: ThisRun, spark: SparkConnection, submit: Submit) -> None:
        """Carry out the Spark step on a Spark connection."""

    @abstractmethod
    def publish(self, run: ThisRun) -> AnyPublished:
        """Commit what is sealed."""

    @abstractmethod
    def verdict(self, run: ThisRun) -> EndedRun | None:
        """Raise if chunks are missing, or partitions or files were excluded.

        Else record that the run has ended well, and return it as its history has it.
        """

    @abstractmethod
    def run_all(
        self, run: ThisRun, spark: SparkConnection, submit: Submit, **options: Any
    ) -> AnyPublished:
        """Carry out all steps. `options` are those of `ingest`, or of `egress`."""

    @abstractmethod
    def early_end(self, run: ThisRun) -> EarlyEnd:
        """Return what a run that ended early leaves behind."""

    @abstractmethod
    def explain(self, run: ThisRun, spark: SparkConnection, kafka_of: KafkaOf) -> Document:
        """Return what the run would do: the document of `tidegate explain --json`."""

    @abstractmethod
    def status(self, spec: AnySpec, kafka_of: KafkaOf) -> Document:
        """Return the status without its state, which `statuses` makes."""

    @abstractmethod
    def judge(self, spec: AnySpec, status: Any) -> Judged:
        """Return the state that a status of this pipeline shows, whatever its runs did."""

    @abstractmethod
    def verify(self, spec: AnySpec, store: Store, kafka: KafkaCluster | None, say: Say) -> Verified:
        """Return the document of `tidegate verify --json`."""


class IngestFlow(Flow["IngestSpec", "Run"]):
    """From topics into a lake."""

    kind = "ingest"
    spark_step = "stage"
    option = "max_chunks"
    publishes_partly = True

    def new_run(self, spec: IngestSpec, kafka: KafkaCluster, **settings: Any) -> Run:
        from tidegate.runs.run import Run

        return Run(spec, kafka, stores=_stores(), engine=engine(kafka), **settings)

    def replay(
        self, spec: IngestSpec, topic: str | None, kafka_of: KafkaOf, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        from tidegate.runs.requested_windows import without_files
        from tidegate.runs.topics import choose_topic

        del kafka_of
        chosen = choose_topic(spec.name, spec.topics, topic)
        return {"asked": Replay(chosen, **without_files(spec.name, given))}

    def plan(self, run: Run, *, replan: bool = False) -> Planned:
        from tidegate.ingest.planning import plan
        from tidegate.runs.run import open_run

        return plan(open_run(run), replan=replan)

    def work(self, run: Run, spark: SparkConnection, submit: Submit) -> None:
        from tidegate.ingest.stage import stage
        from tidegate.runs.run import open_run

        stage(open_run(with_spark(run, spark, submit)))

    def publish(self, run: Run) -> AnyPublished:
        from tidegate.ingest.publish import publish
        from tidegate.runs.run import open_run

        return publish(open_run(run))

    def verdict(self, run: Run) -> EndedRun | None:
        from tidegate.ingest.publish import verdict

        return _conclude(run, verdict)

    def run_all(
        self, run: Run, spark: SparkConnection, submit: Submit, **options: Any
    ) -> AnyPublished:
        from tidegate.ingest.ingest_run import ingest

        return ingest(with_spark(run, spark, submit), **options)

    def early_end(self, run: Run) -> EarlyEnd:
        from tidegate.ingest.ingest_run import early_end

        return early_end(run)

    def explain(self, run: Run, spark: SparkConnection, kafka_of: KafkaOf) -> IngestExplained:
        from tidegate.ingest.explain import explain
        from tidegate.runs.run import open_run

        del kafka_of
        return explain(open_run(with_spark(run, spark)))

    def status(self, spec: IngestSpec, kafka_of: KafkaOf) -> IngestStatus:
        from tidegate.ingest.status import read_ingest_status

        return read_ingest_status(spec, store(spec), kafka_of(spec))

    def judge(self, spec: IngestSpec, status: IngestStatus) -> Judged:
        from tidegate.ingest.status import judge_ingest

        return judge_ingest(spec, status)

    def verify(
        self, spec: IngestSpec, store: Store, kafka: KafkaCluster | None, say: Say
    ) -> Verified:
        from tidegate.ingest.verify import verify

        return verify(spec, store, kafka, say)


class EgressFlow(Flow["EgressSpec", "EgressRun"]):
    """From files, or a lake, back into a topic."""

    kind = "egress"
    spark_step = "send"
    option = "resend"
    publishes_partly = False

    def new_run(
        self, spec: EgressSpec, kafka: KafkaCluster, senders: Senders | None = None, **settings: Any
    ) -> EgressRun:
        from tidegate.egress.takeover import ProcessSenders
        from tidegate.runs.run import EgressRun

        return EgressRun(
            spec, kafka, stores=_stores(), engine=engine(kafka), pipelines=pipeline_files,
            senders=senders or ProcessSenders(), **settings,
        )  # fmt: skip

    def replay(
        self, spec: EgressSpec, topic: str | None, kafka_of: KafkaOf, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        from tidegate.egress.replay import replay_settings

        return replay_settings(spec, topic, pipeline_files, kafka_of, given)

    def plan(self, run: EgressRun, *, replan: bool = False) -> Planned:
        from tidegate.egress.planning import plan
        from tidegate.runs.run import open_run

        return plan(open_run(run), replan=replan)

    def work(self, run: EgressRun, spark: SparkConnection, submit: Submit) -> None:
        from tidegate.egress.send import send
        from tidegate.runs.run import open_run

        send(open_run(with_spark(run, spark, submit)))

    def publish(self, run: EgressRun) -> AnyPublished:
        from tidegate.egress.publish import publish
        from tidegate.runs.run import open_run

        return publish(open_run(run))

    def verdict(self, run: EgressRun) -> EndedRun | None:
        from tidegate.egress.publish import verdict

        return _conclude(run, verdict)

    def run_all(
        self, run: EgressRun, spark: SparkConnection, submit: Submit, **options: Any
    ) -> AnyPublished:
        from tidegate.egress.egress_run import egress

        return egress(with_spark(run, spark, submit), **options)

    def early_end(self, run: EgressRun) -> EarlyEnd:
        from tidegate.egress.egress_run import early_end

        return early_end(run)

    def explain(self, run: EgressRun, spark: SparkConnection, kafka_of: KafkaOf) -> EgressExplained:
        from tidegate.egress.explain import explain
        from tidegate.runs.run import open_run

        opened = open_run(with_spark(run, spark))
        return explain(opened, source_kafka=_kafka_of_lake(run.spec, kafka_of))

    def status(self, spec: EgressSpec, kafka_of: KafkaOf) -> EgressStatus:
        from tidegate.egress.status import read_egress_status

        del kafka_of
        return read_egress_status(spec, _stores(), pipeline_files)

    def judge(self, spec: EgressSpec, status: EgressStatus) -> Judged:
        from tidegate.egress.status import judge_egress

        del spec
        return judge_egress(status)

    def verify(
        self, spec: EgressSpec, store: Store, kafka: KafkaCluster | None, say: Say
    ) -> Verified:
        from tidegate.egress.verify import verify

        return verify(spec, store, kafka, say)


def _conclude(run: Any, verdict: Callable[[Any], None]) -> EndedRun | None:
    from tidegate.runs import history
    from tidegate.runs.run import open_run

    opened = open_run(run)
    verdict(opened)
    return history.record_end(run, opened.store, opened.known_plan(), None)


INGEST, EGRESS = IngestFlow(), EgressFlow()
FLOWS: Mapping[str, Flow[Any, Any]] = {flow.kind: flow for flow in (INGEST, EGRESS)}


def flow_of(spec: Spec) -> Flow[Any, Any]:
    """Return the steps of a pipeline's kind."""
    return FLOWS[spec.kind]


def end_failed(run: Any, error: RunError, *, checked: bool) -> EndedRun | None:
    """Record a run that has failed, as `history.record_end` does. Never raises."""
    from tidegate.errors import LakeUnavailable
    from tidegate.lake.plans import latest_plan
    from tidegate.runs import history

    if error.name == LakeUnavailable.__name__:
        return None  # it was asked for long enough
    try:
        opened = run.store()
        frozen = latest_plan(opened, run.key)
    except Exception as problem:  # the run has failed for another reason
        logger.warning("run %s: its end is not in the history: %s", run.run_id, problem)
        return None
    return history.record_end(run, opened, frozen, error, checked=checked)


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


def with_spark(run: Any, spark: SparkConnection, submit: Submit | None = None) -> Any:
    """Return a run on a Spark connection. Without `submit` it starts no application."""
    return replace(run, engine=engine(run.kafka, spark, submit))


def _kafka_of_lake(spec: EgressSpec, kafka_of: KafkaOf) -> KafkaCluster | None:
    """Return the Kafka that an egress's lake is read from. None: files, or it is not known here."""
    try:
        return kafka_of(pipeline_files.load_ingest(spec.source.lake)) if spec.source.lake else None
    except ConfigurationError:  # to send it, the connection is not needed
        return None


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
    from tidegate.connections import for_planner

    if run_id == "":
        raise ConfigurationError(f"pipeline {spec.name!r}: the run id is empty")
    now = datetime.now(UTC)
    run_id = run_id or f"manual__{now:%Y-%m-%dT%H:%M:%S}__{secrets.token_hex(3)}"
    run: Run | EgressRun = flow_of(spec).new_run(
        spec,
        for_planner(kafka, spec, "run", run_id, secrets.token_hex(4)),
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
    do: Callable[[Any], Result],
    kinds: Collection[str] = tuple(FLOWS),
    *,
    at_once: int = 1,
) -> Iterator[tuple[str, Result | Exception]]:
    """Yield each pipeline of these kinds with its result, or with the error, in their order.

    An error of one pipeline, whatever its type, never stops the others. `at_once` are done in
    parallel, in threads.
    """

    def results(name: str) -> list[tuple[str, Result | Exception]]:
        try:
            spec = pipeline_files.load_named(name)
            return [(name, do(spec))] if spec.kind in kinds else []
        except Exception as error:
            if not isinstance(error, TidegateError):
                logger.exception("%s: unexpected error", name)
            return [(name, error)]

    if at_once == 1:
        for name in names:
            yield from results(name)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once) as threads:
        for found in threads.map(results, names):
            yield from found
