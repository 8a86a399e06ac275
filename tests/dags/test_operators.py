"""The operators for DAGs that people write: a whole run in one task, and the sensor."""

import json
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.exceptions import AirflowFailException
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from support import egress_world, ingest_world
from support.doc_pages import fenced, page
from support.ingest_world import World
from support.kafka_answers import answer
from support.toy_engine import submitting
from tidegate.core.cursor import Watermarks
from tidegate.errors import BrokerUnreachable, LakeUnavailable, SendFailed, StageFailed
from tidegate.ingest import complete_through
from tidegate.orchestration.operators import TidegateCompleteThroughSensor, TidegateRunOperator
from tidegate.runs.run import NoMirror

with warnings.catch_warnings():
    # Airflow imports Starlette's test client, which would rather have a fork of httpx.
    warnings.simplefilter("ignore")
    import starlette.testclient  # noqa: F401


@pytest.fixture
def world(pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The pipeline p of topic t with 250 records: three chunks."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    spark = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setattr("tidegate.spark.parent_death.end_with_parent", lambda: None)
    world = ingest_world.make(tmp_path / "lake", monkeypatch, {0: Watermarks(0, 250, 250)})
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root)}
    (pipelines / "p.yaml").write_text(json.dumps({**form, "max_records": 100}))
    monkeypatch.setattr("tidegate.orchestration.airflow_connections.Variables", NoMirror)
    return world


def context(task: Any, *, run_id: str = "r", try_number: int = 1, map_index: int = -1) -> Any:
    """A task's context in the DAG `etl`, with Params and a conf of the DAG's own."""
    ti = mock.Mock(dag_id="etl", task_id=task.task_id, run_id=run_id, try_number=try_number)
    ti.map_index = map_index
    run = SimpleNamespace(dag_id="etl", run_id=run_id, run_type="manual", conf={"mine": 1})
    return {"dag_run": run, "ti": ti, "task": task, "params": {"mine": 1, "max_records": 7},
            "outlet_events": OutletEventAccessors()}  # fmt: skip


def pushed(given: Any) -> dict[str, Any]:
    return dict(call.args for call in given["ti"].xcom_push.call_args_list)


def execute(task: TidegateRunOperator, given: Any, submit: Any) -> None:
    with mock.patch.object(TidegateRunOperator, "submit", lambda _, call, __: submit(call)):
        task.execute(given)


def test_a_whole_run(world: World) -> None:
    """The DAG's own Params and conf are not the run's; XComs, and the event of an asset."""
    orders = Asset(uri="tidegate://p/t", name="tidegate://p/t")
    task = TidegateRunOperator(task_id="go", pipeline="p", outlets=[orders])
    execute(task, given := context(task), submitting(world.submit()))
    found = pushed(given)
    assert sorted(found) == ["endingOffsets", "offsets", "plan", "report", "startingOffsets"]
    assert found["endingOffsets"] == found["offsets"] == '{"t":{"0":250}}'
    assert found["report"]["rows"] == 250
    assert len(found["report"]["commits"]) == 3
    assert given["outlet_events"][orders].extra["rows"] == 250


@pytest.mark.parametrize(
    "outlet",
    [
        Asset(uri="tidegate://p/t", name="orders"),
        Asset.ref(uri="tidegate://p/t"),
        Asset.ref(name="tidegate://p/t"),
        Asset(uri="tidegate://p/u", name="of another topic"),
    ],
)
def test_assets_of_another_name(world: World, outlet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the asset's URI, or a reference, which has one of both only."""
    stored = Asset(uri="tidegate://p/t", name="tidegate://p/t")
    monkeypatch.setattr(OutletEventAccessors, "_get_asset_from_db", lambda *_, **__: stored)
    task = TidegateRunOperator(task_id="go", pipeline="p", outlets=[outlet])
    execute(task, given := context(task), submitting(world.submit()))
    assert given["outlet_events"][outlet].extra.get("rows") == (
        None if outlet == Asset(uri="tidegate://p/u", name="of another topic") else 250
    )


def test_the_spark_connection_of_the_pipeline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings are in what is submitted; a wrong one is refused at once."""
    form = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {"spark.cores.max": 3}}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(form))
    task = TidegateRunOperator(task_id="go", pipeline="p")
    found: list[Any] = []

    def submit(given: Any) -> None:
        found.append(given.conf["spark.cores.max"])
        submitting(world.submit())(given)

    execute(task, context(task), submit)
    assert found == ["3"]
    form["extra"] = {"deploy-mode": "cluster"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(form))
    with pytest.raises(AirflowFailException, match="'spark_default':\n  - deploy-mode: cluster"):
        task.execute(context(task, run_id="other"))


def test_a_retry_resumes_the_run(world: World) -> None:
    """What was sealed is published before the task fails; the retry stages the rest of its plan."""
    task = TidegateRunOperator(task_id="go", pipeline="p")
    with pytest.raises(StageFailed, match="chunk 2"):
        execute(task, first := context(task), submitting(world.submit(fail=[2])))
    assert pushed(first)["report"]["rows"] == 200
    world.marks[0] = Watermarks(0, 300, 300)
    execute(task, second := context(task, try_number=2), submitting(world.submit()))
    assert pushed(second)["plan"] == pushed(first)["plan"]
    assert pushed(second)["report"]["rows"] == 250
    execute(task, third := context(task, run_id="next"), submitting(world.submit()))
    assert pushed(third)["report"]["rows"] == 50
    other = TidegateRunOperator(task_id="again", pipeline="p")
    execute(other, fourth := context(other), submitting(world.submit()))
    assert pushed(fourth)["plan"] != pushed(first)["plan"], "another task, another plan"


def test_its_options(world: World) -> None:
    task = TidegateRunOperator(task_id="go", pipeline="p", max_records=50, max_chunks=2)
    execute(task, given := context(task), submitting(world.submit()))
    assert [each["rows"] for each in pushed(given)["report"]["commits"]] == [50, 50]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"pipeline": "q"}, "there is no pipeline 'q'"), ({"resend": True}, "is for egress")],
)
def test_a_wrong_pipeline_fails_for_good(
    world: World, options: dict[str, Any], complaint: str
) -> None:
    task = TidegateRunOperator(task_id="go", **{"pipeline": "p", **options})
    with pytest.raises(AirflowFailException, match=complaint):
        execute(task, context(task), submitting(world.submit()))


def test_arguments_of_spark_are_refused() -> None:
    """They would have no effect."""
    with pytest.raises(ValueError, match="has no conf, conn_id: Spark's settings are those of"):
        TidegateRunOperator(task_id="go", pipeline="p", conf={}, conn_id="spark_other")


def test_an_egress(world: World, pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows who else sends, and which senders have ended; a mapped task could not be told."""
    form = {"name": "back", "kind": "egress", "source": {"lake": "p"}, "lake": str(world.root)}
    (pipelines / "back.yaml").write_text(json.dumps({**form, "target": {"topic": "copy"}}))
    monkeypatch.setattr("tidegate.orchestration.deployment.read_identity", lambda: "ours")
    task = TidegateRunOperator(task_id="go", pipeline="back", resend=True)
    given = context(task, try_number=2)
    with mock.patch("tidegate.egress.egress_run.egress") as egress:
        execute(task, given, submitting(world.submit()))
    (run,) = egress.call_args.args
    task_of_run, ended = run.senders.task, run.senders.task_ended
    assert (run.dag_id, run.run_id, run.resend) == ("etl/go", "r", True)
    here = {"dag": "etl", "run": "r", "task": "go", "try": 2, "deployment": "ours"}
    assert task_of_run == here
    assert ended({**here, "try": 1})
    assert not ended(here)
    with pytest.raises(
        AirflowFailException, match="'back' is an egress: it cannot be run by a map"
    ):
        execute(task, context(task, map_index=0), submitting(world.submit()))


def test_an_egress_whose_application_dies_is_sent_by_the_retry(
    world: World, pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim stands, in the name of the task; the next try takes it over, and nothing is left
    for a third.
    """
    out = egress_world.World(tmp_path, egress_world.target_of())
    (tmp_path / "in").mkdir()
    out.put(a="1")
    answer(monkeypatch, survey_target=lambda *_, **__: out.target)
    monkeypatch.setattr("tidegate.orchestration.deployment.read_identity", lambda: "ours")
    (pipelines / "out.yaml").write_text(out.spec.model_dump_json(exclude_unset=True))
    task = TidegateRunOperator(task_id="go", pipeline="out")
    with pytest.raises(SendFailed, match="killed"):
        execute(task, context(task), submitting(out.app(egress_world.dies_while_sending)))
    (claim,) = out.fold.egress.claims.values()
    assert (claim.sender["task"]["task"], claim.sender["task"]["try"]) == ("go", 1)
    execute(
        task, second := context(task, try_number=2), submitting(out.app(egress_world.sends_all))
    )
    assert (pushed(second)["report"]["rows"], out.fold.egress.claims) == (1, {})
    execute(task, third := context(task, try_number=3), submitting(out.app(egress_world.sends_all)))
    assert (pushed(third)["report"]["rows"], len(out.ran)) == (1, 2)


def sensor(until: Any, **options: Any) -> TidegateCompleteThroughSensor:
    given = {"pipeline": "p", "topic": "t", **options}
    return TidegateCompleteThroughSensor(task_id="wait", until=until, **given)


def test_the_sensor(world: World) -> None:
    """It waits for a run, and then for nothing; what came later does not matter."""
    now = datetime.now(UTC)
    wait = sensor(f" {now.isoformat()}")
    assert (wait.mode, wait.template_fields) == ("reschedule", ("pipeline", "topic", "until"))
    assert not wait.poke(context(wait))
    task = TidegateRunOperator(task_id="go", pipeline="p")
    execute(task, context(task), submitting(world.submit()))
    world.away = BrokerUnreachable("away")
    assert wait.poke(context(wait))
    assert sensor(now - timedelta(days=1)).poke(context(wait))


@pytest.mark.parametrize("error", [BrokerUnreachable("away"), LakeUnavailable("away")])
def test_an_outage_is_waited_for(
    world: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete_through, "is_complete_through", mock.Mock(side_effect=error))
    assert not sensor(datetime.now(UTC)).poke(context(sensor(datetime.now(UTC))))


@pytest.mark.parametrize(
    ("until", "options", "complaint"),
    [
        ("2026-03-14", {}, "a time needs a zone"),
        ("yesterday", {}, "until 'yesterday': an ISO 8601 time"),
        (None, {}, "until None: an ISO 8601 time"),
        ("2026-03-14T00:00:00Z", {"topic": "u"}, "does not read topic 'u'"),
        ("2026-03-14T00:00:00Z", {"pipeline": "q"}, "there is no pipeline 'q'"),
    ],
)
def test_a_wrong_question_fails_for_good(
    world: World, until: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(AirflowFailException, match=complaint):
        sensor(until, **options).poke(context(sensor(until)))


EXAMPLE = fenced(page("docs/airflow.md"), "python")[0].replace('"orders"', '"p"')


def test_the_example_of_the_docs(
    world: World, airflow_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is parsed without reading a pipeline file, is stored, and its run counts what it read."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    file = tmp_path / "dags/orders_report.py"
    file.parent.mkdir()
    file.write_text(EXAMPLE)
    monkeypatch.setattr("airflow.settings.DAGS_FOLDER", str(file.parent))
    bag = DagBag(dag_folder=str(file))
    assert bag.import_errors == {}
    dag = bag.dags["orders_report"]
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == {
        "ingest": {"report"}, "complete": {"report"}, "report": set()
    }  # fmt: skip
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert stored.get_task("ingest").template_fields == ["pipeline"]
    assert stored.get_task("complete").template_fields == ["pipeline", "topic", "until"]
    with (
        mock.patch.object(
            TidegateRunOperator, "submit", lambda _, call, __: submitting(world.submit())(call)
        ),
        mock.patch.object(TidegateCompleteThroughSensor, "poke", return_value=True),
    ):
        done = dag.test()
    states = {each.task_id: str(each.state) for each in done.get_task_instances()}
    assert states == dict.fromkeys(("ingest", "complete", "report"), "success")
    assert world.rows == {0: [*range(250)]}
