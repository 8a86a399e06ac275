"""The tasks of a pipeline's DAG: each builds its run and calls the step of the pipeline's kind."""

from __future__ import annotations

import json
import logging
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate import flows
from tidegate.core.requests import Dates, Live
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.orchestration import assets, links
from tidegate.orchestration.airflow_versions import (
    AirflowFailException,
    AirflowSkipException,
)
from tidegate.orchestration.spark_operator import SparkOperator
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.core.requests import DataInterval
    from tidegate.egress.sender import TaskEnded
    from tidegate.lake.plans import Frozen
    from tidegate.runs.run import EgressRun, Run

PARAMS = ("max_records", "dry_run", "replan")

MOST_BYTES = 64 * 1024
"""Of a value in XCom; of a larger one there is the URI of its document in the lake."""

_WIDTH = 100  # of a line in the log of a task

RunOf = Callable[["Context"], "Run | EgressRun"]
"""Returns the run that a task instance belongs to, by its Params."""

# None: cleared. A task that is cleared while running is `restarting` until its process has ended.
_ENDED = {None, "success", "failed", "upstream_failed", "skipped", "removed", "up_for_retry"}

logger = logging.getLogger(__name__)


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Fail at once on terminal errors. Let Airflow retry the others."""
    try:
        yield
    except TidegateError as error:
        if error.kind == "terminal":
            raise AirflowFailException(f"{type(error).__name__}: {error}") from None
        raise


def log_failure(context: Context) -> None:
    """Log the error of a failed task as its last lines: Airflow's own ends with frames.

    A callback of Airflow. It leaves errors that are not Tidegate's as Airflow logs them.
    """
    error = context.get("exception")
    if isinstance(error, TidegateError):
        text = f"{type(error).__name__}: {error}"
    elif isinstance(error, AirflowFailException):
        text = str(error)
    else:
        return
    logger.info("::endgroup::")  # the group "Post Execute", which Airflow's page folds
    for line in text.splitlines():
        for part in textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False):
            logger.error("%s", part)


CALLBACKS = {"on_failure_callback": log_failure, "on_retry_callback": log_failure}
"""Of each task of Tidegate's own DAGs that is not a step of a run."""


def callbacks(run_of: RunOf) -> dict[str, Any]:
    """Return the callbacks of the steps of a run: its failure is recorded in the lake, too."""
    return {
        "on_failure_callback": [partial(record_failure, run_of), log_failure],
        "on_retry_callback": log_failure,
    }


def record_failure(run_of: RunOf, context: Context) -> None:
    """Record in the history of a pipeline that a run has failed. A callback of Airflow.

    Not of a run that cannot be told from the context, as that of a pipeline file that is wrong.
    """
    from tidegate.core.ended_run import RunError
    from tidegate.orchestration.run_stats import send_run

    error = context.get("exception")
    if context["params"].get("dry_run"):
        return
    if isinstance(error, AirflowFailException):
        found = RunError.told(str(error))
    elif isinstance(error, Exception):
        found = RunError.of(error)
    else:
        found = RunError("TaskFailed", "its process has ended: see its log", "transient")
    try:
        run = run_of(context)
    except TidegateError as problem:
        logger.info("the history does not have this run: %s", problem)
        return
    ended = flows.end_failed(run, found, checked=context["ti"].task_id != "verdict")
    send_run(run.spec.name, ended)


def run_of(spec: Spec, context: Context) -> Run | EgressRun:
    """Return the run of a pipeline's own DAG that a task instance belongs to."""
    option = flows.flow_of(spec).option
    settings = flows.given_options(spec, **{option: params_of(context).get(option)})
    return new_run(spec, context, (*PARAMS, option), **request_of(spec, context), **settings)


def request_of(spec: Spec, context: Context) -> dict[str, Any]:
    """Return the request of an ingest, by the type and the data interval of Airflow's run."""
    if not isinstance(spec, Ingest):
        return {}
    interval = _interval(context)
    over_dates = interval and context["dag_run"].run_type == "backfill"
    return {"asked": Dates(interval) if interval and over_dates else Live(interval)}


def new_run(
    spec: Spec, context: Context, known_params: Collection[str], **settings: Any
) -> Run | EgressRun:
    """Return the run that a task instance belongs to; ConfigurationError for unknown Params."""
    refuse_unknown(context, known_params)
    max_records = params_of(context).get("max_records")
    dag_id = context["dag_run"].dag_id
    if started := context["dag_run"].start_date:  # Airflow's are pendulum's
        settings["began"] = datetime.fromisoformat(started.isoformat())
    return run_of_task(spec, context, dag_id, max_records=max_records, **settings)


def run_of_task(spec: Spec, context: Context, dag_id: str, **settings: Any) -> Run | EgressRun:
    """Return the run of a task instance. `dag_id` and Airflow's run id identify its plan."""
    from tidegate.connections import for_planner
    from tidegate.orchestration import airflow_connections, deployment

    interval = _interval(context)
    ti = context["ti"]
    if not isinstance(spec, Ingest):  # to find out later whether this sender has ended
        from tidegate.egress.takeover import ProcessSenders

        task = {
            "dag": ti.dag_id, "run": ti.run_id, "task": ti.task_id, "try": ti.try_number,
            "deployment": deployment.read_identity(),
        }  # fmt: skip
        settings["senders"] = ProcessSenders(task, task_ended(context))
    run: Run | EgressRun = flows.flow_of(spec).new_run(
        spec,
        for_planner(
            airflow_connections.kafka(spec), spec, ti.task_id, ti.run_id, str(ti.try_number)
        ),
        dag_id=dag_id,
        run_id=context["dag_run"].run_id,
        window_date=interval[0].date() if interval else datetime.now(UTC).date(),
        mirror=airflow_connections.Variables(),
        **settings,
    )
    return run


def refuse_unknown(context: Context, known_params: Collection[str]) -> None:
    """Raise ConfigurationError if the run's conf has unknown keys, which Airflow accepts."""
    if unknown := sorted((context["dag_run"].conf or {}).keys() - set(known_params)):
        raise ConfigurationError(f"unknown params {unknown}; there are {list(known_params)}")


def _interval(context: Context) -> DataInterval | None:
    """Return the run's data interval. None if a manual run has none, or an empty one."""
    edges = context.get("data_interval_start"), context.get("data_interval_end")
    # Airflow's are pendulum's, whose arithmetic differs.
    start, end = (each and datetime.fromisoformat(each.isoformat()) for each in edges)
    return (start, end) if start is not None and end is not None and start < end else None


def params_of(context: Context) -> dict[str, Any]:
    """Return the Params with whole numbers as integers.

    JSON has one type of number, so Airflow accepts 5.0 for an integer Param.
    """

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(each) for each in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    return {name: whole(value) for name, value in context["params"].items()}


def plan(run_of: RunOf, context: Context) -> bool:
    """Freeze the run's plan. Return whether it has work, else the other tasks are skipped."""
    from tidegate.orchestration import airflow_connections

    with airflow_errors():
        run = run_of(context)
        flow = flows.flow_of(run.spec)
        if context["params"].get("dry_run"):
            from tidegate.terminal.render import explained_lines

            explained = flow.explain(
                run, airflow_connections.spark(run.spec), airflow_connections.kafka
            )
            logger.info("dry run, nothing is frozen")
            for line in explained_lines(flow.kind, explained):
                logger.info("%s", line)
            return False
        replan = bool(context["params"].get("replan"))
        frozen = flow.plan(_with_client(run), replan=replan).frozen
    push_plan(run, frozen, context)
    return bool(frozen.plan.has_work)


def _with_client(run: Run | EgressRun) -> Run | EgressRun:
    """Return an egress with the Spark by whose client YARN is asked about an open claim.

    A connection that cannot be used is reported by the step that starts Spark.
    """
    from tidegate.launch.spark_connection import LOCAL
    from tidegate.orchestration import airflow_connections

    if isinstance(run.spec, Ingest):
        return run
    try:
        home = airflow_connections.spark(run.spec).home
    except TidegateError:
        return run
    with_client: EgressRun = flows.with_spark(run, replace(LOCAL, home=home))
    return with_client


def push_plan(run: Run | EgressRun, frozen: Frozen, context: Context) -> None:
    """Put a frozen plan into XCom: a reference, and of an ingest its offsets in Spark's form."""
    from tidegate.core import layout
    from tidegate.core.offsets import spark_offsets, window_bounds

    planned = frozen.plan
    uri = run.store().uri(layout.plan(planned.id))
    reference = {
        "pipeline": run.spec.name, "run_key": run.key, "generation": frozen.generation,
        "plan_id": planned.id, "uri": uri,
    }  # fmt: skip
    context["ti"].xcom_push("plan", reference)
    if isinstance(run.spec, Ingest):
        starts, ends = window_bounds(planned.chunks)
        for key, offsets in (("startingOffsets", starts), ("endingOffsets", ends)):
            value = spark_offsets(offsets)
            context["ti"].xcom_push(key, value if is_short(value) else {"uri": uri})
    logger.info("%s", frozen)


def is_short(value: Any) -> bool:
    """Return whether a value can be put into XCom, a row of Airflow's database."""
    return len(value if isinstance(value, str) else json.dumps(value)) <= MOST_BYTES


def numbers_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its lists and mappings."""
    return {k: v for k, v in form.items() if not isinstance(v, list | dict)}


class SparkTask(SparkOperator):
    """Runs the Spark step of a run."""

    operator_extra_links = (links.OF_A_RUN,)

    def __init__(self, *, run_of: RunOf, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._run_of = run_of

    def execute(self, context: Context) -> None:
        from tidegate.orchestration import airflow_connections
        from tidegate.spark.parent_death import end_with_parent

        # If the supervisor is killed, this task and its Spark end, too.
        end_with_parent()
        with airflow_errors():
            run = self._run_of(context)
            flow = flows.flow_of(run.spec)
            if self.task_id != flow.spark_step:
                raise ConfigurationError(
                    f"pipeline {run.spec.name!r} is {flow.kind}, and this task is for the other "
                    "kind: its file was changed during this run. Start a new run"
                )
            self.spark = airflow_connections.spark(run.spec)
            flow.work(run, self.spark, lambda given: self.submit(given, context))
        logger.info("run %s: step %s is complete", run.run_id, flow.spark_step)


def publish(run_of: RunOf, context: Context) -> None:
    """Commit what is sealed. Put offsets and report into XCom, and an event to each asset."""
    with airflow_errors():
        run = run_of(context)
        published = flows.flow_of(run.spec).publish(run)
    push_published(run, published, context)


def push_published(run: Run | EgressRun, published: Any, context: Context) -> None:
    """Put offsets and report into XCom, and an event to each of the task's assets."""
    from tidegate.core import layout
    from tidegate.core.offsets import spark_offsets
    from tidegate.orchestration.lineage import emit_lineage

    def kept() -> dict[str, Any]:
        place = layout.report(published.report.run_key, published.report.generation)
        return {"uri": run.store().uri(place)}

    def short(form: dict[str, Any]) -> dict[str, Any]:
        """Return a document; of a large one its numbers, and where the whole report is."""
        return form if is_short(form) else {**numbers_of(form), **kept()}

    ti, offsets = context["ti"], spark_offsets(published.offsets)
    ti.xcom_push("offsets", offsets if is_short(offsets) else kept())
    ti.xcom_push("report", short(published.report.to_json()))
    assets.fill_events(
        context, run.spec, published.plan.topics, lambda topic: short(published.asset_event(topic))
    )
    emit_lineage(run, published)
    logger.info("%s published", counted(published.report.rows, "row"))


def verdict(run_of: RunOf, context: Context) -> None:
    """Fail the run if chunks are missing, or partitions or files were excluded, naming them."""
    from tidegate.orchestration.run_stats import send_run

    if context["params"].get("dry_run"):
        raise AirflowSkipException("dry run")
    with airflow_errors():
        run = run_of(context)
        ended = flows.flow_of(run.spec).verdict(run)
    if ended:
        context["ti"].xcom_push(assets.THROUGH, ended.complete_through)
    send_run(run.spec.name, ended)


def fail_with(complaint: str) -> None:
    """Fail with the errors of a pipeline file."""
    raise AirflowFailException(complaint)


def task_ended(context: Context) -> TaskEnded:
    """Return a function that says whether Airflow knows that a sender's task has ended.

    Of a task of another deployment it does not know.
    """
    from tidegate.orchestration import deployment

    this = context["ti"]

    def ended(task: Mapping[str, Any]) -> bool:
        if task["deployment"] != deployment.read_identity():
            return False
        if (task["dag"], task["run"], task["task"]) == (this.dag_id, this.run_id, this.task_id):
            return bool(task["try"] < this.try_number)
        states = this.get_task_states(
            dag_id=task["dag"], run_ids=[task["run"]], task_ids=[task["task"]]
        )
        return states.get(task["run"], {}).get(task["task"], "unknown") in _ENDED

    return ended
