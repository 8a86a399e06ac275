"""A schedule, a backfill over dates, one over offsets and a replay, on one real scheduler."""

import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support import oracle_client, topic_records
from support.cli_user import TIDEGATE
from tidegate_local import processes, stack
from tidegate_local.airflow_api import OVER, AirflowApi, AirflowRefused, AirflowUnreachable

DAG = "tidegate__ticks"
TOPIC = "ticks"
PARTITIONS = 2


def pipeline(home: Path) -> None:
    """Write the pipeline of the topic "ticks", with a run every minute."""
    form = {"name": "ticks", "kind": "ingest", "topics": [TOPIC], "start": "latest",
            "lake": "${TIDEGATE_LAKE}", "schedule": "* * * * *"}  # fmt: skip
    (home / "pipelines").mkdir(exist_ok=True)
    (home / "pipelines/ticks.yaml").write_text(json.dumps(form))


def environment(home: Path) -> dict[str, str]:
    """Return one that knows of no other stack, and of the home's own pipelines."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "TIDEGATE_"))}
    kept = {k: v for k, v in os.environ.items() if k == "TIDEGATE_CACHE"}
    pipelines = {"TIDEGATE_HOME": str(home), "TIDEGATE_PIPELINES": str(home / "pipelines")}
    return {**env, **kept, **pipelines}


def tidegate(home: Path, *args: str) -> str:
    done = subprocess.run(
        [str(TIDEGATE), *args],
        env=environment(home), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def up(home: Path) -> tuple[AirflowApi, str]:
    tidegate(home, "local", "up")
    known = stack.read(home)
    assert known is not None
    return known.api(home), known.kafka


def coverage(home: Path) -> dict[str, list[dict[str, Any]]]:
    found = json.loads(tidegate(home, "coverage", "ticks", "--json"))
    partitions = found["topics"][TOPIC]["partitions"]
    return {p: each["intervals"] for p, each in partitions.items()}


class Producer(threading.Thread):
    """Sends a few records a second, until it is told to stop."""

    def __init__(self, kafka: str) -> None:
        super().__init__(daemon=True)
        self.kafka, self.ended = kafka, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            now = int(time.time() * 1000)
            for p in range(PARTITIONS):
                topic_records.stamped(self.kafka, TOPIC, p, [now] * 20)

    def stop(self) -> None:
        self.ended.set()
        self.join(30)


def over(airflow: AirflowApi, dag_id: str) -> list[str]:
    """Return the ids of a DAG's runs that are not over; assert that none failed."""
    runs = airflow.runs(dag_id)
    failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
    assert not failed, (dag_id, failed)
    return [run["dag_run_id"] for run in runs if run["state"] not in OVER]


def all_at_once(home: Path, intervals: int, chunks: int) -> None:
    """Run all lanes of "ticks" on the stack of this home, the scheduler killed twice; then judge.

    Every offset is there once, the oracle agrees, and the cursor is what the schedule alone would
    have reached.
    """
    airflow, kafka = up(home)
    # An hour's old records by offsets, then some for each minute of the dates, in no order.
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=intervals + 5)
    old = int((first - timedelta(hours=1)).timestamp() * 1000)
    dated = int(first.timestamp() * 1000)
    by_offsets, by_dates = 250 * chunks, 100 * intervals
    topic_records.create(kafka, TOPIC, partitions=PARTITIONS)
    for p in range(PARTITIONS):
        topic_records.stamped(kafka, TOPIC, p, [old] * by_offsets)
        stamps = [dated + n * 7_919 % by_dates * 60_000 // 100 for n in range(by_dates)]
        topic_records.stamped(kafka, TOPIC, p, stamps)
    origin = by_offsets + by_dates
    airflow.trigger(DAG, "first")  # its plan records the origins: the end
    for dag_id in (DAG, "tidegate_backfill", "tidegate_replay"):
        airflow.unpause(dag_id)
    assert airflow.wait(DAG, "first", timeout=180)["state"] == "success"
    producer = Producer(kafka)
    producer.start()
    airflow.backfill(DAG, first, first + timedelta(minutes=intervals - 1), at_once=3)
    window = {"pipeline": "ticks", "start": "0", "end": str(by_offsets), "chunk_size": 500}
    airflow.trigger("tidegate_backfill", "old", conf=window)
    with pytest.raises(AirflowRefused, match="chunk_size"):
        airflow.trigger("tidegate_backfill", "bad", conf={**window, "chunk_size": 0})
    kill_scheduler(home)
    airflow, _ = up(home)
    again = replay_what_is_there(home, airflow)
    time.sleep(10)
    kill_scheduler(home)
    airflow, _ = up(home)
    deadline = time.monotonic() + 300 + 30 * intervals
    dags = (DAG, "tidegate_backfill", "tidegate_replay")
    while backfilled(airflow) < intervals or over(airflow, dags[1]) or over(airflow, dags[2]):
        assert time.monotonic() < deadline, {dag: over(airflow, dag) for dag in dags}
        over(airflow, DAG)
        time.sleep(2)
    producer.stop()
    airflow.trigger(DAG, "last")
    assert airflow.wait(DAG, "last", timeout=180)["state"] == "success"
    kafka_end = json.loads(tidegate(home, "status", "ticks", "--json"))["topics"][TOPIC]
    for p, stands in kafka_end["partitions"].items():
        assert stands["origin"] == origin
        assert (stands["lag"], stands["cursor"]) == (0, stands["end"])
        tiles = coverage(home)[p]
        assert {i["state"] for i in tiles} == {"covered"}
        assert (tiles[0]["start"], tiles[-1]["end"]) == (0, stands["end"])
        assert {"live", "backfill", "replay"} == {i["lane"] for i in tiles}
        replayed = [(i["start"], i["end"]) for i in tiles if i["lane"] == "replay"]
        assert replayed == [again[p]]
    oracle_client.agree(kafka, home / "lake", "ticks", [TOPIC])
    report = airflow.xcom("tidegate_backfill", "old", "publish", "report")
    assert (len(report["commits"]), report["rows"]) == (chunks, PARTITIONS * by_offsets)
    end = json.loads(airflow.variable("tidegate__ticks__ticks") or "")[TOPIC]
    assert end == {p: each["end"] for p, each in kafka_end["partitions"].items()}


def replay_what_is_there(home: Path, airflow: AirflowApi) -> dict[str, tuple[int, int]]:
    """Trigger a replay of the first live commit's files; return its range in each partition."""
    while True:
        live = [
            {str(p["partition"]): (p["first"], p["last"] + 1) for f in files for p in f["parts"]}
            for files in by_commit(home)
            if {f["lane"] for f in files} == {"live"}
            and sum(len(f["parts"]) for f in files) == PARTITIONS
        ]
        if live:
            break
        time.sleep(2)
    start, end = ({p: edges[i] for p, edges in live[0].items()} for i in (0, 1))
    conf = {"pipeline": "ticks", "start": json.dumps({TOPIC: start}), "replay_id": "again",
            "end": json.dumps({TOPIC: end})}  # fmt: skip
    airflow.trigger("tidegate_replay", "by-hand", conf=conf)
    return live[0]


def by_commit(home: Path) -> list[list[dict[str, Any]]]:
    """Return the lake's files by commit, oldest first, with the lane of each."""
    commits: dict[int, list[dict[str, Any]]] = {}
    for f in json.loads(tidegate(home, "files", "ticks", "--json")):
        entry = home / f"lake/ticks/_tidegate/log/{f['commit']:020d}.json"
        lane = json.loads(entry.read_text())["lane"]
        commits.setdefault(f["commit"], []).append({**f, "lane": lane})
    return [commits[n] for n in sorted(commits)]


def backfilled(airflow: AirflowApi) -> int:
    """Return how many intervals are done; a server that is busy is asked again."""
    try:
        runs = airflow.runs(DAG)
    except AirflowUnreachable:
        return 0
    return sum(run["run_type"] == "backfill" and run["state"] == "success" for run in runs)


def kill_scheduler(home: Path) -> None:
    scheduler = processes.find("scheduler", home=home)
    assert scheduler is not None
    processes.send(scheduler, signal.SIGKILL)
