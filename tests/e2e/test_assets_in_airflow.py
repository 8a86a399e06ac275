"""What others see of a run on a real scheduler: assets, hours, callbacks, lineage, metrics."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support import running_airflow, topic_reader, topic_records
from tidegate.orchestration.assets import hours_between
from tidegate_local import airflow, postgres
from tidegate_local.airflow_api import OVER, AirflowApi
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

pytestmark = pytest.mark.slow
HOURS = "tidegate://orders/complete/hours"
FOLLOWER = f"""
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task

with DAG("of_an_hour", schedule=PartitionedAssetTimetable(assets=Asset("{HOURS}"))):
    @task
    def report(dag_run=None):
        return dag_run.partition_key

    report()
"""
ALERTS = """
import json
from airflow.sdk import BaseNotifier

class Pager(BaseNotifier):
    def __init__(self, file, **others):
        super().__init__(**others)
        self.file = file

    def notify(self, context):
        run = context["dag_run"]
        is_missed = "deadline" in context
        found = [run["dag_id"], run["dag_run_id"]] if is_missed else [run.dag_id, run.run_id]
        with open(self.file, "a") as out:
            out.write(json.dumps([*found, is_missed]) + "\\n")
"""
OPENLINEAGE = (
    *("apache-airflow-providers-openlineage==2.20.3", "openlineage-python==1.54.0"),
    *("openlineage-integration-common==1.54.0", "openlineage_sql==1.54.0", "sqlparse==0.6.1"),
    *("httpx2==2.16.2", "httpcore2==2.16.2", "truststore==0.10.5"),
)
"""What the tests' environment has no need of, and Airflow's provider of lineage has."""


class Collector(ThreadingHTTPServer):
    """A collector of OpenTelemetry: metrics as they arrive, with the labels of each point."""

    def __init__(self) -> None:
        self.points: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        super().__init__(("127.0.0.1", 0), self._Requests)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class _Requests(BaseHTTPRequestHandler):
        server: Collector

        def do_POST(self) -> None:
            from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body)
            for metric in (
                each
                for of_resource in found.resource_metrics
                for scope in of_resource.scope_metrics
                for each in scope.metrics
            ):
                for point in metric.gauge.data_points:
                    labels = {a.key: a.value.string_value for a in point.attributes}
                    kept = tuple(sorted(labels.items()))
                    self.server.points.setdefault(metric.name, {})[kept] = point.as_double
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass


@dataclass
class World:
    """A running Airflow whose publish tasks die at their first commit."""

    home: Path
    api: AirflowApi
    broker: Broker
    collector: Collector

    def run(self, dag: str, run_id: str, **conf: Any) -> str:
        self.api.trigger(dag, run_id, conf=conf)
        self.api.unpause(dag)
        return str(self.api.wait(dag, run_id, timeout=300)["state"])

    def told(self) -> list[list[Any]]:
        file = self.home / "told"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def events(self) -> list[dict[str, Any]]:
        return self.api._all("/api/v2/assets/events", "asset_events", name_pattern=HOURS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[World]:
    home, port, collector = tmp_path_factory.mktemp("seen"), free_port(), Collector()
    (home / "pipelines").mkdir()
    shutil.copytree(airflow.DAGS, home / "dags")
    (home / "dags/of_an_hour.py").write_text(FOLLOWER)
    (home / "dags/my_alerts.py").write_text(ALERTS)
    told = {"call": "my_alerts.Pager", "arguments": {"file": str(home / "told")}}
    settings = {"complete_hours": True, "on_failure": told, "deadline": 1}
    for form in (
        {"name": "orders", "topics": ["orders-by-hour"], "airflow": settings},
        {"name": "gone", "topics": ["not-there"], "airflow": {"on_failure": told}},
        {
            "name": "back", "kind": "egress", "source": {"lake": "orders"}, "schedule": "lake",
            "target": {"topic": "orders-back", "partitions": 1},
        },
    ):  # fmt: skip
        whole = {"kind": "ingest", "lake": str(home / "lake"), **form}
        (home / f"pipelines/{form['name']}.yaml").write_text(json.dumps(whole))
    topic_records.create(broker.bootstrap, "orders-by-hour", partitions=1)
    database = postgres.start(home)
    env = airflow.environment(
        home, database=database, bootstrap=broker.bootstrap, port=port, lake=str(home / "lake"),
        dags=home / "dags",
    )  # fmt: skip
    pipelines = str(home / "pipelines")
    env |= {"TIDEGATE_PIPELINES": pipelines, "TIDEGATE_FAULT": "publish.committed:kill"}
    uv, packages = Path(sys.executable).with_name("uv"), str(home / "packages")
    options = ["--quiet", "--no-deps", "--python", sys.executable, "--target", packages]
    subprocess.run([uv, "pip", "install", *options, *OPENLINEAGE], check=True)
    transport = {"type": "file", "log_file_path": str(home / "lineage"), "append": True}
    env |= {
        "PYTHONPATH": packages,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    expected = ["tidegate__orders", "tidegate__back", "of_an_hour"]
    try:
        with running_airflow.running(home, database, env, port, expected) as api:
            yield World(home, api, broker, collector)
    finally:
        postgres.stop(home)
        collector.shutdown()


def until(found: Callable[[], Any], seconds: float = 200) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return result


def test_what_others_start_by(world: World) -> None:
    """Three hours that became complete are three partitions, and three runs of the DAG that waits
    for them: whatever dies, comes late, is replayed or is done again. The egress follows its lake.
    Who is to be told is told of a failure and of a missed deadline.
    """
    api, kafka = world.api, world.broker.bootstrap
    (asset,) = api._all("/api/v2/assets", "assets", name_pattern=HOURS)
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    event = {"asset_id": asset["id"], "extra": {"until": begin.isoformat()}}
    api._call("POST", "/api/v2/assets/events", json=event)
    api.unpause("of_an_hour")
    api.unpause("tidegate__back")

    def stamped(*hours: float) -> None:
        stamps = [int((begin + timedelta(hours=each)).timestamp() * 1000) for each in hours]
        topic_records.stamped(kafka, "orders-by-hour", 0, stamps)

    stamped(0.1, 1.5, 2.9)
    assert world.run("tidegate__orders", "first") == "success"
    tries = {t["task_id"]: t["try_number"] for t in api.tasks("tidegate__orders", "first")}
    assert (tries["publish"], tries["hours"]) == (2, 1)
    assert world.run("tidegate__orders", "nothing-new") == "success"
    stamped(0.2, 1.6)
    assert world.run("tidegate__orders", "late-records") == "success"
    replay = {"pipeline": "orders", "replay_id": "again", "start": "0"}
    assert world.run("tidegate_replay", "replay", **replay) == "success"
    path = "/api/v2/dags/tidegate__orders/clearTaskInstances"
    api._call("POST", path, json={"dry_run": False, "only_failed": False, "dag_run_id": "first"})
    assert api.wait("tidegate__orders", "first", timeout=300)["state"] == "success"
    through = max(
        datetime.fromisoformat(found)
        for run in ("first", "nothing-new", "late-records")
        if (found := api.xcom("tidegate__orders", run, "verdict", "complete_through"))
    )
    expected = [f"{each:%Y-%m-%dT%H:%M:%S}" for each in hours_between(begin, through)]
    assert len(expected) in (3, 4)  # an hour may end meanwhile
    keys = [each["partition_key"] for each in world.events() if each["partition_key"]]
    assert sorted(keys) == expected
    runs = until(lambda: over_of(api, "of_an_hour", len(expected)))
    assert sorted(run["partition_key"] for run in runs) == expected

    # One for each event, also that of the run that was cleared. Each row is sent once.
    sent = until(lambda: over_of(api, "tidegate__back", 3))
    assert {(run["run_type"], run["state"]) for run in sent} == {("asset_triggered", "success")}
    assert len(topic_reader.read(kafka, "orders-back")) == 5

    assert world.run("tidegate__gone", "fails") == "failed"
    until(lambda: ["tidegate__gone", "fails", False] in world.told())
    until(lambda: ["tidegate__orders", "first", True] in world.told())


def test_lineage(world: World) -> None:
    """As OpenLineage's file transport has it: of the ingest, the egress, and the failure."""
    lines = (world.home / "lineage").read_text().splitlines()
    events = [json.loads(line) for line in lines]

    def told(task: str) -> tuple[Any, Any]:
        found = [e for e in events if e["job"]["name"] == task and e["eventType"] == "RUNNING"]
        return found[0]["inputs"], found[0]["outputs"]

    kafka, data = f"kafka://{world.broker.bootstrap}", world.home / "lake/orders/data"
    ((read,), (written,)) = told("tidegate__orders.publish")
    assert (read["namespace"], read["name"]) == (kafka, "orders-by-hour")
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert read["facets"]["tidegate_offsets"]["ranges"] == {"0": [0, 3]}
    lake = (written["namespace"], written["name"])
    assert lake == ("file", f"{data}/topic=orders-by-hour")
    wrote = written["outputFacets"]["outputStatistics"]
    size = sum(file.stat().st_size for file in data.rglob("*.parquet"))
    assert (wrote["rowCount"], wrote["fileCount"]) == (3, 1)
    assert 0 < wrote["size"] <= size
    ((source,), (sent,)) = told("tidegate__back.publish")
    assert (source["namespace"], source["name"]) == lake
    assert (sent["namespace"], sent["name"]) == (kafka, "orders-back")
    assert sent["outputFacets"]["outputStatistics"]["rowCount"] == 3
    failed = [e["job"]["name"] for e in events if e["eventType"] == "FAIL"]
    assert "tidegate__gone.plan" in failed


def test_metrics(world: World) -> None:
    """As a collector of OpenTelemetry gets them by HTTP: the pipeline and the step are labels."""
    found = until(lambda: world.collector.points.get("airflow.tidegate.last_run_seconds"))
    labels = [dict(each) for each in found]
    assert {"pipeline": "orders", "step": "spark"} in labels
    failed = world.collector.points["airflow.tidegate.last_run_failed"]
    assert failed[(("pipeline", "gone"),)] == 1


def over_of(api: AirflowApi, dag: str, least: int) -> list[dict[str, Any]] | None:
    runs = api.runs(dag)
    return runs if len(runs) >= least and {run["state"] for run in runs} <= OVER else None
