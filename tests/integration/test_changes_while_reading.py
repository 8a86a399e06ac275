"""What happens to a topic while a Spark application reads it, between two of its chunks."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from support import oracle_client, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

pytestmark = pytest.mark.faults


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


@contextmanager
def half_way(terminal: Terminal, name: str, gate: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the run `r`; yield when its first chunk is staged, and let it go on at the end."""
    args = ("run", name, "--run-id", "r")
    with terminal.start(*args, TIDEGATE_FAULT=f"stage.half@1:wait={gate}") as process:
        until = time.monotonic() + 120
        while not list(gate.parent.glob(f"{gate.name}.reached.*")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield process
        gate.touch()
        out, err = process.communicate(timeout=180)
        print(out, err)


@pytest.mark.blackbox
def test_records_that_are_deleted(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """What was staged is committed; the rest fails by name with the exact lost range, and is
    skipped, as a gap, only if the pipeline says so.
    """
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 1_500, partitions=1)
    terminal.pipeline("cut", [name], max_records=500)
    with half_way(terminal, "cut", tmp_path / "gate") as process:
        topic_records.delete_records(broker.bootstrap, name, {0: 700})
    assert process.returncode in (3, 4)
    error = terminal.json("run", "cut", "--run-id", "r", code=3)["error"]
    assert error["numbers"]["left_out"] == [
        {"topic": name, "partition": 0, "reason": "expired", "start": 500, "end": 700,
         "offsets": 200}
    ]  # fmt: skip
    assert sum(f["rows"] for f in terminal.json("files", "cut")) == 500
    terminal.pipeline("cut", [name], max_records=500, on_expired="skip")
    assert terminal.json("run", "cut", "--run-id", "s")["rows"] == 800
    (gap,) = terminal.json("status", "cut")["gaps"]
    assert (gap["start"], gap["end"], gap["reason"]) == (500, 700, "expired")
    oracle_client.agree(broker.bootstrap, terminal.lake, "cut", [name])


@pytest.mark.blackbox
def test_a_partition_that_is_added(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The run ends as it was planned; the next one reads the partition from its first record."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 1_000, partitions=1)
    terminal.pipeline("grown", [name], max_records=500)
    with half_way(terminal, "grown", tmp_path / "gate") as process:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
        while len(admin.list_topics(name, timeout=10).topics[name].partitions) < 2:
            time.sleep(0.05)
        topic_records.numbers(broker.bootstrap, name, 50)
    assert process.returncode == 0
    assert sum(f["rows"] for f in terminal.json("files", "grown")) == 1_000
    assert terminal.json("run", "grown", "--run-id", "s")["rows"] == 50
    partitions = terminal.json("status", "grown")["topics"][name]["partitions"]
    assert [(p["origin"], p["lag"]) for p in partitions.values()] == [(0, 0), (0, 0)]
    oracle_client.agree(broker.bootstrap, terminal.lake, "grown", [name])
