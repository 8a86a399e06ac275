"""What a user does on the page: through Airflow's own API, with that user's rights."""

import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.utils import timezone

from support.api_server import FORMS, TestClient, add_pipelines, permit, server, sync_dags, token
from support.kafka_answers import answer
from support.status_page import CLUSTER, TOPIC, TOPIC_ID
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.orchestration import rights
from tidegate.ui import app as ui_app
from tidegate.ui.watch import PipelineWatch

DAG = "tidegate__flights"
OWN = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}


@pytest.fixture
def browser(
    flights: str, pipelines: Path, airflow_database: None, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Airflow's API server, with the page. Of its users ann may do all with the pipeline `flights`,
    bob may only start backfills.
    """
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"extra": extra}))
    form = {"conn_type": "spark", "host": "local[*]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(form))
    monkeypatch.setattr(ui_app, "watch", PipelineWatch())
    monkeypatch.setattr(ui_app, "PATIENCE", 15.0)
    add_pipelines(pipelines)
    sync_dags()
    permit(monkeypatch, {"ann": {*FORMS, DAG}, "bob": set(FORMS)})
    answer(monkeypatch, expiries=lambda *_: {}, mean_size=lambda *_: None)
    marks = {0: Watermarks(0, 4_000, 4_000), 1: Watermarks(20, 20, 20)}
    seen = Survey(CLUSTER, {TOPIC: TopicIdentity(TOPIC_ID, {0: 0, 1: 0})}, {TOPIC: marks})
    with mock.patch.object(KafkaCluster, "survey", autospec=True, return_value=seen):
        yield TestClient(server(), follow_redirects=False)
    ui_app.watch.stop()


def sign_in(browser: TestClient, user: str) -> TestClient:
    browser.cookies.clear()
    browser.cookies.set("_token", token(user))
    return browser


def newest_run(dag_id: str) -> Any:
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        runs = session.query(DagRun).filter_by(dag_id=dag_id).order_by(DagRun.id.desc())
        return runs.first()


def fail(run: Any, *failed: str) -> None:
    """Let these tasks of a run have failed, and the others ended well."""
    from airflow.models import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        for each in session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id):
            each.state = "failed" if each.task_id in failed else "success"
        found = session.query(DagRun).filter_by(dag_id=run.dag_id, run_id=run.run_id).one()
        found.state, found.end_date = "failed", timezone.utcnow()


def states(run: Any) -> dict[str, Any]:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        tasks = session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id)
        return {each.task_id: each.state for each in tasks}


def test_run_pause_and_clear(browser: TestClient) -> None:
    """Each says what was done, on the page to which it returns."""
    from airflow.models import DagModel

    sign_in(browser, "ann")
    assert "Run now" in browser.get("/tidegate/pipeline/flights").text
    before = newest_run(DAG)
    answer = browser.post("/tidegate/pipeline/flights/run", headers=OWN)
    assert (answer.status_code, answer.headers["Location"]) == (303, "../flights")
    run = newest_run(DAG)
    assert run.id != (before and before.id)
    assert run.triggering_user_name == "ann"
    assert "A run was started." in browser.get("/tidegate/pipeline/flights").text
    assert "A run was started." not in browser.get("/tidegate/pipeline/flights").text
    for action, paused in (("pause", True), ("unpause", False)):
        assert browser.post(f"/tidegate/pipeline/flights/{action}", headers=OWN).status_code == 303
        assert bool(DagModel.get_dagmodel(DAG).is_paused) is paused
        other = "Unpause" if paused else "Pause"
        assert f"<button>{other}</button>" in browser.get("/tidegate/pipeline/flights").text
    fail(run, "stage", "verdict")
    html = browser.get("/tidegate/pipeline/flights").text
    assert f"Clear what failed of {run.run_id}" in html
    form = {"run": run.run_id}
    answer = browser.post("/tidegate/pipeline/flights/clear", headers=OWN, data=form)
    assert answer.status_code == 303, answer.text
    assert states(run) == {"plan": "success", "stage": None, "publish": None, "verdict": None}
    answer = browser.post("/tidegate/pipeline/flights/clear", headers=OWN, data=form)
    assert answer.status_code == 409
    answer = browser.post("/tidegate/pipeline/flights/clear", headers=OWN, data={"run": "no"})
    assert answer.status_code == 409
    assert "Airflow refuses" in answer.text
    assert browser.post("/tidegate/pipeline/flights/drop", headers=OWN).status_code == 404


def test_a_backfill_is_looked_at_before_it_is_done(browser: TestClient) -> None:
    """What it would read is a table; the run of tidegate_backfill is signed for its user."""
    sign_in(browser, "ann")
    window = {"start": "500", "end": "2000", "partitions": 0}
    html = browser.get("/tidegate/pipeline/flights/backfill", params=window).text
    assert "500 records in 1 commit" in html  # from 1,000 on they are in the lake
    assert "Do it" in html
    refused = browser.get("/tidegate/pipeline/flights/backfill", params={"start": "x"}).text
    assert "Do it" not in refused
    assert re.search(r'role="alert"><pre>[^<]*x', refused)
    answer = browser.post("/tidegate/pipeline/flights/backfill", headers=OWN, data=window)
    assert answer.status_code == 303, answer.text
    assert answer.headers["Location"] == "../../flights"
    run = newest_run("tidegate_backfill")
    conf = {"start": "500", "end": "2000", "partitions": [0], "pipeline": "flights"}
    assert conf.items() <= run.conf.items()
    context: Any = {"dag_run": run}
    assert rights.check_rights(context, "flights") == "ann"


def test_who_may_not_see_a_dag_finds_no_trace(browser: TestClient) -> None:
    """Neither on a page, nor by an action or an address that was sent."""
    sign_in(browser, "bob")
    assert "flights" not in browser.get("/tidegate/").text
    assert browser.get("/tidegate/status.json").json()["pipelines"] == []
    before = newest_run(DAG), newest_run("tidegate_backfill")
    for method, path in (
        ("GET", "pipeline/flights"),
        ("GET", "pipeline/flights/backfill?start=0"),
        ("POST", "pipeline/flights/run"),
        ("POST", "pipeline/flights/pause"),
        ("GET", f"dag/{DAG}/r"),
    ):
        answer = browser.request(method, f"/tidegate/{path}", headers=OWN)
        assert answer.status_code == 404, path
        assert TOPIC not in answer.text.replace(DAG, "")
    data = {"start": "0"}
    answer = browser.post("/tidegate/pipeline/flights/backfill", headers=OWN, data=data)
    assert answer.status_code == 404
    after = newest_run(DAG), newest_run("tidegate_backfill")
    assert [run and run.id for run in before] == [run and run.id for run in after]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "null"},
        {},
    ],
)
def test_another_site_does_nothing(browser: TestClient, headers: dict[str, str]) -> None:
    """The browser sends the cookie with a form of any site."""
    sign_in(browser, "ann")
    before = newest_run(DAG)
    answer = browser.post("/tidegate/pipeline/flights/run", headers=headers)
    assert answer.status_code == 403
    run = newest_run(DAG)
    assert (run and run.id) == (before and before.id)


def test_links_from_airflow(browser: TestClient) -> None:
    """From a DAG to its pipeline, from a run to its report."""
    sign_in(browser, "ann")
    answer = browser.get(f"/tidegate/dag/{DAG}")
    assert answer.headers["Location"] == "../pipeline/flights"
    answer = browser.get(f"/tidegate/dag/{DAG}/unknown")
    assert answer.headers["Location"] == "../../pipeline/flights"
    assert browser.get("/tidegate/dag/tidegate_backfill").status_code == 404
