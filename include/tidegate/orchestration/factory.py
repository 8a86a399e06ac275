"""One DAG per pipeline file."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowTimetableInvalid

from tidegate.errors import ConfigurationError
from tidegate.orchestration import tasks
from tidegate.pipelines import files

if TYPE_CHECKING:
    from tidegate.pipelines.spec import Ingest

BEFORE_ANY_RUN = datetime(2024, 1, 1, tzinfo=UTC)


def pipeline_dags() -> dict[str, DAG]:
    """Return every pipeline's DAG by its id; a bad file's DAG says what is wrong when it runs.

    A bad file never takes another pipeline with it, and is seen where people look.
    """
    dags = {}
    for name in files.names():
        try:
            dag = ingest_dag(files.load_named(name))
        except ConfigurationError as error:
            dag = _refusing_dag(name, str(error))
        dags[dag.dag_id] = dag
    return dags


def ingest_dag(spec: Ingest) -> DAG:
    """Return the DAG of topics → lake: plan → stage → publish → verdict."""
    with DAG(
        dag_id=f"tidegate__{spec.name}",
        description=f"{', '.join(spec.topics)} → {spec.lake}",
        doc_md=_doc(spec),
        schedule=_timetable(spec),
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags={"tidegate", "ingest"},
        default_args={"retries": spec.retries, "retry_delay": timedelta(seconds=15)},
        params={
            "max_records": Param(
                None,
                type=["null", "integer"],
                minimum=1,
                description=f"Offsets per commit; empty: the pipeline's {spec.max_records:,}.",
            ),
            "dry_run": Param(False, type="boolean", description="Print the plan, freeze nothing."),
            "replan": Param(
                False, type="boolean", description="Plan again although the run's plan is well."
            ),
        },
    ) as dag:
        pipeline = spec.name

        @task.short_circuit(task_id="plan", ignore_downstream_trigger_rules=False)
        def plan() -> bool:
            return tasks.plan(pipeline, get_current_context())

        stage = tasks.StageOperator(
            task_id="stage", pipeline=pipeline, conn_id=spec.spark.connection
        )

        @task(task_id="publish", outlets=[tasks.asset(pipeline, topic) for topic in spec.topics])
        def publish() -> None:
            tasks.publish(pipeline, get_current_context())

        @task(task_id="verdict", trigger_rule="none_failed")
        def verdict() -> None:
            tasks.verdict(pipeline, get_current_context())

        plan() >> stage >> publish() >> verdict()
    return dag


def _timetable(spec: Ingest) -> CronDataIntervalTimetable | None:
    """Return real data intervals: those of a plain cron string are empty in Airflow 3."""
    if spec.schedule is None:
        return None
    timetable = CronDataIntervalTimetable(spec.schedule, timezone="UTC")
    try:
        timetable.validate()
    except AirflowTimetableInvalid as error:
        raise ConfigurationError(
            f"pipeline {spec.name!r}: schedule: {spec.schedule!r} is not a cron expression: {error}"
        ) from None
    return timetable


def _refusing_dag(name: str, complaint: str) -> DAG:
    with DAG(
        dag_id="tidegate__" + re.sub(r"[^A-Za-z0-9_.-]", "-", name),
        description="This pipeline's file is wrong: see its documentation",
        doc_md=f"The pipeline file is wrong:\n\n```\n{complaint}\n```",
        schedule=None,
        start_date=BEFORE_ANY_RUN,
        tags={"tidegate", "broken"},
    ) as dag:

        @task(task_id="plan", retries=0)
        def refuse() -> None:
            tasks.refuse(complaint)

        refuse()
    return dag


def _doc(spec: Ingest) -> str:
    return f"""\
### {spec.name}: {", ".join(spec.topics)} → {spec.lake}

Each run takes exactly what arrived since the last one, in commits of at most
{spec.max_records:,} offsets.

- **plan** reads ledger and watermarks and freezes this run's plan; nothing new: the rest is skipped
- **stage** reads the planned offsets with Spark into a directory of its own, and seals what is
  proven complete
- **publish** makes the sealed files part of the lake by one ledger entry, and shows the offsets in
  XCom and Variables
- **verdict** fails the run if partitions had to be left out, naming them

Any task may be cleared or killed at any moment: the plan stays the same, and no row is lost or
doubled. The truth about progress is the ledger in the lake; the Variables are copies of it.
"""
