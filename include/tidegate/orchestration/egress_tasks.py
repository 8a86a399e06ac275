"""The tasks of an egress pipeline's DAG: each gathers what its use case needs, and calls it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowSkipException

from tidegate.errors import ConfigurationError
from tidegate.orchestration.tasks import (
    SparkTask,
    airflow_errors,
    of_run,
    show_plan,
    show_published,
)
from tidegate.pipelines.files import load_named
from tidegate.pipelines.spec import Egress

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs.run import EgressRun

PARAMS = ("max_records", "dry_run", "replan", "resend")

RunOf = Callable[["Context"], "EgressRun"]
"""Returns the run that a task instance belongs to, by its Params."""

# None: cleared; one that was running is restarting until its process has ended.
_ENDED = {None, "success", "failed", "upstream_failed", "skipped", "removed", "up_for_retry"}

logger = logging.getLogger(__name__)


def run_of(pipeline: str, context: Context) -> EgressRun:
    """Return the run of a pipeline's own DAG that a task instance belongs to."""
    spec = load_egress(pipeline)
    return run_by(spec, context, PARAMS, resend=bool(context["params"].get("resend")))


def load_egress(pipeline: str) -> Egress:
    """Read the file of an egress pipeline."""
    spec = load_named(pipeline)
    if not isinstance(spec, Egress):
        raise ConfigurationError(f"pipeline {pipeline!r} is no egress")
    return spec


def run_by(spec: Egress, context: Context, params: Collection[str], **others: Any) -> EgressRun:
    """Return the run that a task instance belongs to, with that instance's name."""
    from tidegate.orchestration import connections
    from tidegate.runs.run import EgressRun

    ti = context["ti"]
    return EgressRun(
        spec=spec,
        kafka=connections.kafka(spec.kafka),
        task={"dag": ti.dag_id, "run": ti.run_id, "task": ti.task_id, "try": ti.try_number},
        **others,
        **of_run(context, params),
    )


def plan(run_of: RunOf, context: Context) -> bool:
    """Freeze the run's plan; False, which skips the rest, when there is nothing to send."""
    from tidegate.egress import plan as planning
    from tidegate.egress.explain import explain
    from tidegate.runs.run import open_run

    with airflow_errors():
        opened = open_run(run_of(context))
        if context["params"].get("dry_run"):
            logger.info("dry run, nothing is frozen: %s", json.dumps(explain(opened), indent=1))
            return False
        replan = bool(context["params"].get("replan"))
        frozen = planning.plan(opened, _task_ended(context), replan=replan).frozen
    planned = frozen.plan
    show_plan(opened.run, frozen, context)
    logger.info(
        "plan %s: %s", planned.id,
        f"{len(planned.files)} files, {planned.records:,} rows known"
        if planned.has_work else "nothing new",
    )  # fmt: skip
    return planned.has_work


class SendOperator(SparkTask):
    """Sends and verifies the run's plan, by one spark-submit."""

    def work(self, run: EgressRun, context: Context) -> None:
        from tidegate.egress.send import send
        from tidegate.runs.run import open_run

        sent = send(open_run(run), lambda s: self.submit(s, context), _task_ended(context))
        if sent:
            logger.info("plan %s: %s rows are in the target", sent.plan_id, sent.rows)


def publish(run_of: RunOf, context: Context) -> None:
    """Commit what is sealed; put the target's ends into XCom, Variables and asset events."""
    from tidegate.egress.publish import publish as record
    from tidegate.runs.run import open_run

    with airflow_errors():
        run = run_of(context)
        published = record(open_run(run))
    show_published(run.spec.name, run.spec.target.names, published, context)
    logger.info("%s rows in commit %s", f"{published.report['rows']:,}", published.commit)


def verdict(run_of: RunOf, context: Context) -> None:
    """Fail the run if files had to be left out, naming them."""
    from tidegate.egress.publish import verdict as judge
    from tidegate.runs.run import open_run

    if context["params"].get("dry_run"):
        raise AirflowSkipException("dry run")
    with airflow_errors():
        judge(open_run(run_of(context)))


def _task_ended(context: Context) -> Any:
    """Return a function that says whether a sender's task has ended, as far as Airflow knows."""
    ours = context["ti"]

    def ended(task: Mapping[str, Any]) -> bool:
        same = (task["dag"], task["run"], task["task"]) == (ours.dag_id, ours.run_id, ours.task_id)
        if same:
            return bool(task["try"] < ours.try_number)
        states = ours.get_task_states(
            dag_id=task["dag"], run_ids=[task["run"]], task_ids=[task["task"]]
        )
        return states.get(task["run"], {}).get(task["task"], "unknown") in _ENDED

    return ended
