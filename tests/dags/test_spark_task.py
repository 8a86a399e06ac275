"""How Airflow's provider calls spark-submit for a task of a pipeline."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from support.unreachable_broker import unreachable
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import BrokerUnreachable, StageFailed
from tidegate.launch import spark_home
from tidegate.launch.submission import Submission
from tidegate.orchestration import tasks
from tidegate.orchestration.tasks import SparkTask


def test_the_driver_runs_where_the_task_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A connection with `deploy-mode: cluster` too: elsewhere the job file would not be found."""
    extra = {"deploy-mode": "cluster"}
    connection = {"conn_type": "spark", "host": "spark://host", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    commands: list[list[str]] = []

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        commands.append(operator._get_hook()._build_spark_submit_command(operator.application))

    task = SparkTask(task_id="stage", run_of=mock.Mock())
    task._conn_id = "spark_default"
    conf = {"spark.submit.deployMode": "client"}
    given = Submission("/bin/spark-submit", "job.py", ("job.json",), "p r", conf, (), {})
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    with mock.patch.object(SparkSubmitOperator, "execute", execute):
        task.submit(given, mock.Mock())
    (command,) = commands
    assert command[command.index("--master") + 1] == "spark://host:7077"
    assert command[command.index("--deploy-mode") + 1] == "client"


NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"
AWAY = "26/11/22 07:26:0{} WARN NetworkClient: Connection to node 1 could not be established."


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kafka: KafkaSettings | None = None
) -> tuple[list[str], list[str], StageFailed | BrokerUnreachable | None]:
    """Run a spark-submit of a few lines of shell by the provider.

    Return what the provider and the task have logged, and the error.
    """
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    spark = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    binary = tmp_path / "spark-submit"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    task = SparkTask(task_id="stage", run_of=mock.Mock())
    task._conn_id = "spark_default"
    env = spark_home.environment()
    given = Submission(str(binary), "job.py", (), "flights r1", {}, (), env, kafka)

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        operator._hook = operator._get_hook()
        operator._hook.submit(operator.application)

    failure = None
    with (
        mock.patch.object(SparkSubmitOperator, "execute", execute),
        mock.patch.object(SparkSubmitHook, "log") as log,
        mock.patch.object(tasks, "logger") as ours,
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


def test_spark_inherits_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider adds variables to the task's own, and takes none away."""
    script = 'echo "connection: [$AIRFLOW_CONN_SPARK_DEFAULT]"'
    shown, *_ = run(tmp_path, monkeypatch, script)
    assert shown == ["connection: []"]


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
        f"flights r1: plan f00d chunk 0 (t): UnknownTopic: gone; Spark's output: {file}"
    )


def test_an_outage_ends_a_task_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way in which Airflow ends it: `on_kill`."""
    with unreachable(monkeypatch) as kafka:
        *_, failure = run(tmp_path, monkeypatch, "exec sleep 60", kafka)
    assert isinstance(failure, BrokerUnreachable)
    assert "no broker has answered for 0 s, and Spark was stopped" in str(failure)
