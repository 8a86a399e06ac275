"""The tasks of a pipeline's DAG: each gathers what its use case needs, and calls it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias

from tidegate.core.requests import Dates, Live
from tidegate.errors import ConfigurationError, StageFailed, TidegateError
from tidegate.pipelines.files import load_ingest

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.core.requests import DataInterval
    from tidegate.egress.publish import Published as PublishedEgress
    from tidegate.ingest.publish import Published
    from tidegate.lake.plans import Frozen
    from tidegate.launch.spark_submit import Submission
    from tidegate.pipelines.spec import Ingest
    from tidegate.runs.run import AnyRun, Run

PARAMS = ("max_records", "max_chunks", "dry_run", "replan")

RunOf = Callable[["Context"], "Run"]
"""Returns the run that a task instance belongs to, by its Params."""

logger = logging.getLogger(__name__)


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Fail at once what would fail again; let Airflow retry the rest."""
    try:
        yield
    except TidegateError as error:
        if error.kind == "terminal":
            raise AirflowFailException(f"{type(error).__name__}: {error}") from error
        raise


def run_of(pipeline: str, context: Context) -> Run:
    """Return the run of a pipeline's own DAG that a task instance belongs to."""
    from tidegate.orchestration import connections
    from tidegate.runs.run import Run

    spec = load_ingest(pipeline)
    interval = _interval(context)
    over_dates = interval and context["dag_run"].run_type == "backfill"
    return Run(
        spec=spec,
        kafka=connections.kafka(spec.kafka),
        asked=Dates(interval) if interval and over_dates else Live(interval),
        max_chunks=params_of(context).get("max_chunks"),
        **of_run(context, PARAMS),
    )


def _interval(context: Context) -> DataInterval | None:
    """Return the run's data interval; a run by hand may have none, or an empty one."""
    edges = context.get("data_interval_start"), context.get("data_interval_end")
    # Airflow's are of a library whose arithmetic is another.
    start, end = (each and datetime.fromisoformat(each.isoformat()) for each in edges)
    return (start, end) if start is not None and end is not None and start < end else None


def params_of(context: Context) -> dict[str, Any]:
    """Return the Params as a run takes them: a whole number is an integer, also as `5.0`.

    JSON knows one kind of number, so Airflow takes 5.0 where an integer is asked for.
    """

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(each) for each in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    return {name: whole(value) for name, value in context["params"].items()}


def of_run(context: Context, params: Collection[str]) -> dict[str, Any]:
    """Return what any kind of run takes from Airflow; refuses Params that do not exist."""
    from tidegate.orchestration import connections

    dag_run = context["dag_run"]
    strangers = sorted((dag_run.conf or {}).keys() - set(params))
    if strangers:
        raise ConfigurationError(f"unknown params {strangers}; there are {list(params)}")
    interval = _interval(context)
    return {
        "dag_id": dag_run.dag_id,
        "run_id": dag_run.run_id,
        "window_date": interval[0].date() if interval else datetime.now(UTC).date(),
        "max_records": params_of(context).get("max_records"),
        "mirror": connections.Variables(),
    }


def plan(run_of: RunOf, context: Context) -> bool:
    """Freeze the run's plan; False, which skips the rest, when there is nothing to stage."""
    from tidegate.core.offsets import bounds, spark_offsets
    from tidegate.ingest import plan as use_case
    from tidegate.ingest.explain import explain
    from tidegate.orchestration import connections
    from tidegate.runs.run import open_run

    with airflow_errors():
        run = run_of(context)
        opened = open_run(run)
        if context["params"].get("dry_run"):
            told = explain(opened, master=connections.spark_master(run.spec.spark.connection))
            logger.info("dry run, nothing is frozen: %s", json.dumps(told, indent=1))
            return False
        frozen = use_case.plan(opened, replan=bool(context["params"].get("replan"))).frozen
        planned = frozen.plan
    starts, ends = bounds(planned.chunks)
    show_plan(run, frozen, context)
    context["ti"].xcom_push("startingOffsets", spark_offsets(starts))
    context["ti"].xcom_push("endingOffsets", spark_offsets(ends))
    logger.info(
        "plan %s: %s offsets, %d chunks%s", planned.id, f"{planned.records:,}", len(planned.chunks),
        "" if planned.chunks else ": nothing new",
    )  # fmt: skip
    return bool(planned.chunks)


def show_plan(run: AnyRun, frozen: Frozen, context: Context) -> None:
    """Put a frozen plan into XCom, by reference."""
    from tidegate.core import layout

    uri = run.store().uri(layout.plan(frozen.plan.id))
    told = {"plan_id": frozen.plan.id, "uri": uri, "generation": frozen.generation}
    context["ti"].xcom_push("plan", told)


class SparkTask(SparkSubmitOperator):  # type: ignore[misc]  # Airflow is not read by mypy
    """A task with one Spark application at most, which dies with it."""

    def __init__(self, *, run_of: Callable[[Context], Any], **kwargs: Any) -> None:
        super().__init__(durable=False, **kwargs)
        self._run_of = run_of

    def execute(self, context: Context) -> None:
        from tidegate.spark.parent_death import end_with_parent

        # A supervisor that is killed would leave this task, and Spark below it, running.
        end_with_parent()
        with airflow_errors():
            run = self._run_of(context)
            self._conn_id = run.spec.spark.connection
            self.work(run, context)

    def work(self, run: Any, context: Context) -> None:
        """Do what the task is for."""
        raise NotImplementedError

    def submit(self, submission: Submission, context: Context) -> None:
        """Run an application by the provider, to its end."""
        from tidegate.launch.spark_submit import for_master
        from tidegate.orchestration import connections

        submission = for_master(submission, connections.spark_master(self._conn_id))
        self.application = str(submission.application)
        self.application_args = list(submission.args)
        self.conf = dict(submission.conf)
        self.name = submission.name
        self.env_vars = dict(submission.env)
        self.jars = ",".join(submission.jars)
        self._spark_binary = submission.binary
        self._deploy_mode = "client"  # a connection's `deploy-mode` would beat the setting
        self._hook = None  # the provider makes it from the above
        try:
            super().execute(context)  # the provider's
        except Exception as error:
            raise StageFailed(f"spark-submit failed; its output is above: {error}") from error


class StageOperator(SparkTask):
    """Stages and seals the open chunks of the run's plan, by one spark-submit."""

    def work(self, run: Run, context: Context) -> None:
        from tidegate.ingest.stage import stage
        from tidegate.runs.run import open_run

        staged = stage(open_run(run), lambda s: self.submit(s, context))
        logger.info("plan %s: staged and sealed chunks %s", staged.plan.id, list(staged.chunks))


def publish(run_of: RunOf, context: Context) -> None:
    """Commit and finalise what is sealed; put the offsets into XCom, Variables and asset events."""
    from tidegate.ingest import publish as use_case
    from tidegate.runs.run import open_run

    with airflow_errors():
        run = run_of(context)
        published = use_case.publish(open_run(run))
    show_published(run.spec.name, run.spec.topics, published, context)
    alias = AssetAlias(f"tidegate://{run.spec.name}")
    if alias in context["task"].outlets:  # a pattern's assets come with its topics
        for topic in published.plan.topics:
            told = asset(run.spec.name, topic)
            context["outlet_events"][alias].add(told, extra=published.asset_event(topic))
    logger.info(
        "%s rows in commits %s", f"{published.report['rows']:,}", list(published.commits.values())
    )


def show_published(
    pipeline: str, topics: Iterable[str], published: Published | PublishedEgress, context: Context
) -> None:
    """Put offsets and report into XCom, and an event to each topic's asset among the outlets."""
    from tidegate.core.offsets import spark_offsets

    context["ti"].xcom_push("offsets", spark_offsets(published.offsets))
    context["ti"].xcom_push("report", published.report)
    names = [each.name for each in context["task"].outlets]
    for topic in topics:
        told = asset(pipeline, topic)
        if told.name in names:
            context["outlet_events"][told].extra = published.asset_event(topic)


def verdict(run_of: RunOf, context: Context) -> None:
    """Fail the run if chunks are missing or partitions had to be left out, naming them."""
    from tidegate.ingest import publish as use_case
    from tidegate.runs.run import open_run

    if context["params"].get("dry_run"):
        raise AirflowSkipException("dry run")
    with airflow_errors():
        use_case.verdict(open_run(run_of(context)))


def outlets(spec: Ingest) -> list[Asset | AssetAlias]:
    """Return what a publish task updates."""
    if spec.pattern:
        return [AssetAlias(f"tidegate://{spec.name}")]
    return [asset(spec.name, topic) for topic in spec.topics]


def asset(pipeline: str, topic: str) -> Asset:
    """Return what a pipeline has of a topic, as other DAGs see it."""
    uri = f"tidegate://{pipeline}/{topic}"
    return Asset(uri=uri, name=uri)


def refuse(complaint: str) -> None:
    """Fail with what is wrong with a pipeline file."""
    raise AirflowFailException(complaint)
