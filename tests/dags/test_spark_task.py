"""How Airflow's provider calls spark-submit for a task of a pipeline."""

import json
from typing import Any
from unittest import mock

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from tidegate.launch.spark_submit import Submission
from tidegate.orchestration.tasks import SparkTask


def test_the_driver_runs_where_the_task_runs(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with mock.patch.object(SparkSubmitOperator, "execute", execute):
        task.submit(given, mock.Mock())
    (command,) = commands
    assert command[command.index("--master") + 1] == "spark://host:7077"
    assert command[command.index("--deploy-mode") + 1] == "client"
