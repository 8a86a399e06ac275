"""One DAG per pipeline file."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    CronDataIntervalTimetable,
    Param,
    get_current_context,
    task,
)

from tidegate.errors import ConfigurationError
from tidegate.orchestration import egress_tasks, tasks
from tidegate.orchestration.links import ReportLink
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

Step = Callable[["Context"], None]

_LONGEST_COMPLAINT = 20_000

logger = logging.getLogger(__name__)

BEFORE_ANY_RUN = datetime(2024, 1, 1, tzinfo=UTC)


def pipeline_dags() -> dict[str, DAG]:
    """Return every pipeline's DAG by its id; a bad file's DAG says what is wrong when it runs.

    A bad file never takes another pipeline with it, and is seen where people look.
    """
    dags = {}
    for name in files.names():
        try:
            dag = pipeline_dag(files.load_named(name))
        except ConfigurationError as error:
            dag = _refusing_dag(name, str(error))
        except Exception as error:  # of Airflow's, about what a sound file asks for
            logger.exception("pipeline %s: its DAG cannot be made", name)
            dag = _refusing_dag(name, f"Airflow refuses it: {type(error).__name__}: {error}")
        dags[dag.dag_id] = dag
    return dags


def pipeline_dag(spec: Spec) -> DAG:
    """Return the DAG of one pipeline."""
    return egress_dag(spec) if isinstance(spec, Egress) else ingest_dag(spec)


def ingest_dag(spec: Ingest) -> DAG:
    """Return the DAG of topics → lake: plan → stage → publish → verdict."""
    per_commit = f"Offsets per commit; empty: the pipeline's {spec.max_records:,}."
    params = _params(per_commit)
    params["max_chunks"] = Param(
        None,
        type=["null", "integer"],
        minimum=1,
        description="The most commits of this run; what expires soonest goes first.",
    )
    with _dag(spec, f"{spec.subscription} → {spec.lake}", _doc(spec), params) as dag:
        ingest_tasks(partial(tasks.run_of, spec.name), outlets=tasks.outlets(spec))
    return dag


def egress_dag(spec: Egress) -> DAG:
    """Return the DAG of files → topics: plan → send → publish → verdict."""
    topics = spec.target.names
    params = _params(f"Rows per run, where known; empty: the pipeline's {spec.max_records:,}.")
    params["resend"] = Param(
        False, type="boolean", description="Send what came back under a name that was sent."
    )
    description = f"{spec.source.path or spec.source.lake} → {', '.join(topics)}"
    run_of = partial(egress_tasks.run_of, spec.name)
    with _dag(spec, description, _egress_doc(spec, description), params) as dag:
        _steps(
            _plan_or_skip(partial(egress_tasks.plan, run_of)),
            [egress_tasks.SendOperator(task_id="send", run_of=run_of)],
            partial(egress_tasks.publish, run_of),
            partial(egress_tasks.verdict, run_of),
            outlets=[tasks.asset(spec.name, topic) for topic in topics],
        )
    return dag


def ingest_tasks(run_of: tasks.RunOf, *, outlets: Sequence[Asset | AssetAlias] = ()) -> None:
    """Put plan → stage → publish → verdict into the DAG that is being made."""
    _steps(
        _plan_or_skip(partial(tasks.plan, run_of)),
        [tasks.StageOperator(task_id="stage", run_of=run_of)],
        partial(tasks.publish, run_of),
        partial(tasks.verdict, run_of),
        outlets=outlets,
        publish_sealed="all_done_min_one_success",
    )


def replay_tasks(ingest: tasks.RunOf, egress: egress_tasks.RunOf) -> None:
    """Put plan → stage or send → publish → verdict into the DAG that is being made.

    Which of the two it is says the kind of the run's pipeline.
    """

    def is_egress(context: Context) -> bool:
        with tasks.airflow_errors():
            return isinstance(files.load_named(context["params"]["pipeline"]), Egress)

    def either(of_ingest: Step, of_egress: Step) -> Step:
        return lambda context: (of_egress if is_egress(context) else of_ingest)(context)

    @task.branch(task_id="plan")
    def plan() -> list[str] | None:
        # A branch skips its direct followers but those that it names: `publish` is one of them.
        context = get_current_context()
        if is_egress(context):
            return ["send", "publish"] if egress_tasks.plan(egress, context) else None
        return ["stage", "publish"] if tasks.plan(ingest, context) else None

    _steps(
        plan(),
        [
            tasks.StageOperator(task_id="stage", run_of=ingest),
            egress_tasks.SendOperator(task_id="send", run_of=egress),
        ],
        either(partial(tasks.publish, ingest), partial(egress_tasks.publish, egress)),
        either(partial(tasks.verdict, ingest), partial(egress_tasks.verdict, egress)),
        # One of the two is always skipped, which other rules take for a reason to skip.
        publish_sealed="all_done",
    )


def _plan_or_skip(plan: Callable[[Context], bool]) -> Any:
    """Return the task that plans; when it finds nothing to do, all but the verdict is skipped."""

    @task.short_circuit(task_id="plan", ignore_downstream_trigger_rules=False)
    def plan_or_skip() -> bool:
        return plan(get_current_context())

    return plan_or_skip()


def _steps(
    plan: Any,
    work: Sequence[tasks.SparkTask],
    publish: Step,
    verdict: Step,
    *,
    outlets: Sequence[Asset | AssetAlias] = (),
    publish_sealed: str | None = None,
) -> None:
    """Put the steps into the DAG that is being made.

    `publish_sealed`: the trigger rule that publishes what the work has sealed even if it has failed
    in the end; `verdict` then fails, and with it the run. Such a `publish` follows `plan`, too, and
    is skipped with the work when there is nothing to do.
    """
    rule = publish_sealed or "all_success"

    @task(task_id="publish", outlets=list(outlets), trigger_rule=rule)
    def published() -> None:
        publish(get_current_context())

    @task(task_id="verdict", trigger_rule="none_failed")
    def judged() -> None:
        verdict(get_current_context())

    told = published()
    told.operator.operator_extra_links = (ReportLink(),)
    plan >> work >> told >> judged()
    if publish_sealed:
        plan >> told


def _dag(spec: Spec, description: str, doc: str, params: dict[str, Any]) -> DAG:
    return DAG(
        dag_id=f"tidegate__{spec.name}",
        description=description,
        doc_md=doc,
        schedule=_timetable(spec),
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags={"tidegate", spec.kind},
        default_args={"retries": spec.retries, "retry_delay": timedelta(seconds=15)},
        params=params,
    )


def _params(max_records: str) -> dict[str, Any]:
    return {
        "max_records": Param(None, type=["null", "integer"], minimum=1, description=max_records),
        "dry_run": Param(False, type="boolean", description="Print the plan, freeze nothing."),
        "replan": Param(
            False, type="boolean", description="Plan again although the run's plan is well."
        ),
    }


def _timetable(spec: Spec) -> CronDataIntervalTimetable | None:
    """Return real data intervals: those of a plain cron string are empty in Airflow 3."""
    if spec.schedule is None:
        return None
    return CronDataIntervalTimetable(spec.schedule, timezone="UTC")


def _dag_id(name: str) -> str:
    """Return the id of a file's DAG; that of a name that no pipeline may have ends in a digest.

    So two files never have one id, and Airflow takes it, however long or odd the name.
    """
    if files.is_pipeline_name(name):
        return f"tidegate__{name}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"tidegate__{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:100]}.{digest}"


def _refusing_dag(name: str, complaint: str) -> DAG:
    # A longer text would be cut off in the page; a fence within it would end the block.
    told = complaint[:_LONGEST_COMPLAINT].replace("```", "'''")
    with DAG(
        dag_id=_dag_id(name),
        description="This pipeline's file is wrong: see its documentation",
        doc_md=f"The pipeline file is wrong:\n\n```\n{told}\n```",
        schedule=None,
        start_date=BEFORE_ANY_RUN,
        tags={"tidegate", "broken"},
    ) as dag:

        @task(task_id="plan", retries=0)
        def refuse() -> None:
            tasks.refuse(told)

        refuse()
    return dag


def _doc(spec: Ingest) -> str:
    return f"""\
### {spec.name}: {spec.subscription} → {spec.lake}

Each run takes exactly what arrived since the last one, in commits of at most
{spec.max_records:,} offsets.

- **plan** reads ledger and watermarks and freezes this run's plan; nothing new: the rest is skipped
- **stage** reads the planned offsets with Spark into a directory of its own, and seals what is
  proven complete
- **publish** makes the sealed files part of the lake by one ledger entry a chunk, also when `stage`
  has failed for another chunk, and shows the offsets in XCom and Variables
- **verdict** fails the run if chunks are missing or partitions had to be left out, naming them

Any task may be cleared or killed at any moment: the plan stays the same, and no row is lost or
doubled. The truth about progress is the ledger in the lake; the Variables are copies of it.
"""


def _egress_doc(spec: Egress, description: str) -> str:
    return f"""\
### {spec.name}: {description}

Each run sends what its source has and no run has sent, every row once.

- **plan** finishes what another run began, or freezes the list of what is sent; nothing new: the
  rest is skipped
- **send** claims it in the ledger, looks at every row, sends by Spark what the target does not hold
  yet, and reads all of it back
- **publish** records the receipts in the ledger, and shows the target's ends in XCom and Variables
- **verdict** fails the run if files had to be left out, naming them

Any task may be cleared or killed at any moment. An attempt that died half-way is finished by the
next one, which sends only what is missing. A bad row stops the run before anything is sent.
"""
