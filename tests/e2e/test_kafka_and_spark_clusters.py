"""The demo's pipeline, unchanged, where everything is of several: Spark, Kafka and its database."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support import kafka_cluster, oracle_client, spark_cluster
from support.kafka_cluster import Brokers
from support.spark_cluster import Cluster
from tidegate_local import airflow, flights, health, postgres
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.ports import free_port

DAG = "tidegate__flights"
UNTIL_NOVEMBER = 308_641
YEAR = 336_776


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Brokers]:
    with kafka_cluster.running(tmp_path / "kafka") as running:
        yield running


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Cluster]:
    home = tmp_path / "spark"
    home.mkdir()
    with spark_cluster.running(home) as running:
        yield running


@pytest.fixture
def api(tmp_path: Path, kafka: Brokers, spark: Cluster) -> Iterator[AirflowApi]:
    """Airflow on Postgres, as the local stack starts it, with connections to both clusters."""
    home, port = tmp_path / "airflow", free_port()
    home.mkdir()
    try:
        database = postgres.start(home)
        env = airflow.environment(
            home, database=database, bootstrap=kafka.bootstrap, port=port,
            lake=str(tmp_path / "lake"),
        )  # fmt: skip
        env = {k: v for k, v in env.items() if k != "TIDEGATE_PIPELINES"}
        connection = {"conn_type": "spark", "host": spark.master}
        env["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(connection)
        env["SPARK_LOCAL_IP"] = "127.0.0.1"  # this machine's name need not resolve
        airflow.migrate(home, database=database, env=env)
        since = datetime.now(UTC)
        secret = airflow.password(home)
        for name in airflow.SERVICES:
            airflow.start(name, home, database=database, env=env)
        running = AirflowApi(f"http://127.0.0.1:{port}", user=airflow.USER, password=secret)
        health.wait(running, home, started=list(airflow.SERVICES), since=since, expected=[DAG])
        yield running
    finally:
        for name in airflow.SERVICES:
            airflow.stop(name, home)
        postgres.stop(home)


@pytest.mark.slow
def test_a_broker_and_an_executor_die_on_the_way(
    api: AirflowApi, kafka: Brokers, spark: Cluster, tmp_path: Path
) -> None:
    """Three brokers, a Spark master and worker, Airflow on Postgres. While eleven months of flights
    are staged, a broker that leads one of their partitions and the executor are killed. The run
    ends well, by itself; December follows with two brokers left. The oracle finds every flight
    once.
    """
    kafka.create("flights", partitions=4, config={"retention.ms": "-1"})
    assert flights.load(kafka.bootstrap, "flights", months=range(1, 12)) == UNTIL_NOVEMBER
    began = time.monotonic()
    due = datetime.now(UTC) - timedelta(hours=1)  # before the scheduled run of the unpausing
    api.trigger(DAG, "eleven", due=due, conf={"max_records": 30_000})
    api.unpause(DAG)
    staging = tmp_path / "lake/flights/_tidegate/staging"
    while not list(staging.glob("*/*/*/_done.json")):
        assert time.monotonic() - began < 180, api.tasks(DAG, "eleven")
        time.sleep(0.02)
    victim = next(n for n in kafka.leaders("flights").values() if n != 1)
    (executor, *_) = spark.executors()
    kafka.kill(victim)
    os.kill(executor, signal.SIGKILL)
    done = len(list(staging.glob("*/*/*/_done.json")))
    print(f"killed broker {victim} and executor {executor}; {done} chunks of 11 were staged")
    assert done < 11
    run = api.wait(DAG, "eleven", timeout=300)
    tries = {task["task_id"]: task["try_number"] for task in api.tasks(DAG, "eleven")}
    print(f"the run: {run['state']} after {time.monotonic() - began:.0f} s, tries {tries}")
    assert run["state"] == "success"
    assert victim not in kafka.leaders("flights").values()
    report = api.xcom(DAG, "eleven", "publish", "report")
    assert report["rows"] == UNTIL_NOVEMBER
    flights.load(kafka.bootstrap, "flights", months=[12])
    api.trigger(DAG, "december")
    assert api.wait(DAG, "december", timeout=180)["state"] == "success"
    found = oracle_client.agree(kafka.bootstrap, tmp_path / "lake", "flights", ["flights"])
    print(f"the oracle: {found['lake']:,} rows, equal: {found['equal']}")
    assert found["lake"] == YEAR
    shown = json.loads(api.variable("tidegate__flights__flights") or "")
    assert sum(shown["flights"].values()) == YEAR
