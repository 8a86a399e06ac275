"""Any window again: told before it is done, done once, whatever else runs."""

import json
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
    """The same plan by its id, the same rows, cursors and files; and nothing was written."""
    name = topic(partitions=2, config={"retention.ms": "86400000"})
    topic_records.numbers(broker.bootstrap, name, 1_000, partitions=2)
    terminal.pipeline("told", [name], max_records=400)
    told = terminal.json("explain", "told")
    assert not terminal.lake.exists()
    assert "1,000 records in 3 chunks" in terminal.run("explain", "told").stdout
    done = terminal.json("run", "told")
    assert (told["plan_id"], told["records"]) == (done["plan_id"], done["rows"])
    assert [c["records"] for c in told["chunks"]] == [c["rows"] for c in done["commits"]]
    assert told["files"] == len(terminal.json("files", "told"))
    stands = terminal.json("status", "told")["topics"][name]["partitions"]
    for p, each in told["topics"][name]["partitions"].items():
        assert each["cursor_after"] == stands[p]["cursor"] == 500
        expires = datetime.fromisoformat(each["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=23) < expires <= timedelta(hours=24)
    again = terminal.json("explain", "told")
    assert (again["records"], again["chunks"]) == (0, [])


def covered(terminal: Terminal, pipeline: str, name: str) -> dict[str, list[tuple[str, int, int]]]:
    """Return what commits hold per partition, by lane."""
    partitions = terminal.json("coverage", pipeline)["topics"][name]["partitions"]
    return {
        p: [(i["lane"], i["start"], i["end"]) for i in each["intervals"] if "lane" in i]
        for p, each in partitions.items()
    }


def test_a_backfill_resumed_at_each_of_its_chunks(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Below a live cursor that stays where it is, killed once while it publishes and once while it
    stages: nothing that is committed is read again, and every offset is there once.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 2_000, partitions=2)
    terminal.pipeline("late", [name], start="latest")
    terminal.json("run", "late")
    ask = ("backfill", "late", "--start", "0", "--end", "1000", "--chunk-size", "500")
    told = terminal.json(*ask, "--dry-run")
    assert (told["lane"], told["records"], len(told["chunks"])) == ("backfill", 2_000, 4)
    assert {p["cursor_after"] for p in told["topics"][name]["partitions"].values()} == {1_000}
    resume = (*ask, "--run-id", "r")
    terminal.run(*resume, code=86, TIDEGATE_FAULT="seal.written@2:exit")
    seals = {path: path.read_bytes() for path in terminal.lake.rglob("_seal.json")}
    assert len(seals) == 2
    for chunk in range(4):
        terminal.run(*resume, code=86, TIDEGATE_FAULT="publish.committed:exit")
        assert len(terminal.json("files", "late")) == 2 * (chunk + 1)
    report = terminal.json(*resume)
    assert (report["plan_id"], report["rows"], report["lane"]) == (
        told["plan_id"], 2_000, "backfill",
    )  # fmt: skip
    after = {path: path.read_bytes() for path in terminal.lake.rglob("_seal.json")}
    assert len(after) == 4
    assert seals.items() <= after.items()
    assert covered(terminal, "late", name) == {p: [("backfill", 0, 1_000)] for p in "01"}
    stands = terminal.json("status", "late")["topics"][name]["partitions"].values()
    assert [(p["origin"], p["cursor"]) for p in stands] == [(1_000, 1_000)] * 2
    oracle_client.agree(broker.bootstrap, terminal.lake, "late", [name])
    again = terminal.run(*ask)
    assert "already committed as #2, #3, #4, #5; use `tidegate replay`" in again.stderr


@pytest.mark.slow
def test_a_backfill_ahead_of_the_cursor(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Live stops before it, then goes on after it; a gap that is still retained is filled."""
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
    """Every complaint at once, and nothing moved: not even a boundary is frozen."""
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

    assert complaints("--start", "100", "--end", "151", "--partitions", "0,1,9", "--chunk-size=0",
                      "--order", "newest") == [
        "chunk size 0: at least 1",
        "order 'newest': it is one of ['oldest', 'soonest-expiring']",
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
    naive, future = complaints("--start", "2020-01-01T00:00:00", "--end", "2120-01-01T00:00:00Z")
    assert "without a zone" in naive
    assert "in the future" in future
    assert complaints("--fill-gaps", "--start", "0") == [
        "give start and end, or fill gaps: not both"
    ]
    assert complaints() == ["start: missing", "end: missing"]
    (stranger, *_) = complaints("--topic", "else", "--start", "0", "--end", "1")
    assert "else is not among its topics" in stranger
    assert terminal.tree() == before
    # Below the log start, but in the lake: nothing to complain of.
    assert terminal.json("backfill", "strict", "--start", "0", "--end", "100")["commits"] == []


@pytest.mark.slow
def test_a_backlog_over_several_runs(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Soonest-expiring first: a partition whose records are older by hours goes before the others,
    which share fairly; each run takes `max_chunks`.
    """
    name = topic(partitions=3, config={"retention.ms": str(10 * 86_400_000)})
    now = int(datetime.now(UTC).timestamp() * 1000)
    for p, hours in enumerate((1, 30, 1)):
        topic_records.stamped(broker.bootstrap, name, p, [now - hours * 3_600_000] * 400)
    terminal.pipeline("slow", [name], max_records=300)
    told = terminal.json("explain", "slow", "--max-chunks", "1")
    assert (told["records"], told["later"], len(told["chunks"])) == (300, 900, 1)
    cursors = []
    for _ in range(4):
        report = terminal.json("run", "slow", "--max-chunks", "1")
        assert len(report["commits"]) == 1
        stands = terminal.json("status", "slow")["topics"][name]["partitions"]
        cursors.append([stands[p]["cursor"] for p in "012"])
    assert cursors == [[0, 300, 0], [100, 400, 100], [250, 400, 250], [400, 400, 400]]
    oracle_client.agree(broker.bootstrap, terminal.lake, "slow", [name])


def test_finished_chunks_are_sealed_while_spark_is_running(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """kill -9 in the middle of one long application: the chunks before are sealed and counted by
    `status`, and the retry does not read them again.
    """
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 600, partitions=1)
    terminal.pipeline("long", [name], start="latest")
    ask = ("backfill", "long", "--start", "0", "--end", "600", "--chunk-size", "100",
           "--run-id", "r")  # fmt: skip
    process = terminal.start(*ask, TIDEGATE_FAULT="stage.half@3:sleep=60")
    until = time.monotonic() + 90
    while len(seals := sorted(terminal.lake.rglob("_seal.json"))) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    (plan,) = terminal.json("status", "long")["unfinished"]
    assert (plan["lane"], plan["run"], plan["chunks"]) == ("backfill", "r", 6)
    assert (plan["committed"], plan["sealed"]) == (0, 3)
    process.kill()
    process.communicate()
    before = {path: path.read_bytes() for path in seals}
    assert terminal.json(*ask)["rows"] == 600
    after = {path: path.read_bytes() for path in terminal.lake.rglob("_seal.json")}
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
    """1,500 chunks are planned and frozen in seconds; 50 in one application take far less each than
    an application a chunk. The measures are printed.
    """
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 150_000, partitions=3)
    terminal.pipeline("many", [name], start="latest")

    def timed(*args: str, code: int = 0, **env: str) -> float:
        began = time.monotonic()
        terminal.run("backfill", "many", *args, code=code, **env)
        return time.monotonic() - began

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
