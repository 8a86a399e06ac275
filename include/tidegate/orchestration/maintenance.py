"""The DAG that keeps pipelines: harmless every day, and by hand the cursor."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, Param, chain, get_current_context, task

from tidegate.errors import ConfigurationError, CursorAhead, LakeDamaged, TidegateError, Transient
from tidegate.orchestration import rights
from tidegate.orchestration.factory import BEFORE_ANY_RUN
from tidegate.orchestration.tasks import airflow_errors, params_of
from tidegate.pipelines import files
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "tidegate_maintenance"
HARMLESS = {
    "repair": "Place what crashed publishers left; quarantine strange files in `data/`.",
    "reconcile": "Rewrite Variables that are not the ledger's cursors.",
    "sweep": "Remove staging that nobody needs any more.",
    "checkpoint": "Write down what the ledger adds up to, so that opening it stays quick.",
}
_CURSOR = ("topic", "partition", "offset", "reason")
_DOC = """\
### Keeping pipelines

Every day, for all ingest pipelines **repair**, and for egress too **reconcile**, **sweep** and
**checkpoint**. Each may be run at any time beside anything; one pipeline that fails never stops
another. A run fails if any of its steps did.

By hand, **move_cursor**: give `pipeline`, `topic`, `partition`, `offset` and `reason` together. The
offsets between the cursor and the new one become a gap in the ledger, with the reason, and are not
read. Only forward: backward is a replay. Only for pipelines whose own DAG you may trigger; the
ledger keeps your name.
"""

logger = logging.getLogger(__name__)


def maintenance_dag() -> DAG:
    """Return the DAG: move_cursor, then the harmless ones, each whatever came before; a verdict."""
    params: dict[str, Any] = {
        "pipeline": Param(
            None,
            type=["null", "string"],
            enum=[None, *files.names()],
            description="Only this one; empty: all ingest pipelines.",
        ),
        **{
            name: Param(True, type="boolean", description=says) for name, says in HARMLESS.items()
        },
        "topic": Param(None, type=["null", "string"], description="To move a cursor."),
        "partition": Param(None, type=["null", "integer"], minimum=0),
        "offset": Param(
            None, type=["null", "integer"], minimum=0, description="The next offset to read."
        ),
        "reason": Param(
            None, type=["null", "string"], minLength=1, description="Kept in the ledger."
        ),
    }  # fmt: skip
    with DAG(
        dag_id=DAG_ID,
        description="Repair, reconcile, sweep, checkpoint every day; move a cursor by hand",
        doc_md=_DOC,
        schedule="@daily",
        start_date=BEFORE_ANY_RUN,
        catchup=False,
        max_active_runs=1,
        tags={"tidegate"},
        default_args={"retries": 1},
        params=params,
    ) as dag:

        @task(task_id="move_cursor")
        def move() -> None:
            move_cursor(get_current_context())

        @task(trigger_rule="all_done")
        def keep(what: str) -> None:
            keep_all(what, get_current_context())

        @task(trigger_rule="one_failed", retries=0)
        def verdict() -> None:
            raise AirflowFailException("a step of this run has failed: its own log says why")

        steps = [move(), *(keep.override(task_id=name)(name) for name in HARMLESS)]
        chain(*steps)
        # Each step runs whatever came before it, so the state of the last one says nothing of the
        # others, and Airflow takes a run's state from its last tasks. Skipped where none failed.
        steps >> verdict()
    return dag


def move_cursor(context: Context) -> None:
    """Move a cursor if the form asks for it; all that is missing in the form is told at once."""
    params = _params(context)
    given = {name: params[name] for name in _CURSOR if params[name] is not None}
    if not given:
        raise AirflowSkipException("no cursor to move")
    from tidegate.maintenance.cursor import move
    from tidegate.orchestration import connections

    with airflow_errors():
        missing = [name for name in ("pipeline", *_CURSOR) if params[name] is None]
        if missing:
            raise ConfigurationError(f"to move a cursor, give also: {', '.join(missing)}")
        user = rights.check(context, params["pipeline"])
        spec = files.load_ingest(params["pipeline"])
        moved = move(
            spec,
            connections.kafka(spec.kafka),
            connections.Variables(),
            **given,
            by=f"airflow:{user}",
            run=context["dag_run"].run_id,
        )
    _told(context, {spec.name: moved})


def keep_all(what: str, context: Context) -> None:
    """Do one of the harmless things for one pipeline or for all; fail at the end, naming each."""
    params = _params(context)
    if not params[what]:
        raise AirflowSkipException("not asked for")
    found, failed = {}, []
    for name in [params["pipeline"]] if params["pipeline"] else files.names():
        try:
            spec = files.load_named(name)
            if isinstance(spec, Ingest) or what != "repair":
                found[name] = _keepers()[what](spec, context["dag_run"].run_id)
        except TidegateError as error:
            logger.error("%s: %s: %s", name, type(error).__name__, error)
            failed.append((name, error))
    _told(context, found)
    if failed:
        listed = "; ".join(f"{name}: {type(e).__name__}: {e}" for name, e in failed)
        if all(isinstance(error, Transient) for _, error in failed):
            raise Transient(listed)
        raise AirflowFailException(listed)


def _keepers() -> Mapping[str, Callable[[Any, str], dict[str, Any]]]:
    from tidegate.maintenance import repair
    from tidegate.maintenance.checkpoint import checkpoint

    return {
        "repair": lambda spec, _: repair.repair(spec),
        "reconcile": lambda spec, _: _reconciled(spec),
        "sweep": _swept,
        "checkpoint": lambda spec, _: checkpoint(spec),
    }


def _swept(spec: Spec, run: str) -> dict[str, Any]:
    from tidegate.maintenance import sweep

    found = sweep.sweep(spec, run=run)
    if left := found["left"]:
        kept = "; ".join(f"commit #{each['commit']}: {each['why']}" for each in left)
        raise LakeDamaged(f"copies were kept, for the files in data/ are not right: {kept}")
    return found


def _reconciled(spec: Spec) -> dict[str, Any]:
    from tidegate.maintenance import reconcile
    from tidegate.orchestration import connections

    kafka = None
    if isinstance(spec, Ingest) and spec.progress_group:
        kafka = connections.kafka(spec.kafka)
    found = reconcile.reconcile(spec, connections.Variables(), kafka)
    if ahead := reconcile.left_ahead(found):
        raise CursorAhead(
            f"ahead of the ledger: {', '.join(ahead)}. Either the lake at {spec.lake} is not "
            "the one it was (mount or restore it), or they were edited: delete them to go on "
            "from the ledger, or skip to them with move_cursor"
        )
    return found


def _params(context: Context) -> Mapping[str, Any]:
    known = {"pipeline", *HARMLESS, *_CURSOR, rights.KEY}
    with airflow_errors():
        if strangers := sorted((context["dag_run"].conf or {}).keys() - known):
            raise ConfigurationError(f"unknown params {strangers}; there are {sorted(known)}")
    return params_of(context)


def _told(context: Context, found: Mapping[str, Any]) -> None:
    context["ti"].xcom_push("report", dict(found))
    for name, told in found.items():
        logger.info("%s: %s", name, json.dumps(told))
