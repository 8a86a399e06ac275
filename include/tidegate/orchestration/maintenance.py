"""The maintenance DAG: maintenance steps every day, and `move_cursor` on demand."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, chain, get_current_context, task

from tidegate import flows
from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError, Transient
from tidegate.maintenance.maintenance_steps import STEPS, Environment
from tidegate.orchestration import rights
from tidegate.orchestration.airflow_versions import AirflowFailException, AirflowSkipException
from tidegate.orchestration.factory import BEFORE_ANY_RUN, dag_id
from tidegate.orchestration.form_dags import TOPIC
from tidegate.orchestration.tasks import (
    CALLBACKS,
    airflow_errors,
    is_short,
    numbers_of,
    params_of,
    refuse_unknown,
)
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "tidegate_maintenance"
_PIPELINES = "tidegate_pipelines"  # a Variable
_CURSOR = ("topic", "partition", "offset", "reason")
_DOC = """\
### Maintenance of pipelines

Every day: **repair** for ingest pipelines; **reconcile**, **sweep** and **checkpoint** for all.
Each step is safe beside running pipelines, and a pipeline that fails never stops the others. A run
fails if any of its steps did.

Manually, **move_cursor**: give `pipeline`, `topic`, `partition`, `offset` and `reason` together.
The offsets between the cursor and the new one become a gap in the ledger, with the reason, and are
not read. Only forward: backward is a replay. Only for pipelines whose own DAG you may trigger; the
ledger keeps your name.
"""

logger = logging.getLogger(__name__)


def maintenance_dag() -> DAG:
    """Return the DAG: move_cursor, then each step regardless of earlier failures, and a verdict."""
    params: dict[str, Any] = {
        "pipeline": Param(
            None,
            type=["null", "string"],
            enum=[None, *pipeline_files.pipeline_names()],
            description="Only this one; empty: all pipelines.",
        ),
        **{
            name: Param(True, type="boolean", description=step.description)
            for name, step in STEPS.items()
        },
        "topic": Param(
            None, type=["null", "string"], pattern=TOPIC, description="To move a cursor."
        ),
        "partition": Param(None, type=["null", "integer"], minimum=0),
        "offset": Param(
            None, type=["null", "integer"], minimum=0, description="The next offset to read."
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
            description="Kept in the ledger, one line.",
        ),
    }  # fmt: skip
    with DAG(
        dag_id=DAG_ID,
        description="Repair, reconcile, sweep, checkpoint every day; move a cursor manually",
        doc_md=_DOC,
        schedule="@daily",
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags={"tidegate"},
        default_args={"retries": 1, **CALLBACKS},
        params=params,
    ) as dag:

        @task(task_id="move_cursor")
        def move() -> None:
            move_cursor(get_current_context())

        @task(trigger_rule="all_done")
        def step(name: str) -> None:
            run_step(name, get_current_context())

        @task(trigger_rule="all_done", retries=0)
        def gone_files() -> None:
            refuse_runs_without_file(get_current_context())

        @task(trigger_rule="one_failed", retries=0)
        def verdict() -> None:
            raise AirflowFailException("a step of this run has failed: its own log says why")

        steps = [move(), *(step.override(task_id=name)(name) for name in STEPS)]
        steps.append(gone_files())
        chain(*steps)
        # Airflow takes a run's state from its last tasks, and a step runs although an earlier one
        # has failed: `verdict` fails the run if any step did, and is skipped otherwise.
        steps >> verdict()
    return dag


def move_cursor(context: Context) -> None:
    """Move a cursor if the form asks for it; ConfigurationError names all missing fields."""
    params = _params(context)
    given = {name: params[name] for name in _CURSOR if params[name] is not None}
    if not given:
        raise AirflowSkipException("no cursor to move")
    from tidegate.maintenance.cursor_moves import move
    from tidegate.orchestration import airflow_connections

    with airflow_errors():
        missing = [name for name in ("pipeline", *_CURSOR) if params[name] is None]
        if missing:
            raise ConfigurationError(f"to move a cursor, give also: {', '.join(missing)}")
        user = rights.check_rights(context, params["pipeline"])
        spec = pipeline_files.load_ingest(params["pipeline"])
        moved = move(
            spec,
            airflow_connections.kafka(spec),
            airflow_connections.Variables(),
            **given,
            by=f"airflow:{user}",
            run=context["dag_run"].run_id,
        )
    _report(context, {spec.name: moved})


def refuse_runs_without_file(context: Context) -> None:
    """Fail while a pipeline whose file was deleted or renamed has a run that has not ended.

    Airflow does not schedule what is left of such a run, and never fails it. Which pipelines there
    were is in a Variable, until nothing of theirs is unfinished.
    """
    from tidegate.orchestration import airflow_connections

    variables, there = airflow_connections.Variables(), set(pipeline_files.pipeline_names())
    known = {*json.loads(variables.read(_PIPELINES) or "[]")}
    count, states = context["ti"].get_dr_count, ["queued", "running"]
    left = sorted(each for each in known - there if count(dag_id=dag_id(each), states=states))
    if known != (kept := {*there, *left}):
        variables.write(_PIPELINES, json.dumps(sorted(kept)))
    if left:
        raise AirflowFailException(
            f"the files of these pipelines are gone, and a run of each has not ended: {left}: put "
            "the file back and let it end, or mark the run as failed in Airflow"
        )


def run_step(name: str, context: Context) -> None:
    """Run a step for one pipeline or for all. Fail at the end, naming each failed pipeline."""
    from tidegate.lake.sweeping import ABANDON_AFTER
    from tidegate.orchestration import airflow_connections

    params = _params(context)
    if not params[name]:
        raise AirflowSkipException("not asked for")
    step = STEPS[name]
    run = context["dag_run"].run_id
    given = Environment(
        run, airflow_connections.kafka, airflow_connections.Variables(), ABANDON_AFTER
    )

    def do(spec: Spec) -> Document:
        document = step.do(spec, given)
        if problem := step.problem(spec, document):
            raise problem
        return document

    documents, failed = {}, []
    names = [params["pipeline"]] if params["pipeline"] else pipeline_files.pipeline_names()
    for pipeline, result in flows.for_each(names, do, step.kinds):
        if isinstance(result, Exception):
            text = f"{pipeline}: {type(result).__name__}: {result}"
            logger.error("%s", text)
            failed.append((result, text))
        else:
            documents[pipeline] = result
    _report(context, documents)
    if failed:
        texts = "; ".join(text for _, text in failed)
        if all(isinstance(error, Transient) for error, _ in failed):
            raise Transient(texts)
        raise AirflowFailException(texts)


def _params(context: Context) -> Mapping[str, Any]:
    with airflow_errors():
        refuse_unknown(context, sorted({"pipeline", *STEPS, *_CURSOR, rights.KEY}))
    return params_of(context)


def _report(context: Context, documents: Mapping[str, Document]) -> None:
    forms = {name: each.to_json() for name, each in documents.items()}
    # The log has them whole.
    found = forms if is_short(forms) else {n: numbers_of(each) for n, each in forms.items()}
    context["ti"].xcom_push("report", found)
    for name, form in forms.items():
        logger.info("%s: %s", name, json.dumps(form))
