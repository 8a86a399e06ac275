"""One DAG per pipeline file."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    Param,
    get_current_context,
    get_parsing_context,
    task,
)

from tidegate import connections, flows
from tidegate.errors import ConfigurationError
from tidegate.orchestration import airflow_versions, assets, dag_options, links, tasks
from tidegate.orchestration.airflow_versions import CronDataIntervalTimetable
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Ingest, Spec
from tidegate.pipelines.value_types import is_pipeline_name, is_schedule

_MAX_COMPLAINT = 20_000
_ALARM = "@hourly"  # of a file whose schedule is no longer readable

# Airflow checks the schema of each Param of each DAG. A schema of a newer draft takes three times
# as long.
_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}

logger = logging.getLogger(__name__)

BEFORE_ANY_RUN = datetime(2024, 1, 1, tzinfo=UTC)


def pipeline_dags(loaded: pipeline_files.Loaded | None = None) -> dict[str, DAG]:
    """Return the pipelines' DAGs by their ids, of those that are loaded, or else asked for.

    The DAG of an invalid file shows the errors in Airflow's UI. It never affects other pipelines.
    """
    found = wanted_pipelines() if loaded is None else loaded
    dags = (_dag_or_errors(name, spec) for name, spec in found.items())
    return {dag.dag_id: dag for dag in dags}


def wanted_pipelines() -> pipeline_files.Loaded:
    """Load the pipelines whose DAGs Airflow wants: all of them, or only that of a task.

    Airflow reads the DAG file for each task anew. A thousand DAGs take seconds.
    """
    only = get_parsing_context().dag_id
    return pipeline_files.load_all(
        name for name in pipeline_files.pipeline_names() if not only or dag_id(name) == only
    )


def _dag_or_errors(name: str, spec: Spec | ConfigurationError) -> DAG:
    if isinstance(spec, ConfigurationError):
        return _refusing_dag(name, str(spec))
    try:
        return pipeline_dag(spec)
    except ConfigurationError as error:
        return _refusing_dag(name, str(error))
    except Exception as error:  # Airflow's, about the settings of a valid file
        logger.exception("pipeline %s: its DAG cannot be made", name)
        return _refusing_dag(name, f"Airflow refuses it: {type(error).__name__}: {error}")


def pipeline_dag(spec: Spec) -> DAG:
    """Return the DAG of one pipeline: plan → stage or send → publish → verdict."""
    texts = _ingest_texts(spec) if isinstance(spec, Ingest) else _egress_texts(spec)
    description, doc, params = texts
    tags = {"tidegate", spec.kind, *spec.airflow.tags}
    if spec.notices:
        doc += f"\nAbout its settings:\n\n{_fenced(chr(10).join(spec.notices))}\n"
    try:
        connections.refuse_wrong_kafka(spec)
    except ConfigurationError as error:  # the tasks find it, too, before they ask a broker
        tags.add("broken")
        doc = f"Its Kafka connection is wrong, and `plan` fails:\n\n{_fenced(error)}\n\n{doc}"
    if spec.airflow.doc:
        doc = f"{spec.airflow.doc}\n\n{doc}"
    told: dict[str, Any] = {}
    for argument in (dag_options.failure_argument, dag_options.deadline_argument):
        try:
            told |= argument(spec)
        except ConfigurationError as error:  # no alert stops data
            tags.add("broken")
            doc = f"Nobody is told as its file says:\n\n{_fenced(error)}\n\n{doc}"
    run_of = partial(tasks.run_of, spec)
    with DAG(
        dag_id=f"tidegate__{spec.name}",
        description=description,
        doc_md=doc,
        schedule=dag_options.dag_schedule(spec),
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags=tags,
        default_args={
            "retries": spec.retries,
            "retry_delay": timedelta(seconds=15),
            **tasks.callbacks(run_of),
            **dag_options.task_defaults(spec),
        },
        **told,
    ) as dag:
        verdict = flow_tasks(
            run_of,
            flows.flow_of(spec),
            inlets=assets.inlets(spec),
            outlets=assets.outlets(spec),
        )
        if spec.airflow.complete_hours:
            verdict >> _hours_task(spec.name)
    # Before, each task would copy them several times, a third of parsing; by assignment, Airflow
    # would check schemas that are the same for all pipelines, a fifth of what is left.
    dag.params.update(params)
    return dag


def flow_tasks(
    run_of: tasks.RunOf,
    flow: flows.Flow[Any, Any],
    *,
    inlets: Sequence[Asset] = (),
    outlets: Sequence[Asset | AssetAlias] = (),
) -> Any:
    """Add the tasks of a kind of pipeline to the current DAG. Return the verdict.

    If there is nothing to do, all tasks but the verdict are skipped.
    """

    @task.short_circuit(task_id="plan", ignore_downstream_trigger_rules=False, inlets=list(inlets))
    def plan() -> bool:
        return tasks.plan(run_of, get_current_context())

    rule = "all_done_min_one_success" if flow.publishes_partly else None
    return _steps(run_of, plan(), [flow], outlets=outlets, publish_rule=rule)


def _hours_task(pipeline: str) -> Any:
    """Add the task that announces complete hours to the current DAG.

    ConfigurationError before Airflow 3.3.
    """
    if not airflow_versions.HAS_RUNTIME_PARTITIONS:
        raise ConfigurationError("airflow.complete_hours: needs Airflow 3.3 or later")
    hours = assets.complete_hours(pipeline)

    # The run is published: its history has no failure of this task.
    @task(task_id="hours", inlets=[hours], outlets=[hours], on_failure_callback=tasks.log_failure)
    def announce(ti: Any = None, inlet_events: Any = None, outlet_events: Any = None) -> None:
        through = ti.xcom_pull(task_ids="verdict", key=assets.THROUGH)
        assets.announce_hours(through, inlet_events[hours], outlet_events[hours])

    return announce()


def replay_tasks(run_of: tasks.RunOf) -> None:
    """Add plan → stage or send → publish → verdict to the current DAG.

    The kind of the run's pipeline decides whether stage or send runs.
    """

    @task.branch(task_id="plan")
    def plan() -> list[str] | None:
        context = get_current_context()
        if not tasks.plan(run_of, context):
            return None
        with tasks.airflow_errors():
            flow = flows.flow_of(pipeline_files.load_named(context["params"]["pipeline"]))
        # A branch skips the direct downstream tasks that it does not return.
        return [flow.spark_step, "publish"]

    # Stage or send is always skipped. Other trigger rules would then skip `publish`, too.
    _steps(run_of, plan(), list(flows.FLOWS.values()), publish_rule="all_done")


def _steps(
    run_of: tasks.RunOf,
    plan: Any,
    kinds: Sequence[flows.Flow[Any, Any]],
    *,
    outlets: Sequence[Asset | AssetAlias] = (),
    publish_rule: str | None = None,
) -> Any:
    """Add the tasks to the current DAG, with a Spark task for each kind. Return the verdict.

    `publish_rule`: the trigger rule by which `publish` commits sealed chunks although the Spark
    task has failed. `verdict` then fails the run. `publish` is then downstream of `plan`, too, to
    be skipped with the Spark task if there is nothing to do.
    """
    rule = publish_rule or "all_success"

    @task(task_id="publish", outlets=list(outlets), trigger_rule=rule)
    def publish() -> None:
        tasks.publish(run_of, get_current_context())

    @task(task_id="verdict", trigger_rule="none_failed")
    def verdict() -> None:
        tasks.verdict(run_of, get_current_context())

    published, checked = publish(), verdict()
    for each in (plan, published, checked):
        each.operator.operator_extra_links = (links.OF_A_RUN,)
    work = [tasks.SparkTask(task_id=flow.spark_step, run_of=run_of) for flow in kinds]
    plan >> work >> published >> checked
    if publish_rule:
        plan >> published
    return checked


def _params(max_records: str, **more: Param) -> dict[str, Any]:
    return {
        "max_records": _number(max_records),
        "dry_run": _flag("Print the plan, freeze nothing."),
        "replan": _flag("Force a new plan even if the run's plan is valid."),
        **more,
    }


def _number(description: str) -> Param:
    of_type: dict[str, Any] = {"type": ["null", "integer"], "minimum": 1, **_DRAFT}
    return Param(None, description, **of_type)


def _flag(description: str) -> Param:
    of_type: dict[str, Any] = {"type": "boolean", **_DRAFT}
    return Param(False, description, **of_type)


def dag_id(name: str) -> str:
    """Return the id of a file's DAG, which Airflow accepts and no other file has.

    For an invalid pipeline name it ends in a digest of the name.
    """
    if is_pipeline_name(name):
        return f"tidegate__{name}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"tidegate__{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:100]}.{digest}"


def refuse_wrong_files() -> None:
    """Raise ConfigurationError if a pipeline file is wrong, naming all: an import error of Airflow.

    For a DAG file that has no DAG: Airflow takes away each DAG of a file with an import error.
    """
    if get_parsing_context().dag_id:
        return  # for a task, whose own file says it
    wrong = [
        f"{str(error).splitlines()[0].rstrip(':')}: the DAG {dag_id(name)} has all complaints"
        for name, error in pipeline_files.load_all(pipeline_files.pipeline_names()).items()
        if isinstance(error, ConfigurationError)
    ]
    if wrong:
        raise ConfigurationError("pipeline files are wrong:\n" + "\n".join(wrong))


def _refusing_dag(name: str, complaint: str) -> DAG:
    """Return the DAG of a wrong file: every run fails with the complaint.

    It has the tasks of its kind, or of both, or a run that is under way would succeed with what it
    has done; and the file's schedule as far as it can be read, so that there are runs to fail.
    """
    said = pipeline_files.unchecked_lines(name)
    flow = flows.FLOWS.get((said or {}).get("kind", ""))
    work = [each.spark_step for each in ([flow] if flow else flows.FLOWS.values())]
    with DAG(
        dag_id=dag_id(name),
        description="This pipeline's file is wrong: see its documentation",
        doc_md=f"The pipeline file is wrong:\n\n{_fenced(complaint)}",
        schedule=_schedule_of_wrong(said),
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags={"tidegate", "broken"},
        default_args=tasks.CALLBACKS,
    ) as dag:

        def refuse() -> None:
            tasks.fail_with(complaint[:_MAX_COMPLAINT])

        def refusing(name: str) -> Any:
            return task(task_id=name, retries=0)(refuse)()

        first = refusing("plan")
        first >> [refusing(each) for each in work] >> refusing("publish") >> refusing("verdict")
    return dag


def _schedule_of_wrong(said: Mapping[str, str] | None) -> CronDataIntervalTimetable | None:
    text = _ALARM if said is None else said.get("schedule", "")
    if text in ("", "null", "~"):
        return None  # runs were manual
    with contextlib.suppress(Exception):  # Airflow's
        if is_schedule(text):
            return CronDataIntervalTimetable(text, timezone="UTC")
    return CronDataIntervalTimetable(_ALARM, timezone="UTC")


def _fenced(complaint: object) -> str:
    # Airflow's page truncates longer texts. A fence in the text would end the code block.
    text = str(complaint)[:_MAX_COMPLAINT].replace("```", "'''")
    return f"```\n{text}\n```"


def _ingest_texts(spec: Ingest) -> tuple[str, str, dict[str, Any]]:
    """Return description, documentation and Params of the DAG of topics → lake."""
    max_chunks = _number("At most this many commits, soonest-expiring first.")
    per_commit = f"Offsets per commit; empty: the pipeline's {spec.max_records:,}."
    description = f"{spec.subscription} → {spec.lake}"
    doc = f"""\
### {spec.name}: {description}

Each run reads exactly the records that arrived since the last one, in commits of at most
{spec.max_records:,} offsets.

- **plan** reads ledger and watermarks and freezes this run's plan; nothing new: the rest is skipped
- **stage** reads the planned offsets with Spark into staging directories, and seals the chunks that
  are proven complete
- **publish** commits each sealed chunk by one ledger entry, also if `stage` has failed for another
  chunk, and writes the offsets to XCom and Variables
- **verdict** fails the run if chunks are missing or partitions were excluded, naming them

Any task may be cleared or killed at any time: the plan stays the same, and no row is lost or
duplicated. The ledger in the lake decides about progress; the Variables are copies of it.
"""
    return description, doc, _params(per_commit, max_chunks=max_chunks)


def _egress_texts(spec: Egress) -> tuple[str, str, dict[str, Any]]:
    """Return description, documentation and Params of the DAG of files, or a lake, → topics."""
    resend = _flag("Also send changed files whose names were sent.")
    rows = f"Rows per run, where known; empty: the pipeline's {spec.max_records:,}."
    description = f"{spec.source.path or spec.source.lake} → {', '.join(spec.target.names)}"
    doc = f"""\
### {spec.name}: {description}

Each run sends the unsent rows of its source, every row once.

- **plan** resumes an unfinished plan of another run, or freezes a new one; nothing new: the rest is
  skipped
- **send** claims the plan in the ledger, checks every row, sends the rows that the target does not
  have yet with Spark, and proves that all of them are there
- **publish** records the receipts in the ledger, and writes the target's ends to XCom and Variables
- **verdict** fails the run if files were excluded, naming them

Any task may be cleared or killed at any time. An attempt that died is finished by the next one,
which sends only the missing rows. A bad row stops the run before anything is sent.
"""
    return description, doc, _params(rows, resend=resend)
