"""Airflow's own processes are killed, stopped and timed out while a run waits at a chosen point.

A task waits at a fault point until the file of its gate is there. All gates are open, but for the
one of a test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import oracle_client, running_airflow, topic_records
from support.process_list import descendants
from tidegate_local import airflow, health, postgres, processes
from tidegate_local.airflow_api import OVER, AirflowApi, AirflowUnreachable
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port
from tidegate_local.postgres import Postgres

pytestmark = pytest.mark.faults
NAME = "killed-in-airflow"
DAG, OWN = f"tidegate__{NAME}", "own"
POINTS = ("plan.frozen", "stage.half", "publish.committed", "publish.finalised", "caches.half")
ROWS = 400  # of a run, in two chunks
TIMEOUT = 25
OWN_DAG = f"""
from datetime import timedelta
from airflow.sdk import dag
from tidegate.airflow import TidegateRunOperator

@dag(schedule=None, default_args={{"retry_delay": timedelta(seconds=1), "retries": 2}})
def {OWN}():
    TidegateRunOperator(
        task_id="ingest", pipeline="{NAME}", execution_timeout=timedelta(seconds={TIMEOUT})
    )

{OWN}()
"""


@dataclass
class World:
    """A running Airflow with the pipeline `killed`, of the topic of that name."""

    home: Path
    api: AirflowApi
    database: Postgres
    env: dict[str, str]
    broker: Broker
    sent: int = 0

    def gate(self, point: str) -> Path:
        return self.home / f"gates/{point}"

    def send(self) -> None:
        topic_records.numbers(self.broker.bootstrap, NAME, ROWS, first=self.sent, partitions=2)
        self.sent += ROWS

    @contextmanager
    def waiting(self, point: str, dag: str, run_id: str) -> Iterator[int]:
        """Trigger a run with new records; yield the process that waits at the point, which goes on
        at the end.
        """
        self.send()
        gate = self.gate(point)
        gate.unlink()
        for old in gate.parent.glob(f"{point}.reached.*"):
            old.unlink()
        self.api.trigger(dag, run_id)
        self.api.unpause(dag)
        try:
            yield int(until(lambda: reached(gate)).suffix[1:])
        finally:
            gate.touch()

    def restart(self, service: str) -> None:
        since = datetime.now(UTC)
        airflow.start(service, self.home, database=self.database, env=self.env)
        health.wait(self.api, self.home, started=[service], since=since, expected=[DAG])

    def judge(self, dag: str, run_id: str) -> None:
        """Wait for the run's success; each record is in the lake once, and the Variable says so."""
        ended = until(lambda: over(self.api, dag, run_id), seconds=400)
        assert ended["state"] == "success", self.api.tasks(dag, run_id)
        oracle_client.agree(self.broker.bootstrap, self.home / "lake", NAME, [NAME])
        shown = json.loads(self.api.variable(f"tidegate__{NAME}__{NAME}") or "")
        assert shown == {NAME: {"0": self.sent // 2, "1": self.sent // 2}}


def until(found: Callable[[], Any], seconds: float = 200) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return result


def supervisor(waiting: int) -> psutil.Process:
    """Return the process of Airflow that supervises the task to which a process belongs."""
    process = psutil.Process(waiting)
    (task,) = (
        each for each in (process, *process.parents())
        if re.match("airflow worker -- (?!LocalExecutor)", " ".join(each.cmdline()))
    )  # fmt: skip
    parent = task.parent()
    assert parent is not None
    return parent


def reached(gate: Path) -> Path | None:
    return next(gate.parent.glob(f"{gate.name}.reached.*"), None)


def over(api: AirflowApi, dag: str, run_id: str) -> dict[str, Any] | None:
    try:
        run = api.run(dag, run_id)
    except AirflowUnreachable:
        return None
    return run if run and run["state"] in OVER else None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[World]:
    home, port = tmp_path_factory.mktemp("killed"), free_port()
    for each in ("pipelines", "gates"):
        (home / each).mkdir()
    shutil.copytree(airflow.DAGS, home / "dags")
    form = {
        "name": NAME, "kind": "ingest", "topics": [NAME], "lake": str(home / "lake"),
        "max_records": ROWS // 2,
    }  # fmt: skip
    (home / f"pipelines/{NAME}.yaml").write_text(json.dumps(form))
    (home / "dags/own.py").write_text(OWN_DAG)
    topic_records.create(broker.bootstrap, NAME, partitions=2)
    database = postgres.start(home)
    env = airflow.environment(
        home, database=database, bootstrap=broker.bootstrap, port=port, lake=str(home / "lake"),
        dags=home / "dags",
    )  # fmt: skip
    gates = {point: home / f"gates/{point}" for point in POINTS}
    env |= {
        "TIDEGATE_PIPELINES": str(home / "pipelines"),
        "TIDEGATE_FAULT": "; ".join(f"{point}:wait={gate}" for point, gate in gates.items()),
    }
    for gate in gates.values():
        gate.touch()
    try:
        with running_airflow.running(home, database, env, port, [DAG, OWN]) as api:
            yield World(home, api, database, env, broker)
    finally:
        postgres.stop(home)


@pytest.mark.parametrize("point", ["plan.frozen", "stage.half", "publish.finalised"])
@pytest.mark.parametrize("service", list(airflow.SERVICES))
def test_a_service_is_killed(world: World, service: str, point: str) -> None:
    """And starts again five seconds later. Without the API server the Variables cannot be written:
    what is committed stays so, and the task is tried again.
    """
    run_id = f"{service}-{point}"
    with world.waiting(point, DAG, run_id):
        process = processes.find(service, home=world.home)
        assert process is not None
        dying = psutil.Process(process.pid)
        processes.send(process, signal.SIGKILL)
        dying.wait(30)
        if service == "api-server":
            world.gate(point).touch()
        time.sleep(5)
        world.restart(service)
    world.judge(DAG, run_id)


@pytest.mark.parametrize("point", ["stage.half", "caches.half"])
def test_a_supervisor_is_killed(world: World, point: str) -> None:
    """Its task was done, and Airflow never learns it: the next try finds the commit, and its XCom
    is the one that the first would have had.
    """
    run_id = f"supervisor-{point}"
    before = len(list((world.home / f"lake/{NAME}/_tidegate/log").iterdir())) if world.sent else 0
    with world.waiting(point, DAG, run_id) as waiting:
        supervisor(waiting).kill()
    world.judge(DAG, run_id)
    commits = len(list((world.home / f"lake/{NAME}/_tidegate/log").iterdir())) - before
    report = world.api.xcom(DAG, run_id, "publish", "report")
    assert (len(report["commits"]), report["rows"]) == (2, ROWS)
    assert commits == (2 if before else commits)
    tries = {task["task_id"]: task["try_number"] for task in world.api.tasks(DAG, run_id)}
    assert tries["stage" if point == "stage.half" else "publish"] == 2


def test_a_worker_that_sleeps_past_its_heartbeat(world: World) -> None:
    """It is stopped while Spark stages, another try does the work, and it wakes: one commit a chunk
    stands, and nothing of the lake changes.
    """
    with world.waiting("stage.half", DAG, "zombie") as waiting:
        pid = supervisor(waiting).pid
        group = [pid, *descendants(pid)]
        for pid in group:
            os.kill(pid, signal.SIGSTOP)
    try:
        world.judge(DAG, "zombie")
        lake = {p: p.stat().st_ino for p in (world.home / "lake").rglob("data/**/*.parquet")}
    finally:
        for pid in group:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGCONT)
    until(lambda: not any(psutil.pid_exists(pid) for pid in group[1:]))  # the executor stays
    assert {p: p.stat().st_ino for p in (world.home / "lake").rglob("data/**/*.parquet")} == lake
    world.judge(DAG, "zombie")


def test_an_execution_timeout(world: World) -> None:
    """Nothing of the try is left ten seconds later, and the next one works the same plan."""
    with world.waiting("stage.half", OWN, "late") as waiting:
        driver = psutil.Process(waiting)
        jvm = next(each for each in driver.parents() if each.name() == "java")
        plans = set((world.home / f"lake/{NAME}/_tidegate/plans").iterdir())
        started = time.monotonic()
        gone, alive = psutil.wait_procs([driver, jvm], timeout=TIMEOUT + 30)
        assert (len(gone), alive) == (2, [])
        assert time.monotonic() - started < TIMEOUT + 10
    world.judge(OWN, "late")
    assert set((world.home / f"lake/{NAME}/_tidegate/plans").iterdir()) == plans


def test_a_conf_makes_no_connection(world: World) -> None:
    """Addresses in the conf of a run are refused before anything is asked of anybody."""
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        def listen() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                asked.append(address)
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        hostile = f"{host}:{port}"
        for n, conf in enumerate((
            {"bootstrap_servers": hostile}, {"kafka": hostile}, {"lake": f"s3://{hostile}/x"},
            {"spark": {"conf": {"spark.master": f"spark://{hostile}"}}}, {"conn_id": hostile},
        )):  # fmt: skip
            world.api.trigger(DAG, f"hostile-{n}", conf=conf)
            world.api.unpause(DAG)
            ended = until(lambda n=n: over(world.api, DAG, f"hostile-{n}"))
            assert ended["state"] == "failed"
            log = "\n".join(world.api.log(DAG, f"hostile-{n}", "plan", 1))
            assert "unknown params" in log
    assert asked == []
