"""Whole runs by `tidegate run`, with a real broker and real Spark, checked by the oracle."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import oracle_client, publisher_race, topic_reader, topic_records
from support.cli_user import Terminal
from support.process_list import command_line, descendants, is_job, is_running, spark_jvm
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


def staged_rows(lake: Path) -> int:
    """Return the number of rows in complete Parquet files of all staging directories."""
    import pyarrow.parquet as pq

    rows = 0
    for path in lake.rglob("_tidegate/staging/**/*.parquet"):
        try:
            rows += pq.read_metadata(path).num_rows
        except (OSError, ValueError):
            continue
    return rows


@pytest.mark.blackbox
def test_everything_a_topic_can_hold(terminal: Terminal, broker: Broker, tmp_path: Path) -> None:
    """Nulls, tombstones, headers, 1 MB values, transactions of all fates, an empty and a skewed
    partition: the lake equals what an independent consumer reads, by glob and by the ledger, and
    what an open transaction hides comes with a later run.
    """
    terminal.processes = True
    with topic_records.fill(broker.bootstrap, "everything", records=8_000) as filled:
        terminal.pipeline("everything", ["everything"], max_records=4_000)
        report = terminal.json("run", "everything", "--run-id", "first")
        assert report["rows"] == filled.visible.total()
        hidden = filled.hidden.total()
        assert hidden > 0
        assert len(report["commits"]) > 1
        for commit in report["commits"]:
            for account in commit["topics"]["everything"].values():
                assert account["end"] - account["start"] == account["rows"] + account["invisible"]
        oracle_client.agree(broker.bootstrap, terminal.lake, "everything", ["everything"])
    terminal.processes = False
    report = terminal.json("run", "everything", "--run-id", "second")
    assert report["rows"] == hidden
    listed = tmp_path / "files.json"
    listed.write_text(json.dumps(terminal.json("files", "everything")))
    oracle_client.agree(broker.bootstrap, terminal.lake, "everything", ["everything"])
    oracle_client.agree(broker.bootstrap, terminal.lake, "everything", ["everything"], files=listed)
    found = terminal.json("verify", "everything", "--against-kafka")
    assert found["differences"] == 0
    assert found["against_kafka"]["rows"] == filled.visible.total()
    status = terminal.json("status", "everything")["topics"]["everything"]["partitions"]
    assert all(p["lag"] == 0 for p in status.values())


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_compacted_log(terminal: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """Offsets whose records the broker has compacted away have no row, and are proven to have no
    record: the chunk is sealed, and the lake equals what an independent consumer reads.
    """
    config = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.001"}
    name = topic(partitions=1, config=config)
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def send(count: int) -> None:
        for n in range(count):
            producer.produce(name, b"v%d" % n, key=b"%d" % (n % 7))
        producer.flush(30)

    send(300)
    until = time.monotonic() + 60
    while len(topic_reader.read(broker.bootstrap, name)) >= 300:
        assert time.monotonic() < until
        time.sleep(0.2)
        send(1)  # a new segment: the one before it is compacted
    topic_records.configure(broker.bootstrap, name, cleanup_policy="delete", retention_ms="-1")
    time.sleep(1)  # a compaction that is in progress ends
    left = len(topic_reader.read(broker.bootstrap, name))
    end = topic_reader.ends(broker.bootstrap, name)[0]
    assert left < end
    terminal.pipeline("compacted", [name])
    (commit,) = terminal.json("run", "compacted")["commits"]
    account = {"start": 0, "end": end, "rows": left, "invisible": end - left}
    assert commit["topics"] == {name: {"0": account}}
    oracle_client.agree(broker.bootstrap, terminal.lake, "compacted", [name])


@pytest.mark.blackbox
def test_nothing_new_starts_no_spark(terminal: Terminal, broker: Broker) -> None:
    """The empty plan is frozen, no JVM is started, and the lake does not change."""
    topic_records.create(broker.bootstrap, "quiet", partitions=2)
    terminal.pipeline("quiet", ["quiet"], start="latest")
    first = terminal.json("run", "quiet", "--run-id", "a", JAVA_HOME="/nowhere")
    assert (first["rows"], first["commits"]) == (0, [])
    assert terminal.json("run", "quiet", "--run-id", "a")["plan_id"] == first["plan_id"]
    assert not list(terminal.lake.rglob("*.parquet"))
    # `latest` was resolved when the topic was discovered: later records are read.
    topic_records.numbers(broker.bootstrap, "quiet", 100)
    refused = terminal.run("run", "quiet", "--run-id", "b", code=2, JAVA_HOME="/nowhere")
    assert "JavaMissing: no java" in refused.stderr
    assert "no plan was frozen" in refused.stderr
    assert terminal.json("run", "quiet", "--run-id", "b")["rows"] == 100
    oracle_client.agree(broker.bootstrap, terminal.lake, "quiet", ["quiet"])


@pytest.mark.blackbox
def test_the_same_run_again_changes_nothing(terminal: Terminal, broker: Broker) -> None:
    """A finished run that is cleared and repeated does nothing."""
    topic_records.numbers(broker.bootstrap, "again", 1_000)
    terminal.pipeline("again", ["again"])
    first = terminal.json("run", "again", "--run-id", "one")
    before = terminal.tree()
    topic_records.numbers(broker.bootstrap, "again", 1_000, first=1_000)
    assert terminal.json("run", "again", "--run-id", "one") == first
    assert terminal.tree() == before


@pytest.mark.blackbox
@pytest.mark.slow
def test_killed_after_the_third_manifest(terminal: Terminal, broker: Broker) -> None:
    """Of a plan of 6 chunks, killed after the third manifest, the retry stages the other three."""
    topic_records.numbers(broker.bootstrap, "six", 6_000)
    terminal.pipeline("six", ["six"], max_records=1_000)
    terminal.run("run", "six", "--run-id", "r", code=86, TIDEGATE_FAULT="seal.written@3:exit")
    manifests = {path: path.read_bytes() for path in terminal.lake.rglob("manifests/*.json")}
    plan = {json.loads(each)["plan_id"] for each in manifests.values()}
    assert len(manifests) == 3
    assert not (terminal.lake / "six/data").exists()
    report = terminal.json("run", "six", "--run-id", "r")
    assert {report["plan_id"]} == plan
    after = {path: path.read_bytes() for path in terminal.lake.rglob("manifests/*.json")}
    assert len(after) == 6
    assert manifests.items() <= after.items()
    assert report["rows"] == 6_000
    oracle_client.agree(broker.bootstrap, terminal.lake, "six", ["six"])


@pytest.mark.blackbox
@pytest.mark.parametrize("victim", [pytest.param("jvm", marks=pytest.mark.faults), "tidegate"])
def test_killed_half_way(terminal: Terminal, broker: Broker, victim: str) -> None:
    """kill -9 of the JVM or its parent with a part of the rows staged: driver and JVM end within 5
    s, nothing is visible, and the retry has the same plan.
    """
    topic = f"killed-{victim}"
    topic_records.numbers(broker.bootstrap, topic, 60_000)
    terminal.pipeline(topic, [topic], max_records=2_000)
    process = terminal.start("run", topic, "--run-id", "r")
    while not 0 < staged_rows(terminal.lake) < 60_000:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    jvm, below = spark_jvm(process.pid), descendants(process.pid)
    drivers = [p for p in below if is_job(command_line(p), "ingest") and p != jvm]
    assert drivers
    os.kill(jvm if victim == "jvm" else process.pid, signal.SIGKILL)
    killed = time.monotonic()
    while any(is_running(pid) for pid in [jvm, *drivers]):
        assert time.monotonic() - killed < 5, [command_line(pid) for pid in [jvm, *drivers]]
        time.sleep(0.02)
    process.communicate(timeout=60)
    assert process.returncode == (4 if victim == "jvm" else -signal.SIGKILL)
    assert (
        0 < staged_rows(terminal.lake) < 60_000 or victim == "jvm"
    )  # the parent deletes its attempt
    assert not (terminal.lake / topic / "data").exists()
    (frozen,) = (terminal.lake / topic / "_tidegate/runs").rglob("1.json")
    report = terminal.json("run", topic, "--run-id", "r")
    assert report["plan_id"] == json.loads(frozen.read_text())["plan_id"]
    assert report["rows"] == 60_000
    oracle_client.agree(broker.bootstrap, terminal.lake, topic, [topic])


@pytest.mark.blackbox
@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, 20])
def test_publishers_race(terminal: Terminal, broker: Broker, tmp_path: Path, rounds: int) -> None:
    """With concurrent publishers, each chunk has one commit, and no entry is overwritten."""
    topic, rows = f"race-{rounds}", rounds * 1_000
    topic_records.numbers(broker.bootstrap, topic, rows)
    terminal.pipeline("race", [topic], max_records=1_000)
    terminal.end_at("publish.before", "run", "race", "--run-id", "r")
    assert len(list(terminal.lake.rglob("manifests/*.json"))) == rounds
    log = terminal.lake / "race/_tidegate/log"
    publisher_race.of_publishers(
        terminal, tmp_path, lambda: {e.name: e.read_bytes() for e in log.glob("*.json")},
        rounds=rounds,
    )  # fmt: skip
    assert terminal.json("run", "race", "--run-id", "r")["rows"] == rows
    oracle_client.agree(broker.bootstrap, terminal.lake, "race", [topic])


@pytest.mark.blackbox
def test_a_commit_that_crashed_is_placed_by_the_next_plan(
    terminal: Terminal, broker: Broker
) -> None:
    """Killed between commit and placing: queries by the ledger see the rows at once, and a later
    run without new records places the files.
    """
    topic_records.numbers(broker.bootstrap, "crashed", 1_000)
    terminal.pipeline("crashed", ["crashed"])
    terminal.end_at("publish.committed", "run", "crashed", "--run-id", "r")
    listed = terminal.home / "files.json"
    listed.write_text(json.dumps(terminal.json("files", "crashed")))
    assert not list((terminal.lake / "crashed/data").rglob("*.parquet"))
    oracle_client.agree(broker.bootstrap, terminal.lake, "crashed", ["crashed"], files=listed)
    assert terminal.json("run", "crashed", "--run-id", "next")["commits"] == []
    oracle_client.agree(broker.bootstrap, terminal.lake, "crashed", ["crashed"])


@pytest.mark.blackbox
@pytest.mark.slow
def test_two_pipelines_of_one_topic_are_apart(terminal: Terminal, broker: Broker) -> None:
    """Each pipeline has its own ledger, and ingests the topic once."""
    topic_records.numbers(broker.bootstrap, "shared", 500)
    terminal.pipeline("left", ["shared"])
    terminal.pipeline("right", ["shared"])
    for name in ("left", "right"):
        assert terminal.json("run", name)["rows"] == 500
        oracle_client.agree(broker.bootstrap, terminal.lake, name, ["shared"])
