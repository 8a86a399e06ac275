"""Backfills and explain: planned as explained, ingested once, also after kills."""

import json
import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support import oracle_client, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


def test_explain_equals_the_next_run(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Explain returns the run's plan id, rows, cursors and files, and writes nothing."""
    name = topic(partitions=2, config={"retention.ms": "86400000"})
    topic_records.numbers(broker.bootstrap, name, 1_000, partitions=2)
    terminal.pipeline("explained", [name], max_records=400)
    explained = terminal.json("explain", "explained")
    assert not terminal.lake.exists()
    assert "1,000 records in 3 chunks" in terminal.run("explain", "explained").stdout
    done = terminal.json("run", "explained")
    assert (explained["plan_id"], explained["records"]) == (done["plan_id"], done["rows"])
    assert [c["records"] for c in explained["chunks"]] == [c["rows"] for c in done["commits"]]
    assert explained["files"] == len(terminal.json("files", "explained"))
    partitions = terminal.json("status", "explained")["topics"][name]["partitions"]
    for p, each in explained["topics"][name]["partitions"].items():
        assert each["cursor_after"] == partitions[p]["cursor"] == 500
        expires = datetime.fromisoformat(each["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=23) < expires <= timedelta(hours=24)
    again = terminal.json("explain", "explained")
    assert (again["records"], again["chunks"]) == (0, [])


def covered(terminal: Terminal, pipeline: str, name: str) -> dict[str, list[tuple[str, int, int]]]:
    """Return lane and range of the committed intervals by partition."""
    partitions = terminal.json("coverage", pipeline)["topics"][name]["partitions"]
    return {
        p: [(i["lane"], i["start"], i["end"]) for i in each["intervals"] if "lane" in i]
        for p, each in partitions.items()
    }


@pytest.mark.slow
@pytest.mark.blackbox
def test_a_backfill_resumed_at_each_of_its_chunks(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Below a live cursor, killed while staging and while publishing: nothing committed is read
    again, every offset is there once, and the cursor stays.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 2_000, partitions=2)
    terminal.pipeline("late", [name], start="latest")
    terminal.json("run", "late")
    ask = ("backfill", "late", "--start", "0", "--end", "1000", "--chunk-size", "1000")
    explained = terminal.json(*ask, "--dry-run")
    assert (explained["lane"], explained["records"], len(explained["chunks"])) == (
        "backfill",
        2_000,
        2,
    )
    assert {p["cursor_after"] for p in explained["topics"][name]["partitions"].values()} == {1_000}
    resume = (*ask, "--run-id", "r")
    terminal.run(*resume, code=86, TIDEGATE_FAULT="seal.written:exit")
    manifests = {path: path.read_bytes() for path in terminal.lake.rglob("manifests/*.json")}
    assert len(manifests) == 1
    for chunk in range(2):
        terminal.end_at("publish.committed", *resume)
        assert len(terminal.json("files", "late")) == chunk + 1
    report = terminal.json(*resume)
    assert (report["plan_id"], report["rows"], report["lane"]) == (
        explained["plan_id"], 2_000, "backfill",
    )  # fmt: skip
    after = {path: path.read_bytes() for path in terminal.lake.rglob("manifests/*.json")}
    assert len(after) == 2
    assert manifests.items() <= after.items()
    assert covered(terminal, "late", name) == {p: [("backfill", 0, 1_000)] for p in "01"}
    partitions = terminal.json("status", "late")["topics"][name]["partitions"].values()
    assert [(p["origin"], p["cursor"]) for p in partitions] == [(1_000, 1_000)] * 2
    oracle_client.agree(broker.bootstrap, terminal.lake, "late", [name])
    again = terminal.run(*ask)
    assert "already committed as #2, #3; use `tidegate replay`" in again.stderr


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_backfill_ahead_of_the_cursor(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Live runs stop before it, then continue after it."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=1)
    terminal.pipeline("ahead", [name])
    assert terminal.json("backfill", "ahead", "--start", "100", "--end", "200")["rows"] == 100
    assert terminal.json("run", "ahead")["rows"] == 100
    assert terminal.json("run", "ahead")["rows"] == 100
    assert covered(terminal, "ahead", name)["0"] == [
        ("live", 0, 100), ("backfill", 100, 200), ("live", 200, 300),
    ]  # fmt: skip
    assert terminal.json("backfill", "ahead", "--fill-gaps")["commits"] == []
    oracle_client.agree(broker.bootstrap, terminal.lake, "ahead", [name])


def test_invalid_windows(terminal: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """All complaints at once, and nothing changes: not even a boundary is frozen."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 200, partitions=2)
    terminal.pipeline("strict", [name])
    assert terminal.json("run", "strict")["rows"] == 200
    topic_records.numbers(broker.bootstrap, name, 100, partitions=2)
    topic_records.delete_records(broker.bootstrap, name, {0: 120})
    before = terminal.tree()

    def complaints(*args: str) -> list[str]:
        error = terminal.json("backfill", "strict", *args, code=3)["error"]
        assert error["name"] == "WindowRefused"
        assert all(each in error["message"] for each in error["numbers"]["complaints"])
        return error["numbers"]["complaints"]  # type: ignore[no-any-return]

    assert complaints("--start", "100", "--end", "151", "--partitions", "0,1,9", "--chunk-size=0"
                      ) == [
        "chunk size 0: at least 1",
        "no partitions [9]: there are 0 to 1",
        "partition 0: end 151 is beyond the end 150",
        "partition 0: [100, 120) is before the log start 120",
        "partition 1: end 151 is beyond the end 150",
    ]  # fmt: skip
    per_partition = json.dumps({name: {"0": 130, "1": 140}})
    assert complaints("--start", "135", "--end", per_partition) == [
        "partition 0: start 135 is after end 130"
    ]
    (both,) = complaints("--start", "0", "--end", "2020-01-01T00:00:00Z")
    assert "give both as offsets, or both as timestamps" in both
    odd, future = complaints("--start", "1.1.2020", "--end", "2120-01-01")
    assert "neither an offset, nor" in odd
    assert "2120-01-01T00:00:00+00:00 is in the future" in future
    error = terminal.json("backfill", "strict", "--range", "x:0:9-5", code=2)["error"]
    assert error["message"] == "range 'x:0:9-5': start 9 is after end 5"
    assert complaints("--range", f"{name}:0:120-151", "--range", f"{name}:9:0-1") == [
        f"{name}: no partitions [9]: there are 0 to 1",
        f"{name}: partition 0: end 151 is beyond the end 150",
    ]
    assert complaints("--fill-gaps", "--start", "0") == [
        "give start and end, or fill gaps: not both"
    ]
    assert complaints() == ["start: missing", "end: missing"]
    windows = ("--start", "130", "--end", "151")
    said = terminal.json("backfill", "strict", *windows, code=3)["error"]["message"]
    words = shlex.split(said.splitlines()[-1])
    assert words[:3] == ["tidegate", "backfill", "strict"]
    assert "40 records in" in terminal.run(*words[1:]).stdout
    (unknown_topic, *_) = complaints("--topic", "else", "--start", "0", "--end", "1")
    assert "else is not among its topics" in unknown_topic
    assert terminal.tree() == before
    # Below the log start, but in the lake: valid.
    assert terminal.json("backfill", "strict", "--start", "0", "--end", "100")["commits"] == []


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_backlog_over_several_runs(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Soonest-expiring first: a partition with records that are hours older is read before the
    others, which share chunks equally; each run commits at most `max_chunks`.
    """
    name = topic(partitions=3, config={"retention.ms": str(10 * 86_400_000)})
    now = int(datetime.now(UTC).timestamp() * 1000)
    for p, hours in enumerate((1, 30, 1)):
        topic_records.stamped(broker.bootstrap, name, p, [now - hours * 3_600_000] * 400)
    terminal.pipeline("slow", [name], max_records=300)
    explained = terminal.json("explain", "slow", "--max-chunks", "1")
    assert (explained["records"], explained["later"], len(explained["chunks"])) == (300, 900, 1)
    cursors = []
    for _ in range(4):
        report = terminal.json("run", "slow", "--max-chunks", "1")
        assert len(report["commits"]) == 1
        partitions = terminal.json("status", "slow")["topics"][name]["partitions"]
        cursors.append([partitions[p]["cursor"] for p in "012"])
    assert cursors == [[0, 300, 0], [100, 400, 100], [250, 400, 250], [400, 400, 400]]
    oracle_client.agree(broker.bootstrap, terminal.lake, "slow", [name])


@pytest.mark.blackbox
@pytest.mark.slow
def test_finished_chunks_are_sealed_while_spark_is_running(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """kill -9 during a long application: earlier chunks are sealed and shown by `status`, and the
    retry does not read them again.
    """
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 600, partitions=1)
    terminal.pipeline("long", [name], start="latest")
    ask = ("backfill", "long", "--start", "0", "--end", "600", "--chunk-size", "100",
           "--run-id", "r")  # fmt: skip
    process = terminal.start(*ask, TIDEGATE_FAULT="stage.half@3:sleep=60")
    until = time.monotonic() + 90
    while len(manifests := sorted(terminal.lake.rglob("manifests/*.json"))) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    (plan,) = terminal.json("status", "long")["unfinished"]
    assert (plan["lane"], plan["run"], plan["chunks"]) == ("backfill", "r", 6)
    assert (plan["committed"], plan["sealed"]) == (0, 3)
    process.kill()
    process.communicate()
    before = {path: path.read_bytes() for path in manifests}
    assert terminal.json(*ask)["rows"] == 600
    after = {path: path.read_bytes() for path in terminal.lake.rglob("manifests/*.json")}
    assert len(after) == 6
    assert before.items() <= after.items()
    assert terminal.json("status", "long")["unfinished"] == []
    oracle_client.agree(broker.bootstrap, terminal.lake, "long", [name])


@pytest.mark.slow
def test_many_chunks(
    terminal: Terminal,
    broker: Broker,
    topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """1,500 chunks are planned and frozen in seconds; 50 chunks of one application take less than a
    quarter of the time of 50 applications. The times are printed.
    """
    terminal.processes = True
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 150_000, partitions=3)
    terminal.pipeline("many", [name], start="latest")

    def timed(*args: str, code: int = 0, **env: str) -> float:
        started = time.monotonic()
        terminal.run("backfill", "many", *args, code=code, **env)
        return time.monotonic() - started

    whole = ("--start", "0", "--end", "50000", "--chunk-size", "100")
    plan = timed(*whole, code=86, TIDEGATE_FAULT="plan.frozen:exit")
    (frozen,) = [p for p in terminal.lake.rglob("plans/*.json") if "note" not in p.name]
    assert len(json.loads(frozen.read_text())["chunks"]) == 1_500
    one = timed("--partitions", "0", "--start", "0", "--end", "100")
    fifty = timed("--partitions", "1", "--start", "0", "--end", "5000", "--chunk-size", "100")
    with capsys.disabled():
        size = frozen.stat().st_size
        print(f"\n1,500 chunks planned and frozen in {plan:.1f} s ({size:,} bytes); 50 chunks")
        print(f"in one application: {fifty / 50:.2f} s each; one alone: {one:.1f} s")
    assert plan < 15
    assert fifty / 50 < one / 4
    assert len(terminal.json("files", "many")) == 51
