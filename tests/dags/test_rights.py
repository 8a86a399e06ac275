"""The rights of the form DAGs: signed by Airflow's API server, checked by the tasks."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from support.api_server import FORMS, TestClient, add_pipelines, permit, server, sync_dags, token
from tidegate.errors import ConfigurationError, TriggerNotPermitted
from tidegate.orchestration import form_dags, rights


@pytest.fixture
def api(pipelines: Path, airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's real API server with the plugin and the form DAGs; everyone may trigger those, and
    ann may trigger pipeline a's own DAG, and no other.
    """
    add_pipelines(pipelines)
    sync_dags()
    permit(monkeypatch, {"ann": {*FORMS, "tidegate__a"}, "bob": set(FORMS)})
    return TestClient(server())


def run_of(api: Any, user: str, dag_id: str, conf: Any, *, cookie: bool = False) -> Any:
    """Trigger a run as this user; return it as the database has it."""
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    api.cookies.clear()
    headers = {}
    if cookie:
        api.cookies.set("_token", token(user))
    else:
        headers = {"Authorization": f"Bearer {token(user)}"}
    body = {"logical_date": None, "conf": conf}
    answer = api.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    with create_session() as session:
        run_id = answer.json()["dag_run_id"]
        found = session.query(DagRun).filter_by(dag_id=dag_id, run_id=run_id).one()
        return SimpleNamespace(
            dag_id=dag_id, run_id=run_id, conf=found.conf, run_type=found.run_type,
            triggering_user_name=found.triggering_user_name,
        )  # fmt: skip


def conf_of(dag_id: str, pipeline: str) -> dict[str, Any]:
    window = {"pipeline": pipeline, "start": "0", "end": "5"}
    return {
        "tidegate_backfill": window,
        "tidegate_replay": {**window, "replay_id": "x"},
        "tidegate_maintenance": {"pipeline": pipeline},
    }[dag_id]


def test_airflows_own_api_server_signs(api: Any) -> None:
    """For who may trigger the pipeline's own DAG, by header or cookie; a signature that a request
    brings along is removed, so that another's run is no help.
    """
    for dag_id in FORMS:
        for cookie in (False, True):
            mine = run_of(api, "ann", dag_id, conf_of(dag_id, "a"), cookie=cookie)
            assert rights.check_rights({"dag_run": mine}, "a") == "ann"  # type: ignore[typeddict-item]
        stolen = {rights.KEY: mine.conf[rights.KEY]}
        for user, pipeline, more in (
            ("ann", "b", {}), ("bob", "a", {}), ("bob", "a", stolen), ("ann", "b", stolen),
        ):  # fmt: skip
            run = run_of(api, user, dag_id, {**conf_of(dag_id, pipeline), **more})
            assert rights.KEY not in run.conf
            with pytest.raises(
                TriggerNotPermitted, match=f"'{user}' may trigger DAG .*__{pipeline}"
            ):
                rights.check_rights({"dag_run": run}, pipeline)  # type: ignore[typeddict-item]


def test_what_is_no_such_request_passes_as_it_is(api: Any) -> None:
    """A body that is no JSON, none at all, and nobody's: Airflow's own answers."""
    path = "/api/v2/dags/tidegate_backfill/dagRuns"
    headers = {"Authorization": f"Bearer {token('ann')}", "Content-Type": "application/json"}
    api.cookies.clear()
    for body, status in (("{", 422), ("", 422), ('{"logical_date": null, "conf": 7}', 422)):
        assert api.post(path, content=body, headers=headers).status_code == status
    assert api.post(path, json={"logical_date": None, "conf": {"pipeline": "a"}}).status_code == 401


def test_no_backfill_is_signed(api: Any) -> None:
    """Airflow's backfills have a conf, too, which the plugin does not see. Ann, whose right to the
    pipeline is gone, has copied the signature of an earlier run of hers; bob, who never had one,
    gives ann's run another conf, and Airflow leaves her name on it.
    """
    from airflow.models import DagRun
    from airflow.models.backfill import Backfill
    from airflow.utils.session import create_session

    dag_id = "tidegate_maintenance"
    path = f"/api/v2/dags/{dag_id}/dagRuns"
    for user, day in (("ann", "2026-03-14T00:00:00Z"), ("bob", "2026-03-15T00:00:00Z")):
        body = {"logical_date": "2026-03-15T00:00:00Z", "conf": conf_of(dag_id, "a")}
        headers = {"Authorization": f"Bearer {token('ann')}"}
        if user == "ann":
            conf = api.post(path, json=body, headers=headers).json()["conf"]
            with create_session() as session:
                session.query(DagRun).filter_by(dag_id=dag_id).update({"state": "success"})
        form = {
            "dag_id": dag_id, "from_date": day, "to_date": day, "reprocess_behavior": "completed",
            "dag_run_conf": {**conf, "topic": "t", "partition": 0, "offset": 9, "reason": "x"},
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {token(user)}"}
        answer = api.post("/api/v2/backfills", json=form, headers=headers)
        assert answer.status_code == 200, answer.text
        with create_session() as session:
            (made,) = session.query(DagRun).filter_by(backfill_id=answer.json()["id"]).all()
            backfill = SimpleNamespace(
                dag_id=dag_id, run_id=made.run_id, conf=made.conf, run_type=made.run_type,
                triggering_user_name=made.triggering_user_name,
            )  # fmt: skip
            session.query(Backfill).update({"completed_at": datetime.now(UTC)})
        assert (backfill.conf["offset"], backfill.triggering_user_name) == (9, "ann")
        assert backfill.conf[rights.KEY] == rights.sign_trigger(dag_id, "a", "ann")
        with pytest.raises(TriggerNotPermitted, match=r"'ann' may trigger DAG .*__a"):
            rights.check_rights({"dag_run": backfill}, "a")  # type: ignore[typeddict-item]


def test_without_a_key_nothing_is_signed(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request passes, and the run's tasks refuse it, naming the setting."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "")
    unsigned = run_of(api, "ann", "tidegate_backfill", conf_of("tidegate_backfill", "a"))
    assert rights.KEY not in unsigned.conf
    with pytest.raises(ConfigurationError, match="fernet_key"):
        rights.check_rights({"dag_run": unsigned}, "a")  # type: ignore[typeddict-item]


def run(**changed: Any) -> Any:
    """Return a context of a run that ann triggered, signed."""
    form = {
        "dag_id": "tidegate_replay",
        "run_id": "manual__1",
        "run_type": "manual",
        "triggering_user_name": "ann",
        "conf": {rights.KEY: rights.sign_trigger("tidegate_replay", "a", "ann")},
    }
    return {"dag_run": SimpleNamespace(**{**form, **changed})}


def test_a_task_refuses_what_is_not_signed_for_it() -> None:
    """By another user, for another pipeline, in another form, not at all; and what it cannot know.

    Of a command line it knows no more than of a request that passed the plugin by: refused.
    """
    assert rights.check_rights(run(), "a") == "ann"
    for wrong, pipeline in (
        ({}, "b"),
        ({"triggering_user_name": "bob"}, "a"),
        ({"triggering_user_name": None}, "a"),
        ({"dag_id": "tidegate_backfill"}, "a"),
        ({"conf": {}}, "a"),
        ({"conf": None}, "a"),
        ({"conf": {rights.KEY: 7}}, "a"),
        ({"conf": {rights.KEY: ""}}, "a"),
        ({"conf": {}, "run_type": "scheduled"}, "a"),
        ({"run_type": "scheduled"}, "a"),
        ({"run_type": "backfill"}, "a"),
    ):
        with pytest.raises(TriggerNotPermitted, match="nothing was done"):
            rights.check_rights(run(**wrong), pipeline)
    by_a_dag = {"run_type": "operator_triggered", "conf": {}}
    assert rights.check_rights(run(**by_a_dag), "b") == "ann"
    assert rights.check_rights(run(**by_a_dag, triggering_user_name=None), "b") == "manual__1"


def test_keys_are_rotated_and_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was signed with the key of before is good while that is listed; without one: refused."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "old")
    signed = run()
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "new,old")
    assert rights.check_rights(signed, "a") == "ann"
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "new")
    with pytest.raises(TriggerNotPermitted):
        rights.check_rights(signed, "a")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "")
    with pytest.raises(ConfigurationError, match="fernet_key"):
        rights.check_rights(signed, "a")


@pytest.mark.parametrize(
    ("run_of", "pipeline"),
    [(form_dags._backfill, "a"), (form_dags._replay, "a"), (form_dags._replay, "b")],
    ids=["backfill", "replay of an ingest", "replay of an egress"],
)
def test_every_step_of_a_form_asks(pipelines: Path, run_of: Any, pipeline: str) -> None:
    """Before it reads the pipeline's file: in each task, so that a cleared one asks again."""
    params = {"pipeline": pipeline, "topic": None}
    context = {**run(conf=params), "params": params}
    with (
        mock.patch("tidegate.pipelines.pipeline_files.load_named", autospec=True) as load,
        pytest.raises(TriggerNotPermitted),
    ):
        run_of(context)
    assert not load.called
