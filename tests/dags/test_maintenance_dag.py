"""The maintenance DAG: harmless every day, the cursor by a form that refuses what is incomplete."""

import json
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Commit, Origin, Receipt, Reference
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.lake.sweeping import UndeletedAttempt
from tidegate.maintenance.sweep import SweptPipeline
from tidegate.orchestration import rights

with warnings.catch_warnings():
    # Airflow imports Starlette's test client, which would rather have a fork of httpx.
    warnings.simplefilter("ignore")
    import starlette.testclient  # noqa: F401

PROJECT = Path(__file__).parents[2]


def dag() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(PROJECT / "dags/maintenance.py"))
    assert bag.import_errors == {}
    return bag.dags["tidegate_maintenance"]


@pytest.fixture
def two(pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pipelines a and b of topic t, whose ledgers know where it began. Their lake."""
    lake = tmp_path / "lake"
    for name in "ab":
        form = {"name": name, "kind": "ingest", "topics": ["t"], "lake": str(lake)}
        (pipelines / f"{name}.yaml").write_text(json.dumps(form))
        ledger = Ledger(open_store(str(lake), name), name)
        ledger.append(Origin("t", "id-t", {0: 3}), run="run")
        data = lake / name / "data/x.parquet"
        data.parent.mkdir()
        data.write_bytes(b"strange")
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    return lake


def run(**params: Any) -> dict[str, str]:
    """Run the DAG in this process; return the states of its tasks, and under "" the run's own."""
    done = dag().test(run_conf=params)
    states = {each.task_id: str(each.state) for each in done.get_task_instances()}
    return {**states, "": str(done.state)}


def test_its_shape(pipelines: Path) -> None:
    """Daily; each step whatever came before it, and one that fails with them; a typed form."""
    maintenance = dag()
    assert {t.task_id: sorted(t.downstream_task_ids) for t in maintenance.tasks} == {
        "move_cursor": ["repair", "verdict"],
        "repair": ["reconcile", "verdict"],
        "reconcile": ["sweep", "verdict"],
        "sweep": ["checkpoint", "verdict"],
        "checkpoint": ["gone_files", "verdict"],
        "gone_files": ["verdict"],
        "verdict": [],
    }
    rules = {t.task_id: t.trigger_rule for t in maintenance.tasks}
    assert {rules[name] for name in ("repair", "reconcile", "sweep", "checkpoint")} == {"all_done"}
    assert (maintenance.schedule, maintenance.catchup) == ("@daily", False)
    assert set(maintenance.params) == {
        "pipeline", "repair", "reconcile", "sweep", "checkpoint",
        "topic", "partition", "offset", "reason",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [{"pipeline": "c"}, {"offset": -1}, {"partition": "0"}, {"sweep": "yes"}, {"reason": ""}],
)
def test_the_form_refuses_wrong_values(two: Path, airflow_database: None, wrong: Any) -> None:
    """When it is sent, by Airflow: nothing is started."""
    from airflow.sdk.exceptions import ParamValidationError

    maintenance = dag()
    with pytest.raises(ParamValidationError):
        maintenance.params.update(wrong)


@pytest.mark.slow
def test_the_harmless_ones_for_all_pipelines(
    two: Path, pipelines: Path, airflow_database: None
) -> None:
    """As scheduled, without any parameter; and what is not asked for is skipped. Of an egress, its
    Variable and its ledger.
    """
    from airflow.models import Variable

    sends = {"source": {"path": str(two / "*.txt"), "format": "text"}, "target": {"topic": "out"}}
    form = {"name": "back", "kind": "egress", "lake": str(two), **sends}
    (pipelines / "back.yaml").write_text(json.dumps(form))
    sent = Commit(
        "live", "c", "sha", 0, "a", "cluster", {}, {}, Reference("manifest", "sha"),
        (Receipt("out", "id-out", 0, 1, 4, 3, 0),),
    )  # fmt: skip
    Ledger(open_store(str(two), "back"), "back").append(sent, run="run")
    assert run() == {
        "move_cursor": "skipped", "repair": "success", "reconcile": "success", "sweep": "success",
        "checkpoint": "success", "gone_files": "success", "verdict": "skipped", "": "success",
    }  # fmt: skip
    for name in "ab":
        assert json.loads(Variable.get(f"tidegate__{name}__t")) == {"t": {"0": 3}}
        assert len(list((two / name / "_tidegate/quarantine").rglob("x.parquet"))) == 1
        assert (two / name / f"_tidegate/checkpoints/{1:020d}.json").exists()
    assert json.loads(Variable.get("tidegate__back__out")) == {"out": {"0": 4}}
    assert (two / f"back/_tidegate/checkpoints/{1:020d}.json").exists()
    assert run(pipeline="a", repair=False, sweep=False)["repair"] == "skipped"


def test_one_that_fails_stops_no_other(two: Path, airflow_database: None) -> None:
    """A damaged ledger and a Variable that is ahead: the others are kept, and the task fails."""
    from airflow.models import Variable

    (two / "a/_tidegate/log" / f"{1:020d}.json").write_text("{}")
    states = run()
    assert states == {
        "move_cursor": "skipped", "repair": "failed", "reconcile": "failed", "sweep": "failed",
        "checkpoint": "failed", "gone_files": "success", "verdict": "failed", "": "failed",
    }  # fmt: skip
    assert len(list((two / "b/_tidegate/quarantine").rglob("x.parquet"))) == 1
    Variable.set("tidegate__b__t", '{"t": {"0": 99}}')
    assert run(pipeline="b") == {
        "move_cursor": "skipped", "repair": "success", "reconcile": "failed", "sweep": "success",
        "checkpoint": "success", "gone_files": "success", "verdict": "failed", "": "failed",
    }  # fmt: skip
    assert Variable.get("tidegate__b__t") == '{"t": {"0": 99}}'


def test_an_unforeseen_error_stops_no_other(two: Path, airflow_database: None) -> None:
    """One that is not Tidegate's own fails the task at the end, and names its pipeline."""
    from tidegate.maintenance.checkpoint_step import checkpoint_pipeline

    def broken(spec: Any, store: Any) -> Any:
        if spec.name == "a":
            raise RuntimeError("unforeseen")
        return checkpoint_pipeline(spec, store)

    with mock.patch("tidegate.maintenance.checkpoint_step.checkpoint_pipeline", broken):
        states = run(repair=False, reconcile=False, sweep=False)
    assert (states["checkpoint"], states[""]) == ("failed", "failed")
    assert not (two / "a/_tidegate/checkpoints").exists()
    assert (two / f"b/_tidegate/checkpoints/{1:020d}.json").exists()


def test_a_sweep_that_keeps_copies_has_failed(two: Path, airflow_database: None) -> None:
    """A final file is not the one that was committed: as the command does, by its exit code."""
    kept = UndeletedAttempt("p", 0, "a", commit=4, why="its footer is another one")
    left = SweptPipeline(pipeline="a", swept=(), left=(kept,), files=0, bytes=0, uploads=0)
    with mock.patch("tidegate.maintenance.sweep.sweep_pipeline", autospec=True, return_value=left):
        states = run(pipeline="a")
    assert (states["sweep"], states["checkpoint"], states[""]) == ("failed", "success", "failed")


def test_a_cursor_is_moved_by_the_form(two: Path, airflow_database: None) -> None:
    """With all of its fields, by who may trigger the pipeline, whose name the ledger keeps; without
    one of them nothing is done, and neither is the rest.
    """
    from airflow.models import Variable

    form = {"pipeline": "b", "topic": "t", "partition": 0, "offset": 7, "reason": "poison"}
    seen = Survey("cluster", {"t": TopicIdentity("id-t", {0: 0})}, {"t": {0: Watermarks(0, 9, 9)}})
    with mock.patch("tidegate.maintenance.cursor_moves.survey", autospec=True, return_value=seen):
        refused = run(**{**form, "reason": None})
        assert (refused["move_cursor"], refused["checkpoint"], refused[""]) == (
            "failed", "success", "failed",
        )  # fmt: skip
        assert run(**form, unheard="of")["move_cursor"] == "failed"
        assert run(**form)["move_cursor"] == "failed"
        ledger = Ledger(open_store(str(two), "b"), "b")
        assert ledger.fold.gaps == []
        signature = rights.sign_trigger("tidegate_maintenance", "b", "dag_test")
        assert run(**form, signature=signature)["move_cursor"] == "success"
    (gap,) = ledger.refresh().gaps
    assert (gap.start, gap.end, gap.reason) == (3, 7, "poison")
    assert gap.by == "airflow:dag_test"
    entry = json.loads((two / f"b/_tidegate/log/{ledger.fold.n:020d}.json").read_text())
    assert entry["run"].startswith("manual__")
    assert json.loads(Variable.get("tidegate__b__t")) == {"t": {"0": 7}}
