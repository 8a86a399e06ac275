"""How runs in Airflow end, in the history of the lake, and what Airflow knows of their DAGs."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowFailException

from tidegate.core.ended_run import EndedRun, RunError
from tidegate.core.entries import Origin
from tidegate.errors import BrokerUnreachable
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.orchestration import tasks
from tidegate.orchestration.dag_states import known_dag_states, read_dag_states
from tidegate.pipelines.pipeline_files import load_named
from tidegate.runs.history import read_history
from tidegate.runs.pipeline_state import DagState

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.fixture
def lake(pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "b:1"}}')
    form: Any = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path / "lake")}
    (pipelines / "p.yaml").write_text(json.dumps(form))
    Ledger(open_store(form["lake"], "p"), "p").append(Origin("t", "id", {0: 0}), run="r")
    return form["lake"]


def fail(error: Any, task_id: str = "plan", **params: Any) -> None:
    """Call the callback of a failed task, as Airflow does."""
    run = SimpleNamespace(
        dag_id="tidegate__p", run_id="r", run_type="scheduled", conf={}, start_date=NOON
    )
    ti = SimpleNamespace(task_id=task_id, run_id="r", try_number=1)
    interval = {"data_interval_start": None, "data_interval_end": None}
    context: Any = {"dag_run": run, "ti": ti, "params": params, "exception": error, **interval}
    tasks.record_failure(partial(tasks.run_of, load_named("p")), context)


def runs(lake: str) -> tuple[EndedRun, ...]:
    return read_history(open_store(lake, "p"))


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (BrokerUnreachable("away"), RunError("BrokerUnreachable", "away", "transient")),
        (
            AirflowFailException("StageFailed: a: b"),
            RunError("StageFailed", "a: b", "transient"),
        ),
        (
            AirflowFailException("jdbc://u:pw@h: refused"),
            RunError("Internal", "see the log of the run", "terminal"),
        ),
        (
            ValueError("user:secret"),
            RunError("Internal", "ValueError: see the log of the run", "terminal"),
        ),
        (None, RunError("TaskFailed", "its process has ended: see its log", "transient")),
    ],
)
def test_a_failed_task_is_in_the_history(lake: str, error: Any, found: RunError) -> None:
    fail(error)
    (run,) = runs(lake)
    assert (run.run, run.dag, run.began) == ("r", "tidegate__p", NOON.isoformat())
    assert run.error == found


def test_the_verdict_hides_no_cause(lake: str) -> None:
    fail(BrokerUnreachable("away"), "stage")
    fail(AirflowFailException("ChunksMissing: one"), "verdict")
    (run,) = runs(lake)
    assert run.error
    assert run.error.name == "BrokerUnreachable"


def test_a_dry_run_has_no_end(lake: str) -> None:
    fail(BrokerUnreachable("away"), dry_run=True)
    assert runs(lake) == ()


def test_what_airflow_knows_of_the_dags(
    airflow_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last run that has ended counts: one that failed before a good one does not."""
    from airflow.models import DagModel, DagRun
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    names = ("w_paused", "w_red", "w_green")
    with create_session() as session:
        if session.get(DagBundleModel, "w") is None:
            session.add(DagBundleModel(name="w"))
            session.flush()
        for name in names:
            session.add(
                DagModel(
                    dag_id=f"tidegate__{name}", bundle_name="w", is_paused=name == "w_paused",
                    fileloc="f", next_dagrun_create_after=NOON,
                )
            )  # fmt: skip
        session.flush()
        for name, state, hours in (
            ("w_red", "success", 1),
            ("w_red", "failed", 2),
            ("w_green", "failed", 1),
            ("w_green", "success", 2),
            ("w_green", "running", 3),
        ):
            at = NOON + timedelta(hours=hours)
            run = DagRun(
                dag_id=f"tidegate__{name}", run_id=f"{state}-{hours}", state=state,
                run_type=DagRunType.MANUAL, triggered_by=DagRunTriggeredByType.TEST,
                run_after=at, logical_date=at, start_date=at,
            )  # fmt: skip
            run.end_date = None if state == "running" else at
            session.add(run)
    found = {
        "w_paused": DagState(paused=True, running=False),
        "w_red": DagState(
            paused=False, running=False, failed="failed-2", ended=NOON + timedelta(hours=2),
            next_run=NOON,
        ),
        "w_green": DagState(paused=False, running=True, next_run=NOON),
    }  # fmt: skip
    with create_session() as session:
        assert read_dag_states(session.connection(), [*names, "unknown"]) == found
    assert known_dag_states(names) == found
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://127.0.0.1:1/x")
    assert known_dag_states(names) == {}
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    monkeypatch.delenv("AIRFLOW_HOME")
    assert known_dag_states(names) == {}
    with create_session() as session:
        for name in names:
            session.query(DagRun).filter_by(dag_id=f"tidegate__{name}").delete()
            session.query(DagModel).filter_by(dag_id=f"tidegate__{name}").delete()
