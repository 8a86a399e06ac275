"""Leaders that fail, return, change and lose records, in a real cluster of three brokers."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support import kafka_cluster, staged_attempts, topic_reader
from support.cli_user import Terminal
from support.handed_in import HERE
from support.ingest_steps import ingest, plan
from support.kafka_cluster import Brokers
from tidegate.broker.cluster import survey
from tidegate.broker.consumer import open_reader
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.requests import Replay
from tidegate.errors import PartitionsLeftOut, Transient
from tidegate.ingest.publish import Published
from tidegate.lake import plans
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run
from tidegate.spark.ingest_job import IngestJob

pytestmark = pytest.mark.slow
_runs = itertools.count(1)
SENT = 60_000  # rows


class Cluster:
    """Brokers that can be stopped and restarted; 1 is the controller and keeps running."""

    def __init__(self, running: Brokers, home: Path) -> None:
        self.bootstrap, self._running, self._home = running.bootstrap, running, home

    def create(self, topic: str, replicas: list[list[int]], **config: str) -> None:
        new = NewTopic(
            topic,
            len(replicas),
            replica_assignment=replicas,
            config={name.replace("_", "."): value for name, value in config.items()},
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([new])[topic].result(30)
        self.wait(topic, dict.fromkeys(range(len(replicas)), None))
        self.wait_in_sync(topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic on live brokers are in sync."""
        deadline = time.monotonic() + 60
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        alive = {n for n, each in self._running.processes.items() if each.poll() is None}
        while True:
            found = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
            if all(set(each.isrs) >= set(each.replicas) & alive for each in found):
                return
            assert time.monotonic() < deadline, [each.isrs for each in found]
            time.sleep(0.2)

    def stop(self, number: int, *, how: int = signal.SIGKILL) -> None:
        process = self._running.processes[number]
        os.killpg(process.pid, how)
        process.wait(60)

    def start(self, number: int) -> None:
        process = self._running.processes[number]
        with (self._home / str(number) / "log").open("ab") as log:
            again = subprocess.Popen(
                process.args, cwd=self._home / str(number), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self._running.processes[number] = again  # type: ignore[index]

    def wait(self, topic: str, leaders: dict[int, int | None]) -> None:
        """Wait until each partition has its leader: a broker id, None for any, -1 for no leader."""
        deadline = time.monotonic() + 60
        while True:
            now = self._running.leaders(topic)
            if now.keys() == leaders.keys() and all(
                now[p] >= 0 if leader is None else now[p] == leader for p, leader in leaders.items()
            ):
                return
            assert time.monotonic() < deadline, now
            time.sleep(0.2)

    def send(self, topic: str, partition: int, values: range, mark: str = "") -> None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "message.timeout.ms": 30_000}
        )
        for value in values:
            producer.produce(topic, f"{mark}{value}".encode(), partition=partition)
        assert producer.flush(40) == 0

    def run(self, root: Path, topics: list[str], **settings: Any) -> Run:
        form = {"name": "p", "kind": "ingest", "topics": topics, "lake": str(root)}
        kafka = KafkaCluster("kafka_default", {"bootstrap.servers": self.bootstrap})
        asked = {"asked": settings.pop("asked")} if "asked" in settings else {}
        spec = parse_spec(form | settings)
        return Run(
            spec,
            kafka,
            "dag",
            f"run-{next(_runs)}",
            date(2024, 5, 1),
            **HERE,
            **asked,
        )

    def submit(self, job: IngestJob, _: Path) -> None:
        """Stage the records that a consumer reads, in place of Spark."""
        kafka = KafkaCluster("kafka_default", {"bootstrap.servers": self.bootstrap})
        for chunk in job.chunks:
            store, plan_id, number, name = _place(chunk.directory)
            with open_reader(kafka) as read:
                files = {
                    (r.topic, r.partition): [[each.offset for each in read(r, "read_committed")]]
                    for r in chunk.window
                }
            planned = plans.load_plan(store, plan_id)
            assert planned.id == job.plan_id
            staged_attempts.stage(store, planned, name, chunk=number, files=files)


def _place(directory: str) -> tuple[Any, str, int, str]:
    from tidegate.lake.store import LocalStore

    root, _, rest = directory.partition("/_tidegate/staging/")
    plan_id, number, name = rest.strip("/").split("/")
    return LocalStore(Path(root)), plan_id, int(number), name


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("brokers")
    with kafka_cluster.running(home) as running:
        yield Cluster(running, home)


def carry_out(cluster: Cluster, run: Run) -> Published:
    """Run all steps, with retries for transient errors, as in Airflow."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ingest(run, cluster.submit)
        except Transient:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def cursors(run: Run) -> dict[str, dict[int, int]]:
    fold = run.ledger(run.store()).fold
    return {topic: fold.cursors(topic) for topic in sorted(fold.topic_ids)}


def test_a_partition_without_a_leader_stops_no_other(cluster: Cluster, tmp_path: Path) -> None:
    """Its only replica is down: it is excluded by name, other partitions and topics are published,
    and it continues from its cursor once it has a leader.
    """
    cluster.create("alone", [[2], [3]])
    cluster.create("other", [[2]])
    for topic, p in (("alone", 0), ("alone", 1), ("other", 0)):
        cluster.send(topic, p, range(10))
    topics = ["alone", "other"]
    carry_out(cluster, cluster.run(tmp_path, topics))
    for topic, p in (("alone", 0), ("alone", 1), ("other", 0)):
        cluster.send(topic, p, range(10, 20))
    planned = cluster.run(tmp_path, topics)
    plan(planned)  # all three; then its leader goes
    cluster.create("young", [[3], [2]])
    cluster.stop(3)
    cluster.wait("alone", {0: 2, 1: -1})
    try:
        for run in (planned, cluster.run(tmp_path, [*topics, "young"])):
            with pytest.raises(PartitionsLeftOut, match="alone-1: no leader") as failed:
                carry_out(cluster, run)
            assert cursors(run) == {"alone": {0: 20, 1: 10}, "other": {0: 20}}
        assert failed.value.numbers["left_out"] == [
            {"topic": "alone", "partition": 1, "reason": "no leader"},
            {"topic": "young", "partition": None, "reason": "no leader", "partitions": [0]},
        ]
    finally:
        cluster.start(3)
    cluster.wait("alone", {0: 2, 1: 3})
    cluster.wait("young", {0: 3, 1: 2})
    done = carry_out(cluster, cluster.run(tmp_path, [*topics, "young"]))
    assert done.report.rows == 10
    assert cursors(cluster.run(tmp_path, topics))["alone"] == {0: 20, 1: 20}


def test_a_leader_fails_during_a_send(cluster: Cluster, tmp_path: Path) -> None:
    """By Spark: the replicas that follow take over, the run ends well, and each row is there."""
    cluster.create("sent", [[2, 3, 1], [3, 1, 2], [2, 1, 3]], min_insync_replicas="2")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("".join(f"{n}\n" for n in range(SENT)))
    terminal = Terminal(tmp_path, cluster.bootstrap)
    slow = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}
    terminal.egress(
        "out", source={"path": str(tmp_path / "in"), "format": "text"},
        target={"topic": "sent", "producer": slow},
    )  # fmt: skip
    process = terminal.start("run", "out", "--run-id", "r")
    while sum(topic_reader.ends(cluster.bootstrap, "sent").values()) < SENT // 20:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    cluster.stop(2)
    try:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, out + err
        records = topic_reader.read(cluster.bootstrap, "sent")
        assert {int(each.value or b"-1") for each in records} == set(range(SENT))
        report = terminal.json("run", "out", "--run-id", "r")
        assert (report["rows"], report["duplicates"]) == (SENT, len(records) - SENT)
    finally:
        cluster.start(2)
    cluster.wait("sent", {0: None, 1: None, 2: None})
    cluster.wait_in_sync("sent")


def test_a_log_that_was_truncated_and_written_again(cluster: Cluster, tmp_path: Path) -> None:
    """A replica without the last records wins an unclean election, and its log grows above the
    cursor: the partition is excluded with the offset of the truncation, until a replay of the
    changed offsets.
    """
    unclean = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}
    cluster.create("torn", [[2, 3]], **unclean)
    cluster.send("torn", 0, range(100))
    topics = ["torn"]
    carry_out(cluster, cluster.run(tmp_path, topics))
    cluster.stop(3)
    cluster.wait("torn", {0: 2})
    cluster.send("torn", 0, range(100, 150), "lost ")
    carry_out(cluster, cluster.run(tmp_path, topics))
    cluster.stop(2)
    cluster.start(3)
    try:
        cluster.wait("torn", {0: 3})
        cluster.send("torn", 0, range(100, 300), "new ")
        run = cluster.run(tmp_path, topics)
        with pytest.raises(PartitionsLeftOut, match="truncated") as failed:
            carry_out(cluster, run)
        assert failed.value.numbers["left_out"] == [
            {"topic": "torn", "partition": 0, "reason": "truncated", "cursor": 150, "end": 300,
             "cut": 100}
        ]  # fmt: skip
        assert cursors(run) == {"torn": {0: 150}}
        asked = Replay(topic="torn", id="again", start="100", end="150")
        replayed = carry_out(cluster, cluster.run(tmp_path, topics, asked=asked))
        assert replayed.report.rows == 50
        done = carry_out(cluster, cluster.run(tmp_path, topics))
        assert done.report.rows == 150
        assert cursors(run) == {"torn": {0: 300}}
    finally:
        cluster.start(2)
    cluster.wait("torn", {0: None})


def test_a_log_that_is_truncated_after_it_was_planned(cluster: Cluster, tmp_path: Path) -> None:
    """Truncated between plan and stage: the current records are read, and later runs go on."""
    unclean = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}
    cluster.create("late", [[2, 3]], **unclean)
    cluster.send("late", 0, range(100))
    topics = ["late"]
    cluster.stop(3)
    cluster.wait("late", {0: 2})
    cluster.send("late", 0, range(100, 150), "lost ")
    run = cluster.run(tmp_path, topics)
    first = plan(run).plan
    assert first.records == 150
    cluster.stop(2)
    cluster.start(3)
    try:
        cluster.wait("late", {0: 3})
        cluster.send("late", 0, range(100, 300), "new ")
        done = carry_out(cluster, run)
        assert (done.report.generation, done.report.rows) == (1, 150)
        cluster.send("late", 0, range(300, 310))
        assert carry_out(cluster, cluster.run(tmp_path, topics)).report.rows == 160
    finally:
        cluster.start(2)
    cluster.wait("late", {0: None})


def test_a_rolling_restart_fails_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Each restart is a new leader epoch without truncation: all runs succeed, also with a plan
    from before the restart.
    """
    cluster.create("rolled", [[2, 3], [3, 2]], min_insync_replicas="1")
    topics = ["rolled"]
    epochs = set()
    for n, number in enumerate((2, 3, 2, 3)):
        for p in (0, 1):
            cluster.send("rolled", p, range(n * 10, n * 10 + 10))
        run = cluster.run(tmp_path, topics)
        planned = plan(run).plan
        cluster.stop(number, how=signal.SIGTERM)
        cluster.wait("rolled", dict.fromkeys((0, 1), 5 - number))
        done = carry_out(cluster, run)
        assert (done.plan.id, done.report.rows) == (planned.id, 20)
        seen = survey(run.kafka, topics, "read_committed")
        epochs.add(seen.identities["rolled"].epochs[0])
        cluster.start(number)
        cluster.wait_in_sync("rolled")
    assert len(epochs) == 4
    assert cursors(run) == {"rolled": {0: 40, 1: 40}}
