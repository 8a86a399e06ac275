"""No secret of a connection is in what Airflow shows, logs or keeps of runs.

Two connections: one in the environment of Airflow's processes, one in its database.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import secured_broker, topic_records
from support.secret_scan import HOLDERS, Scan, key_secrets, wait_for
from support.secured_broker import SecuredBroker
from tidegate.launch import jars
from tidegate_local import airflow, health, postgres
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.ports import free_port
from tidegate_local.postgres import Postgres

NAME = "control_in_airflow"
"""The pipeline, its topic, and what is to be seen in each place."""
DAGS = (f"tidegate__{NAME}", f"tidegate__{NAME}_out")
LOGIN = "given"
"""The user of the connection in the environment."""
RECORDS = 400
SEEN = (
    "command lines", "environment", HOLDERS, "Airflow's logs", "Spark's output", "event log",
    "Spark's UI", "Spark's REST API", "lake", "Airflow's REST API", "Tidegate's pages",
    "rows of xcom", "rows of variable", "rows of rendered_task_instance_fields",
    "rows of serialized_dag", "rows of dag_run", "rows of task_instance", "rows of log",
    "rows of asset_event",
)  # fmt: skip


@dataclass
class World:
    """A running Airflow with two pipelines, and the scan."""

    home: Path
    api: AirflowApi
    database: Postgres
    secured: SecuredBroker
    scan: Scan
    ui: int

    @property
    def gate(self) -> Path:
        return self.home / "gate"

    def reached(self) -> set[Path]:
        return set(self.home.glob("gate.reached.*"))


def pipelines(home: Path, ui: int) -> None:
    (home / "pipelines").mkdir(parents=True)
    (home / "events").mkdir()
    conf = {
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (home / "events").as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(ui),
    }
    both = {"lake": str(home / "lake"), "spark": {"conf": conf}}
    ingest = {"name": NAME, "kind": "ingest", "topics": [NAME], "kafka": "kafka_given",
              "max_records": RECORDS // 2}  # fmt: skip
    egress = {"name": f"{NAME}_out", "kind": "egress", "source": {"lake": NAME}, "settle": 0,
              "target": {"topic": f"{NAME}-out", "kafka": "kafka_stored"}}  # fmt: skip
    for each in (ingest, egress):
        (home / f"pipelines/{each['name']}.yaml").write_text(json.dumps(each | both))


@pytest.fixture
def world(tmp_path: Path, secured: SecuredBroker) -> Iterator[World]:
    """Airflow's own processes, looked at from their start on."""
    home, port, ui = tmp_path / "home", free_port(), free_port()
    scan = Scan(NAME)
    password = f"canary-given-{secrets.token_hex(4)}"
    scan.add(given=password, **key_secrets((secured.files / "client.key").read_text()))
    scan.add(**{"key's password": secured_broker.KEY_PASSWORD})
    scan.allowed[HOLDERS] = ("given",)
    secured.set_password(LOGIN, password)
    secured.allow(LOGIN, "topic", NAME, "DESCRIBE", "READ", "DESCRIBE_CONFIGS")
    given = secured.connection(
        "LOGIN", sasl_mechanism="SCRAM-SHA-512", sasl_username=LOGIN, sasl_password=password
    )
    topic_records.numbers(secured.admin, NAME, RECORDS, partitions=2)
    topic_records.create(secured.admin, f"{NAME}-out", partitions=2)
    pipelines(home, ui)
    with scan.processes(lambda argv: b"spark" not in argv):
        try:
            database = postgres.start(home)
            env = airflow.environment(
                home, database=database, bootstrap=secured.admin, port=port,
                lake=str(home / "lake"),
            )  # fmt: skip
            env |= {
                "TIDEGATE_PIPELINES": str(home / "pipelines"),
                "TIDEGATE_TEST": NAME,
                "TIDEGATE_FAULT": f"stage.half:wait={home / 'gate'}",
                "AIRFLOW_CONN_KAFKA_GIVEN": json.dumps({"conn_type": "kafka", "extra": given}),
            }
            airflow.migrate(home, database=database, env=env)
            since = datetime.now(UTC)
            secret = airflow.password(home)
            for name in airflow.SERVICES:
                airflow.start(name, home, database=database, env=env)
            api = AirflowApi(f"http://127.0.0.1:{port}", user=airflow.USER, password=secret)
            health.wait(api, home, started=list(airflow.SERVICES), since=since, expected=DAGS)
            yield World(home, api, database, secured, scan, ui)
        finally:
            for name in airflow.SERVICES:
                airflow.stop(name, home)
            postgres.stop(home)


def half_way(world: World, run_id: str, change: bool = False) -> str:
    """Trigger the ingest, look at its Spark when half of it is staged; return how the run ends."""
    before = world.reached()
    world.api.trigger(DAGS[0], run_id)
    world.api.unpause(DAGS[0])
    wait_for(lambda: world.reached() - before, seconds=400)
    world.scan.look_at_spark(f"http://127.0.0.1:{world.ui}")
    if change:
        world.secured.set_password(LOGIN, "canary-changed")
    world.gate.touch()
    ended = world.api.wait(DAGS[0], run_id, timeout=400)
    world.gate.unlink()
    return str(ended["state"])


def paths(api: AirflowApi) -> Iterator[str]:
    """Yield what users may ask of Airflow's REST API about these DAGs and their runs."""
    yield from ("dags", "variables", "connections", "connections/kafka_stored", "eventLogs",
                "importErrors", "assets", "assets/events", "jobs", "plugins", "pools", "config",
                "dagStats", "dagWarnings")  # fmt: skip
    for dag in DAGS:
        of = f"dags/{dag}"
        yield from (of, f"{of}/details", f"{of}/tasks", f"dagSources/{dag}", f"{of}/dagRuns",
                    f"{of}/dagVersions")  # fmt: skip
        for run in api.runs(dag):
            of = f"dags/{dag}/dagRuns/{run['dag_run_id']}"
            yield from (of, f"{of}/taskInstances", f"{of}/upstreamAssetEvents")
            for task in api.tasks(dag, run["dag_run_id"]):
                this = f"{of}/taskInstances/{task['task_id']}"
                yield from (this, f"{this}/tries", f"{this}/links", f"{this}/xcomEntries")
                for number in range(1, task["try_number"] + 1):
                    yield f"{this}/logs/{number}?full_content=true"
                found = answer(api, f"/api/v2/{this}/xcomEntries")
                for each in json.loads(found)["xcom_entries"]:
                    yield f"{this}/xcomEntries/{each['key']}"


def answer(api: AirflowApi, path: str) -> bytes:
    answered = api._http.get(path)
    assert answered.status_code < 500, (path, answered.status_code, answered.text)
    return bytes(answered.content)


def look_at_airflow(world: World) -> None:
    """Look at its REST API, its database, its logs, and Tidegate's pages in it."""
    scan, api = world.scan, world.api
    for path in paths(api):
        scan.look_at("Airflow's REST API", path, answer(api, f"/api/v2/{path}"))
    pages = ["/tidegate/", "/tidegate/status.json", "/tidegate/metrics"]
    pages += [f"/tidegate/pipeline/{dag.removeprefix('tidegate__')}" for dag in DAGS]
    for dag in DAGS:
        for run in api.runs(dag):
            link = api.xcom(dag, run["dag_run_id"], "publish", "_link_ReportLink")
            pages += [f"/{link}"] if link else []
    assert len(pages) > 3
    for page in pages:
        scan.look_at("Tidegate's pages", page, answer(api, page))
    tables = world.database.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    for table in tables.split():
        rows = world.database.sql(f'SELECT t::text FROM "{table}" t')
        scan.look_at_rows(f"rows of {table}", [(row,) for row in rows.splitlines()])
    scan.look_at_tree("Airflow's logs", world.home / "logs")
    scan.look_at_tree("Airflow's home", world.home / "airflow")
    scan.look_at_tree("event log", world.home / "events")
    scan.look_at_tree("lake", world.home / "lake")
    for path in (jars.cache_dir() / "logs").glob(f"tidegate-{NAME}*"):
        scan.look_at("Spark's output", path.name, path.read_bytes())


def errors(api: AirflowApi, run_id: str, task_id: str) -> str:
    return "\n".join(api.log(DAGS[0], run_id, task_id, 1))


@pytest.mark.slow
def test_no_secret_of_a_connection_is_in_airflow(world: World) -> None:
    """Runs that succeed, one that is refused half-way, one that is refused at once."""
    api, secured = world.api, world.secured
    stored: dict[str, Any] = secured.ways["ssl-texts"]
    body = {"connection_id": "kafka_stored", "conn_type": "kafka", "extra": json.dumps(stored)}
    api._call("POST", "/api/v2/connections", json=body)
    assert half_way(world, "good") == "success"
    api.trigger(DAGS[1], "good")
    api.unpause(DAGS[1])
    assert api.wait(DAGS[1], "good", timeout=400)["state"] == "success"
    topic_records.numbers(secured.admin, NAME, RECORDS, first=RECORDS)
    assert half_way(world, "half", change=True) == "failed"
    assert "SaslAuthenticationException" in errors(api, "half", "stage")
    api.trigger(DAGS[0], "refused")
    assert api.wait(DAGS[0], "refused", timeout=300)["state"] == "failed"
    said = [line for line in errors(api, "refused", "plan").splitlines() if "::" not in line]
    assert "NotAuthenticated: " in "\n".join(said[-4:])  # the last lines, without frames
    look_at_airflow(world)
    world.scan.nothing_found(seen=SEEN)
