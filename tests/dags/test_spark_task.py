"""How Airflow's provider calls spark-submit for a task of a pipeline."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from support import ingest_world
from support.unreachable_broker import unreachable
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.cli import runs
from tidegate.core.cursor import Watermarks
from tidegate.errors import BrokerUnreachable, StageFailed
from tidegate.launch import cds_archive, jars, spark_home, spark_submit, yarn_client
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import Submission
from tidegate.orchestration import deployment, spark_operator, tasks
from tidegate.orchestration.tasks import SparkTask
from tidegate.pipelines.pipeline_files import load_named

CORE, CONNECTOR = "spark-core_2.13-4.0.3.jar", "spark-sql-kafka-0-10_2.13-4.0.3.jar"


EXTRA = {
    "deploy-mode": "client", "queue": "root.etl", "namespace": "jobs",
    "conf": {"spark.cores.max": 4, "spark.executor.memory": "2g"},
}  # fmt: skip
Call = tuple[list[str], Mapping[str, str]]
"""The words of a command line, each once and sorted, with the mere name of the job file; and the
variables that are added.
"""


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077", "yarn", "k8s://https://h"])
@pytest.mark.parametrize("own", [False, True])
def test_a_task_submits_what_a_command_does(
    monkeypatch: pytest.MonkeyPatch, pipelines: Path, tmp_path: Path, master: str, own: bool
) -> None:
    """On every master, in client mode, with a Spark of the connection's own, which the provider
    refuses, too; no variable is in the command line.
    """
    extra: dict[str, Any] = dict(EXTRA)
    if own:
        home = tmp_path / "spark"
        for name in ("bin/spark-submit", f"jars/{CORE}", f"jars/{CONNECTOR}"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).touch()
        extra |= {"spark-home": str(home), "jars": "image", "python": sys.executable}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    spark = {"conn_type": "spark", "host": master, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tidegate.spark.parent_death.end_with_parent", lambda: None)
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(cds_archive, "find_archive", lambda: None)
    monkeypatch.delitem(vars(provider), "kube_client", raising=False)  # of another provider
    world = ingest_world.make(tmp_path / "lake", monkeypatch, {0: Watermarks(0, 250, 250)})
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root)}
    conf = {"spark.executor.memory": "3g"}
    (pipelines / "p.yaml").write_text(json.dumps({**form, "spark": {"conf": conf}}))

    by_task, by_command = task_call(), command_call(monkeypatch)
    assert by_task[1] == by_command[1]
    assert by_task[1]["PYSPARK_PYTHON"] == sys.executable
    assert by_task[0] == sorted({*by_command[0], "--deploy-mode", "client"})
    assert {master, "spark.cores.max=4", "spark.executor.memory=3g"} < {*by_task[0]}
    assert ("spark.yarn.queue=root.etl" in by_task[0]) == (master == "yarn")
    assert ("spark.kubernetes.namespace=jobs" in by_task[0]) == master.startswith("k8s")
    assert "PYSPARK_PYTHON" not in str(by_task[0])


def test_a_task_in_cluster_mode(
    monkeypatch: pytest.MonkeyPatch, pipelines: Path, tmp_path: Path
) -> None:
    """It submits what a command does; the key's file is in the environment of spark-submit alone,
    and when the task is ended, so is its application, by its tag.
    """
    extra = {"deploy-mode": "cluster", "python": "/of/the/nodes/python3"}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    spark = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    monkeypatch.setattr("tidegate.spark.parent_death.end_with_parent", lambda: None)
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    killed: list[str] = []
    monkeypatch.setattr(yarn_client, "kill_applications", lambda tag, _: killed.append(tag) or [])
    world = ingest_world.make(tmp_path / "lake", monkeypatch, {0: Watermarks(0, 250, 250)})
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root)}
    (pipelines / "p.yaml").write_text(json.dumps(form))

    by_task, env = task_call()
    assert "spark.submit.deployMode=cluster" in by_task
    assert "--deploy-mode" not in by_task
    (tag,) = (each.removeprefix("spark.yarn.tags=") for each in by_task if "yarn.tags" in each)
    assert killed == [tag]  # the stop is an error, too
    assert "HADOOP_TOKEN_FILE_LOCATION" in env
    assert "HADOOP_TOKEN_FILE_LOCATION" not in str(by_task)
    assert "PYSPARK_PYTHON" not in env
    by_command, same = command_call(monkeypatch)
    assert same.keys() == env.keys()
    own = tag.removeprefix("tidegate-")
    (other,) = (e.removeprefix("spark.yarn.tags=tidegate-") for e in by_command if "yarn.tags" in e)
    assert by_task == sorted(each.replace(other, own) for each in by_command)


def test_a_task_that_is_ended_kills_its_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `on_kill`; without one that was submitted it asks nobody."""
    killed: list[str] = []
    monkeypatch.setattr(yarn_client, "kill_applications", lambda tag, _: killed.append(tag) or [])
    monkeypatch.setattr(SparkSubmitOperator, "on_kill", lambda _: killed.append("spark-submit"))
    task = SparkTask(task_id="stage", run_of=mock.MagicMock())
    task.on_kill()
    kill = partial(yarn_client.kill_tagged, "tidegate-a1", Path("/spark"))
    task._submitted = Submission("spark-submit", "a.py", (), "n", {}, (), {}, kill=kill)
    task.on_kill()
    assert killed == ["spark-submit", "spark-submit", "tidegate-a1"]


class Stopped(BaseException):
    """Raised in the place of a start, past what asks the broker about a failure."""


def task_call() -> Call:
    """Return what the provider would start for a task of the pipeline p."""
    found: list[Call] = []

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        hook = operator._get_hook()
        command = hook._build_spark_submit_command(operator.application)
        found.append((words(command), hook._env))
        raise Stopped

    task = SparkTask(task_id="stage", run_of=lambda _: runs.new_run(load_named("p"), "r"))
    with (
        mock.patch.object(SparkSubmitOperator, "execute", execute),
        pytest.raises(Stopped),
    ):
        task.execute(mock.MagicMock())
    return found[0]


def command_call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return what `tidegate run p` would start."""
    found: list[Call] = []

    def command(application: Submission, master: str) -> list[str]:
        found.append((words(of(application, master)), application.env))
        raise Stopped

    of = spark_submit.render_command
    monkeypatch.setattr(spark_submit, "render_command", command)
    with pytest.raises(Stopped):
        runs.carry_out(runs.new_run(load_named("p"), "r"), as_json=True)
    return found[0]


def words(command: list[str]) -> list[str]:
    return sorted({*command[:-1], Path(command[-1]).name})


NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"
AWAY = "26/11/22 07:26:0{} WARN NetworkClient: Connection to node 1 could not be established."


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    kafka: KafkaCluster | None = None,
    master: str = "local[2]",
    added: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[str], list[str], StageFailed | BrokerUnreachable | None]:
    """Run a spark-submit of a few lines of shell by the provider.

    The provider adds settings `added`. Return what it and the task have logged, and the error.
    """
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    binary = tmp_path / "spark-submit"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    task = SparkTask(task_id="stage", run_of=mock.Mock())
    task.spark = SparkConnection("spark_default", master)
    env = spark_home.spark_environment()
    given = Submission(str(binary), "job.py", (), "flights r1", {}, (), env, kafka)

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        operator.conf = {**operator.conf, **added}
        operator._hook = operator._get_hook()
        operator._hook.submit(operator.application)

    failure = None
    with (
        mock.patch.object(SparkSubmitOperator, "execute", execute),
        mock.patch.object(SparkSubmitHook, "log") as log,
        mock.patch.object(spark_operator, "logger") as ours,
    ):
        try:
            task.submit(given, mock.Mock())
        except (StageFailed, BrokerUnreachable) as error:
            failure = error
    shown = [call.args[0] for call in log.info.call_args_list if len(call.args) == 1]
    return shown, [call.args[-1] for call in ours.info.call_args_list], failure


def test_the_log_of_a_task_has_what_people_are_to_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"echo '{NOISE}'; echo '{AWAY.format(1)}'; echo '{AWAY.format(2)}'; echo done"
    shown, ours, failure = run(tmp_path, monkeypatch, script)
    assert shown == [
        AWAY.format(1), "done",
        "1 more of: NetworkClient: Connection to node 1 could not be established.",
    ]  # fmt: skip
    (file,) = tmp_path.rglob("flights-r1-*.log")
    assert ours == [f"Spark's output: {file}"]
    assert failure is None


@pytest.mark.parametrize("master", ["k8s://https://h", "spark://k8s-7:7077", "yarn"])
def test_a_run_without_a_line_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """On Kubernetes the provider takes the status from the lines of the log."""
    monkeypatch.setitem(vars(provider), "kube_client", True)
    assert run(tmp_path, monkeypatch, f"echo '{NOISE}'", master=master)[2] is None
    assert isinstance(run(tmp_path, monkeypatch, "exit 7", master=master)[2], StageFailed)


def test_a_kill_before_anything_was_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider would look up a connection of its own, and refuse what it says."""
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"spark-home": "/opt/spark"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    SparkTask(task_id="stage", run_of=mock.Mock()).on_kill()


def test_spark_inherits_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider adds variables to the task's own, and takes none away."""
    script = 'echo "connection: [$AIRFLOW_CONN_SPARK_DEFAULT]"'
    shown, *_ = run(tmp_path, monkeypatch, script)
    assert shown == ["connection: []"]


def test_a_secret_that_the_provider_adds_is_not_in_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenLineage's transport does by a setting of Airflow; what is no secret is passed on."""
    added = {"spark.openlineage.transport.auth.apiKey": "hunter2", "spark.openlineage.parent": "x"}
    init = SparkSubmitHook.__init__
    found: list[Any] = []

    def made(hook: SparkSubmitHook, **given: Any) -> None:
        found.append(given.get("conf"))
        init(hook, **given)

    monkeypatch.setattr(SparkSubmitHook, "__init__", made)
    _, _, failure = run(tmp_path, monkeypatch, "true", added=added)
    assert failure is None
    assert found == [{"spark.openlineage.parent": "x"}]


def test_the_log_of_a_task_that_fails_has_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group, which Airflow folds; the error names the cause in one line."""
    said = "10:00 tidegate: plan f00d chunk 0 (t): UnknownTopic: gone"
    script = f"echo '{NOISE}'; echo '{said}'; echo '\tat x.Y(Z.java:1)'; exit 7"
    shown, ours, failure = run(tmp_path, monkeypatch, script)
    assert shown == [said]
    assert ours == [
        "::group::Spark's whole output",
        NOISE,
        said,
        "\tat x.Y(Z.java:1)",
        "::endgroup::",
    ]
    (file,) = tmp_path.rglob("flights-r1-*.log")
    assert isinstance(failure, StageFailed)
    assert str(failure) == (
        "flights r1: plan f00d chunk 0 (t): UnknownTopic: gone (spark-submit ended with 7); "
        f"Spark's output: {file}"
    )


def test_an_outage_ends_a_task_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way in which Airflow ends it: `on_kill`."""
    with unreachable(monkeypatch) as kafka:
        *_, failure = run(tmp_path, monkeypatch, "exec sleep 60", kafka)
    assert isinstance(failure, BrokerUnreachable)
    assert "no broker has answered for 0 s, and Spark was stopped" in str(failure)


@pytest.mark.parametrize("there", [True, False])
def test_plan_asks_yarn_by_the_spark_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, pipelines: Path, tmp_path: Path, there: bool
) -> None:
    """Of an open claim: there may be no other Spark. A wrong connection is left to `send`."""
    home = tmp_path / "spark"
    for name in ("bin/spark-submit", f"jars/{CORE}", f"jars/{CONNECTOR}") if there else ():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    extra = {"spark-home": str(home), "jars": "image", "deploy-mode": "cluster"}
    spark = {"conn_type": "spark", "host": "yarn", "extra": extra}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    source = {"path": str(tmp_path), "format": "text"}
    form = {"name": "p", "kind": "egress", "source": source, "target": {"topic": "t"}}
    (pipelines / "p.yaml").write_text(json.dumps({**form, "lake": str(tmp_path / "lake")}))
    found: list[Path | None] = []
    monkeypatch.setattr(deployment, "read_identity", lambda: "ours")

    def plan(opened: Any, *_: Any, **__: Any) -> None:
        found.append(opened.run.engine.connection.home)
        raise StageFailed("enough")

    monkeypatch.setattr("tidegate.egress.planning.plan", plan)
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, start_date=None)
    ti = mock.Mock(dag_id="d", run_id="r", task_id="plan", try_number=1)
    given = {"dag_run": run, "ti": ti, "params": {}}
    with pytest.raises(StageFailed, match="enough"):
        tasks.plan(partial(tasks.run_of, load_named("p")), given)  # type: ignore[arg-type]
    assert found == [home if there else None]


def test_a_dry_run_says_what_it_would_do_and_freezes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    pipelines: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the lines of `tidegate explain`."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    spark = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    world = ingest_world.make(tmp_path / "lake", monkeypatch, {0: Watermarks(0, 250, 250)})
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root)}
    (pipelines / "p.yaml").write_text(json.dumps(form))
    given: Any = {"params": {"dry_run": True}}
    caplog.set_level("INFO")
    assert tasks.plan(lambda _: runs.new_run(load_named("p"), "r"), given) is False
    said = [r.getMessage() for r in caplog.records if r.name.startswith("tidegate")]
    lines = said[said.index("dry run, nothing is frozen") + 1 :]
    assert lines[0].startswith("p (live): 250 records")
    assert ["0", "250", "0", "250", "-"] in [line.split() for line in lines]
    assert list(world.root.rglob("*.json")) == []
