"""A real broker goes away while Spark reads or sends: the run ends by name, and its retry is whole.

A broker that comes back in time is none of a run's concern.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import oracle_client, topic_reader, topic_records
from support.cli_user import Terminal
from support.process_list import command_line, descendants, is_job, is_running
from tidegate_local import kafka
from tidegate_local.kafka import Broker

pytestmark = pytest.mark.faults
ROWS = 60_000
# Small requests, one at a time, so that a send can be caught half-way.
SLOW = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}
LINES = 40  # of a terminal


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Broker]:
    """Yield a broker that the test may kill, pause and restart at the same address."""
    home = tmp_path / "mortal"
    try:
        yield kafka.start(home)
    finally:
        with contextlib.suppress(ProcessLookupError):
            kafka.resume(home)
        kafka.stop(home)


def until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> list[int]:
    """Wait until the condition holds; return the processes of the run's Spark."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    spark = [p for p in descendants(process.pid) if is_job(command_line(p))]
    assert len(spark) == 2, "the JVM and its driver"
    return spark


def ends_by_name(process: subprocess.Popen[str], spark: list[int], since: float) -> None:
    """Assert that a run ends for the outage, in time, says so, and leaves no process."""
    out, err = process.communicate(timeout=120)
    seconds = time.monotonic() - since
    print(f"{seconds:.1f} s, {len(err.splitlines())} lines\n{out}{err}")
    assert process.returncode == 4
    # A chunk that was being sealed waits for the broker once more, 8 s.
    assert 20 <= seconds < 45
    lines = err.splitlines()
    (error,) = [line for line in lines if line.startswith("BrokerUnreachable: ")]
    assert "no broker has answered for 20 s, and Spark was stopped" in error
    assert "tidegate run" in lines[-1], "the command that continues"
    assert len([line for line in lines if not line.startswith("waiting for Kafka")]) < LINES
    assert not any(is_running(pid) for pid in spark)
    (file,) = re.findall(r"Spark's output: (\S+)", err)
    assert "NativeCodeLoader" in Path(file).read_text()
    assert "NativeCodeLoader" not in err


@pytest.mark.blackbox
@pytest.mark.parametrize("gone", [kafka.kill, kafka.pause], ids=["killed", "paused"])
def test_an_ingest_without_a_broker(
    tmp_path: Path, mortal: Broker, gone: Callable[[Path], None]
) -> None:
    """What is finished is kept, what is not is deleted, and the retry has the same plan."""
    terminal = Terminal(tmp_path, mortal.bootstrap)
    topic_records.numbers(mortal.bootstrap, "gone", ROWS)
    terminal.pipeline("gone", ["gone"], max_records=2_000)
    process = terminal.start("run", "gone", "--run-id", "r")
    staging = terminal.lake / "gone/_tidegate/staging"
    spark = until(process, lambda: len(list(staging.glob("*/*/*/_done.json"))) > 2)
    gone(mortal.home)
    ends_by_name(process, spark, time.monotonic())
    for attempt in staging.glob("*/*/*"):
        assert (attempt / "_done.json").exists() or not list(attempt.rglob("*.parquet"))
    kafka.resume(mortal.home) if gone is kafka.pause else kafka.start(mortal.home)
    (frozen,) = (terminal.lake / "gone/_tidegate/runs").rglob("1.json")
    report = terminal.json("run", "gone", "--run-id", "r")
    assert report["plan_id"] in frozen.read_text()
    assert report["rows"] == ROWS
    oracle_client.agree(mortal.bootstrap, terminal.lake, "gone", ["gone"])


@pytest.mark.blackbox
def test_a_broker_that_is_restarted_within_ten_seconds(tmp_path: Path, mortal: Broker) -> None:
    """It is killed while Spark reads: the run goes on, or ends by name and its retry is whole."""
    terminal = Terminal(tmp_path, mortal.bootstrap)
    topic_records.numbers(mortal.bootstrap, "back", ROWS)
    terminal.pipeline("back", ["back"], max_records=2_000)
    process = terminal.start("run", "back", "--run-id", "r")
    staging = terminal.lake / "back/_tidegate/staging"
    until(process, lambda: len(list(staging.glob("*/*/*/_done.json"))) > 2)
    kafka.kill(mortal.home)
    time.sleep(5)
    kafka.start(mortal.home)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (0, 4), err
    assert terminal.json("run", "back", "--run-id", "r")["rows"] == ROWS
    oracle_client.agree(mortal.bootstrap, terminal.lake, "back", ["back"])


@pytest.mark.blackbox
def test_an_egress_without_a_broker(tmp_path: Path, mortal: Broker) -> None:
    """The claim stays, as after any death of a sender; the retry sends the missing rows."""
    terminal = Terminal(tmp_path, mortal.bootstrap)
    topic_records.create(mortal.bootstrap, "target", partitions=4)
    source = tmp_path / "in"
    source.mkdir()
    values = [f"{n:06d}-{'x' * 40}" for n in range(ROWS)]
    (source / "a").write_text("\n".join(values))
    terminal.egress(
        "out",
        source={"path": str(source), "format": "text"},
        columns={"value": "value"},
        target={"topic": "target", "producer": SLOW},
    )
    process = terminal.start("run", "out", "--run-id", "r")
    spark = until(
        process, lambda: sum(topic_reader.ends(mortal.bootstrap, "target").values()) > 1_000
    )
    kafka.kill(mortal.home)
    ends_by_name(process, spark, time.monotonic())
    kafka.start(mortal.home)
    (claim,) = terminal.json("status", "out")["open_claims"]
    assert claim["sender_dead"]
    report = terminal.json("run", "out", "--run-id", "r")
    assert report["rows"] == ROWS
    records = topic_reader.read(mortal.bootstrap, "target")
    assert {(each.value or b"").decode() for each in records} == set(values)
    assert len(records) - ROWS == report["duplicates"]


@pytest.mark.blackbox
def test_a_broker_that_is_paused_for_a_while(tmp_path: Path, mortal: Broker) -> None:
    """Twelve seconds: the run waits, and goes on."""
    terminal = Terminal(tmp_path, mortal.bootstrap)
    topic_records.numbers(mortal.bootstrap, "paused", ROWS)
    terminal.pipeline("paused", ["paused"], max_records=2_000)
    process = terminal.start("run", "paused", "--run-id", "r")
    staging = terminal.lake / "paused/_tidegate/staging"
    until(process, lambda: len(list(staging.glob("*/*/*/_done.json"))) > 2)
    kafka.pause(mortal.home)
    time.sleep(12)
    kafka.resume(mortal.home)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    oracle_client.agree(mortal.bootstrap, terminal.lake, "paused", ["paused"])
