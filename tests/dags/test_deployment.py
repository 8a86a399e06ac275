"""The identity of an Airflow deployment: made once, and never made because nobody answered."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import supervisor, task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, PutVariable, VariableResult
from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend

from tidegate.errors import AirflowUnavailable
from tidegate.orchestration import deployment, tasks

OURS = "0123456789abcdef http://localhost:8080"
OF_ANOTHER = "fedcba9876543210 http://localhost:8080"


class Api:
    """Airflow's API server, as a task's supervisor asks it, with one Variable."""

    def __init__(self) -> None:
        self.stored: str | None = None
        self.error = ErrorType.VARIABLE_NOT_FOUND
        self.put: list[str] = []
        self.after_put: Callable[[], Any] = lambda: None

    def send(self, request: Any) -> Any:
        assert request.key == "tidegate_deployment"
        if isinstance(request, PutVariable):
            assert request.value
            self.put.append(request.value)
            self.stored = request.value
            return self.after_put()
        assert isinstance(request, GetVariable)
        if self.stored is None:
            return ErrorResponse(error=self.error)
        return VariableResult(key=request.key, value=self.stored)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    server = Api()
    backends = [ExecutionAPISecretsBackend()]
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: backends)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", server, raising=False)
    monkeypatch.setattr(deployment, "SETTLED_AFTER", 0.01)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://localhost:8080")
    return server


def test_it_is_made_once(api: Api) -> None:
    first = deployment.read_identity()
    assert (first, deployment.read_identity()) == (f"{api.put[0]} http://localhost:8080",) * 2
    assert (len(api.put), len(api.put[0])) == (1, 16)


def test_of_two_that_make_it_at_once_both_use_what_is_stored(api: Api) -> None:
    def overwritten() -> None:
        api.stored = "0123456789abcdef"

    api.after_put = overwritten
    assert deployment.read_identity() == OURS


def test_an_outage_makes_no_new_one(api: Api) -> None:
    """Airflow's own `Variable.get` gives the default; a new id would stop all open claims."""
    api.error = ErrorType.API_SERVER_ERROR
    with pytest.raises(AirflowUnavailable, match=r"'tidegate_deployment' .*API_SERVER_ERROR"):
        deployment.read_identity()
    assert api.put == []


def test_a_copied_database_is_another_deployment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Variable is a copy, too; the URL of its pages is not."""
    original = deployment.read_identity()
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://staging:8080")
    assert deployment.read_identity() != original


@pytest.mark.parametrize(
    ("claimed", "own", "over"),
    [
        ({"try": 1, "deployment": OURS}, True, True),
        ({"try": 2, "deployment": OURS}, True, False),
        ({"try": 1, "deployment": OF_ANOTHER}, True, False),
        ({"try": 1, "deployment": OURS}, False, True),
        ({"try": 1, "deployment": OF_ANOTHER}, False, False),
    ],
)
def test_a_task_has_ended_by_what_its_own_deployment_says(
    api: Api, claimed: dict[str, Any], own: bool, over: bool
) -> None:
    """Equal DAG, run and task in another deployment are another task, whatever its try."""
    api.stored = "0123456789abcdef"
    ti = SimpleNamespace(
        dag_id="d", run_id="r", task_id="send" if own else "plan", try_number=2,
        get_task_states=lambda **_: {"r": {"send": "failed"}},
    )  # fmt: skip
    ended = tasks.task_ended({"ti": ti})  # type: ignore[typeddict-item]
    assert ended({"dag": "d", "run": "r", "task": "send", **claimed}) is over


DAG_FILE = """
from airflow.sdk import dag, task
from tidegate.orchestration import deployment

@dag(schedule=None)
def deployments():
    @task
    def made():
        return deployment.read_identity()

    @task
    def known(before):
        assert deployment.read_identity() == before

    known(made())

deployments()
"""


@pytest.mark.slow
def test_it_is_a_variable_of_airflow(
    airflow_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through Airflow's own API, by two tasks of a DAG."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models import Variable

    (tmp_path / "deployments.py").write_text(DAG_FILE)
    monkeypatch.setattr("airflow.settings.DAGS_FOLDER", str(tmp_path))
    done = DagBag(dag_folder=str(tmp_path)).dags["deployments"].test()
    assert done.state == "success"
    assert len(Variable.get("tidegate_deployment")) == 16
