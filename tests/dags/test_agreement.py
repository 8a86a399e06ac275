"""One state for each pipeline, whoever asks: commands, their exit codes, the page, and metrics."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models import DagModel, DagRun
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import delete, select

from support import in_process, topic_records
from support.status_page import TestClient
from tidegate.broker import bootstrap_servers
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import survey
from tidegate.core import canonical, layout
from tidegate.core.ended_run import EndedRun, RunError
from tidegate.core.entries import Account, Commit, Origin, Reference
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import open_store
from tidegate.runs.history import History
from tidegate.ui import app as ui_app
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

TOPIC, EXPIRED, RECORDS = "agreement", "agreement-expired", 40
NOW = datetime.now(UTC).replace(microsecond=0)
FAILED = RunError("StageFailed", "Spark ended with exit code 1", "terminal")


@dataclass
class World:
    """Pipelines in a lake, of two topics of a real broker, and their DAGs in Airflow's database."""

    pipelines: Path
    lake: str
    broker: Broker

    def pipeline(self, name: str, **more: Any) -> None:
        form = {"name": name, "kind": "ingest", "topics": [TOPIC], "lake": self.lake, **more}
        (self.pipelines / f"{name}.yaml").write_text(json.dumps(form))
        with create_session() as session:
            session.merge(
                DagModel(dag_id=f"tidegate__{name}", bundle_name="agreement", fileloc="f",
                         is_paused=False)
            )  # fmt: skip

    def committed(
        self, name: str, end: int, topic: str = TOPIC, cluster: str | None = None
    ) -> None:
        """Commit the offsets of the topic's one partition up to `end`."""
        seen = survey(
            KafkaSettings("kafka", {"bootstrap.servers": self.broker.bootstrap}),
            [topic],
            "read_committed",
        )
        ledger, topic_id = Ledger(open_store(self.lake, name), name), seen.topic_ids[topic]
        commit = Commit(
            lane="live", plan_id="0" * 16, plan_sha256="0" * 64, chunk=0, attempt="a",
            cluster_id=cluster or seen.cluster_id, topic_ids={topic: topic_id},
            accounts={topic: {0: Account(0, end, end, 0)}}, manifest=Reference("m", "0" * 64),
        )  # fmt: skip
        for entry in (Origin(topic, topic_id, {0: 0}), commit):
            assert isinstance(ledger.append(entry, run="r"), Appended)

    def ended(self, name: str, *, error: RunError | None = None, **more: Any) -> None:
        """Write the history of one run."""
        values = {"began": NOW.isoformat(), "ended": NOW.isoformat(), **more}
        run = EndedRun(run="last", dag=f"tidegate__{name}", error=error, lane="live", **values)
        document = canonical.encode(History(name, (run,)).to_json())
        assert open_store(self.lake, name).create(layout.history(1), document)

    def in_airflow(self, name: str, state: str) -> None:
        with create_session() as session:
            run = DagRun(
                dag_id=f"tidegate__{name}", run_id="red", state=state, start_date=NOW,
                run_type=DagRunType.MANUAL, triggered_by=DagRunTriggeredByType.TEST,
                run_after=NOW, logical_date=NOW,
            )  # fmt: skip
            run.end_date = NOW if state == "failed" else None
            session.add(run)

    def pause(self, name: str) -> None:
        with create_session() as session:
            session.get_one(DagModel, f"tidegate__{name}").is_paused = True


@pytest.fixture
def world(
    airflow_database: None,
    pipelines: Path,
    tmp_path: Path,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    for topic in (TOPIC, EXPIRED):
        topic_records.create(broker.bootstrap, topic, partitions=1)
        topic_records.numbers(broker.bootstrap, topic, RECORDS, partitions=1)
    topic_records.delete_records(broker.bootstrap, EXPIRED, {0: 30})
    monkeypatch.setattr(bootstrap_servers, "TIMEOUT_MS", 1000)  # for the broker that is away
    for name, address in (("DEFAULT", broker.bootstrap), ("AWAY", f"127.0.0.1:{free_port()}")):
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": address}}
        monkeypatch.setenv(f"AIRFLOW_CONN_KAFKA_{name}", json.dumps(connection))
    with create_session() as session:
        session.merge(DagBundleModel(name="agreement"))
    yield World(pipelines, str(tmp_path / "lake"), broker)
    with create_session() as session:
        ours = DagModel.bundle_name == "agreement"
        session.execute(
            delete(DagRun).where(DagRun.dag_id.in_(select(DagModel.dag_id).where(ours)))
        )
        session.execute(delete(DagModel).where(ours))


def idle(world: World, name: str) -> None:
    world.pipeline(name)
    world.committed(name, RECORDS)


def ok(world: World, name: str) -> None:
    world.pipeline(name)
    world.committed(name, 10)


def red(world: World, name: str) -> None:
    ok(world, name)
    world.ended(name, error=FAILED)


def red_in_airflow(world: World, name: str) -> None:
    ok(world, name)
    world.in_airflow(name, "failed")


def expired(world: World, name: str) -> None:
    world.pipeline(name, topics=[EXPIRED])
    world.committed(name, 10, EXPIRED)


def expiring(world: World, name: str) -> None:
    world.pipeline(name, schedule="@yearly")
    world.committed(name, 10)
    soon = (NOW + timedelta(hours=1)).isoformat()
    world.ended(name, lag=30, expires_at=soon)


def wrong_file(world: World, name: str) -> None:
    world.pipeline(name, max_recods=5)


def other_cluster(world: World, name: str) -> None:
    world.pipeline(name)
    world.committed(name, 10, cluster="another")


def away(world: World, name: str) -> None:
    world.pipeline(name, kafka="kafka_away")
    world.committed(name, 10)


def late(world: World, name: str) -> None:
    world.pipeline(name, schedule="@daily")
    world.committed(name, 10)
    old = (NOW - timedelta(days=9)).isoformat()
    world.ended(name, began=old, ended=old)


def paused(world: World, name: str) -> None:
    ok(world, name)
    world.pause(name)


def running(world: World, name: str) -> None:
    ok(world, name)
    world.in_airflow(name, "running")


def egress(world: World, name: str) -> None:
    source = Path(world.lake).parent / "in"
    source.mkdir()
    (source / "a.json").write_text("{}")
    os.utime(source / "a.json", (0, 0))
    where = {"path": str(source), "format": "json"}
    more = {"kind": "egress", "source": where, "target": {"topic": "t"}}
    form = {"name": name, "lake": world.lake, **more}
    world.pipeline(name)
    (world.pipelines / f"{name}.yaml").write_text(json.dumps(form))


SITUATIONS: dict[Callable[[World, str], None], tuple[str, int]] = {
    red: ("failing", 3),
    red_in_airflow: ("failing", 3),
    expired: ("losing", 3),
    expiring: ("losing", 3),
    wrong_file: ("blocked", 3),
    other_cluster: ("blocked", 3),
    away: ("unknown", 4),
    late: ("late", 3),
    paused: ("paused", 0),
    running: ("running", 0),
    ok: ("ok", 0),
    egress: ("ok", 0),
    idle: ("idle", 0),
}
"""Each with its state, and the exit code of `tidegate status`."""


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return in_process.run(args, dict(os.environ))


def test_they_agree(world: World, ann: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """In thirteen situations: the same state from all, the same reason where one is told."""
    names = {f"a-{make.__name__.replace('_', '-')}": make for make in SITUATIONS}
    for name, make in names.items():
        make(world, name)
    expected = {name: SITUATIONS[make][0] for name, make in names.items()}
    codes = {name: SITUATIONS[make][1] for name, make in names.items()}

    one = {name: command("status", name, "--json") for name in names}
    by_status = {
        name: json.loads(done.stdout)[0]
        for name, done in one.items()
        if done.stdout.startswith("[")
    }
    assert {name: done.returncode for name, done in one.items()} == codes | {"a-wrong-file": 2}
    told = {name: each["state"] for name, each in by_status.items()}
    assert told == {name: state for name, state in expected.items() if name in told}

    listed = json.loads(command("list", "--json").stdout)["pipelines"]
    assert {each["pipeline"]: each["state"] for each in listed} == expected
    reasons = {each["pipeline"]: each["reason"] for each in listed}
    assert {name: each["reason"] for name, each in by_status.items()}.items() <= reasons.items()
    assert command("list").returncode == 3

    watch = ui_app.PipelineWatch()
    monkeypatch.setattr(ui_app, "watch", watch)
    try:
        until = time.monotonic() + 60
        while True:
            html = ann.get("/tidegate/").text
            rows = re.findall(
                r'<tr data-name="([^"]+)"[^>]*>\s*<td><span class="state (\w+)"', html
            )
            if dict(rows) == expected:
                break
            assert time.monotonic() < until, dict(rows)
            time.sleep(0.5)
        metrics = ann.get("/tidegate/metrics").text
    finally:
        watch.stop()
    for text in (metrics, command("metrics").stdout):
        states = re.findall(r'tidegate_state\{pipeline="([^"]+)",state="(\w+)"\} 1.0', text)
        assert dict(states) == expected
