"""What Airflow makes of the steps of a run: which are skipped, which run, and who fails the run."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.exceptions import AirflowFailException

with warnings.catch_warnings():
    # Airflow imports Starlette's test client, which would rather have a fork of httpx.
    warnings.simplefilter("ignore")
    import starlette.testclient  # noqa: F401

from tidegate.pipelines.spec import parse_spec

PROJECT = Path(__file__).parents[2]
TASKS = "tidegate.orchestration.tasks"


def succeed(*_: object, **__: object) -> bool:
    return True


def fail(*_: object, **__: object) -> None:
    raise AirflowFailException("for good")


@pytest.mark.usefixtures("airflow_database")
@pytest.mark.parametrize(
    ("plan", "stage", "verdict", "states", "state"),
    [
        (succeed, succeed, succeed, "success success success success",
         "success"),
        (succeed, fail, fail, "success failed success failed", "failed"),
        (lambda *_: False, fail, succeed, "success skipped skipped success", "success"),
        (fail, fail, fail, "failed upstream_failed upstream_failed upstream_failed", "failed"),
    ],
    ids=["all is well", "stage fails for good", "nothing new", "plan fails"],
)  # fmt: skip
def test_which_steps_run(
    pipelines: Path,
    plan: Callable[..., Any],
    stage: Callable[..., Any],
    verdict: Callable[..., Any],
    states: str,
    state: str,
) -> None:
    """`publish` runs after a `stage` that failed for good, and `verdict` fails the run then;
    with nothing new both are skipped, and after a `plan` that failed nothing runs.
    """
    from airflow.dag_processing.dagbag import DagBag

    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake", "retries": 0}
    (pipelines / "p.yaml").write_text(json.dumps(form))
    published = mock.Mock()
    with (
        mock.patch(f"{TASKS}.plan", plan),
        mock.patch(f"{TASKS}.publish", published),
        mock.patch(f"{TASKS}.verdict", verdict),
        mock.patch(f"{TASKS}.SparkTask.execute", stage),
    ):
        dag = DagBag(dag_folder=str(PROJECT / "dags/pipelines.py")).dags["tidegate__p"]
        done = dag.test()
    found = {each.task_id: str(each.state) for each in done.get_task_instances()}
    assert list(map(found.get, ("plan", "stage", "publish", "verdict"))) == states.split()
    assert str(done.state) == state
    assert published.called == (found["publish"] == "success")


@pytest.mark.usefixtures("airflow_database")
@pytest.mark.parametrize("kind", ["ingest", "egress"])
@pytest.mark.parametrize(
    ("plan", "work", "verdict", "states"),
    [
        (succeed, succeed, succeed, "success success success success"),
        (succeed, fail, fail, "success failed success failed"),
        (lambda *_: False, fail, succeed, "success skipped skipped success"),
    ],
    ids=["all is well", "the work fails for good", "nothing to do"],
)
def test_which_steps_of_a_replay_run(
    pipelines: Path,
    kind: str,
    plan: Callable[..., Any],
    work: Callable[..., Any],
    verdict: Callable[..., Any],
    states: str,
) -> None:
    """Of a replay one of `stage` and `send` is skipped, which keeps `publish` from nothing."""
    from airflow.dag_processing.dagbag import DagBag

    form: dict[str, Any] = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    if kind == "egress":
        form = {"name": "p", "kind": "egress", "source": {"lake": "q"}, "lake": "/lake",
                "target": {"topic": "t"}}  # fmt: skip
    (pipelines / "p.yaml").write_text(json.dumps(form))
    (pipelines / "q.yaml").write_text(
        json.dumps({"name": "q", "kind": "ingest", "topics": ["t"], "lake": "/lake"})
    )
    published = mock.Mock()
    with (
        mock.patch(f"{TASKS}.plan", plan),
        mock.patch(f"{TASKS}.publish", published),
        mock.patch(f"{TASKS}.verdict", verdict),
        mock.patch(f"{TASKS}.SparkTask.execute", work),
    ):
        dag = DagBag(dag_folder=str(PROJECT / "dags/replay.py")).dags["tidegate_replay"]
        asked = {"pipeline": "p", "topic": "t", "start": "1", "end": "2", "replay_id": "r"}
        done = dag.test(run_conf=asked)
    found = {each.task_id: str(each.state) for each in done.get_task_instances()}
    mine, other = ("stage", "send") if kind == "ingest" else ("send", "stage")
    assert list(map(found.get, ("plan", mine, "publish", "verdict"))) == states.split()
    assert found[other] == "skipped"
    assert published.called == (found["publish"] == "success")


def test_the_last_lines_of_a_log_are_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """Wrapped, with each word whole; Airflow logs it with frames above them."""
    from tidegate.errors import PartitionsLeftOut
    from tidegate.orchestration import factory, tasks

    command = "`tidegate run orders --replan`"
    text = f"pipeline 'orders': {'a partition was excluded; ' * 6}\n  - {command}"

    def said(error: object) -> list[str]:
        caplog.clear()
        with caplog.at_level("INFO"):
            tasks.log_failure({"exception": error})
        return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]

    with pytest.raises(AirflowFailException) as refused, tasks.airflow_errors():
        raise PartitionsLeftOut(text)
    assert refused.value.__suppress_context__
    lines = said(refused.value)
    assert " ".join(lines).split() == f"PartitionsLeftOut: {text}".split()
    assert max(map(len, lines)) <= 100
    assert lines[-1].endswith(command)
    assert said(PartitionsLeftOut(text)) == lines
    assert said(ValueError("a fault")) == []
    assert said(None) == []
    spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"})
    for task in factory.pipeline_dag(spec).tasks:
        assert task.on_failure_callback[-1] == tasks.log_failure
        assert task.on_retry_callback == [tasks.log_failure]
