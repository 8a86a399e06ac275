"""Re-ingest on a real broker: replaced by one entry, each row visible exactly once at any time."""

import json
import shlex
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support import oracle_client, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


class Reader(threading.Thread):
    """Reads the whole lake by its ledger repeatedly, until it is stopped."""

    def __init__(self, lake: Path, expected: set[tuple[int, int]]) -> None:
        super().__init__(daemon=True)
        self.lake, self.expected = lake, expected
        self.passes, self.again = Counter[str](), 0
        self.wrong: list[str] = []
        self._stop_it = threading.Event()

    def run(self) -> None:
        # Here: the other tests of this file know only commands.
        from tidegate.lake import committed_files
        from tidegate.lake.ledger import Ledger
        from tidegate.lake.store import LocalStore

        store = LocalStore(self.lake)
        while not self._stop_it.is_set():
            fold = Ledger(store, "again").fold
            try:
                seen = Counter(
                    (row["partition"], row["offset"])
                    for f in committed_files.live_files(store, fold)
                    for row in pq.ParquetFile(f["uri"].removeprefix("file://"))
                    .read(columns=["partition", "offset"])
                    .to_pylist()
                )
            except FileNotFoundError:
                self.again += 1  # replaced since it was listed: list again
                continue
            if seen.keys() != self.expected or set(seen.values()) != {1}:
                most = seen.most_common(1)
                self.wrong.append(f"after entry {fold.n}: {len(seen)} rows, most {most}")
            self.passes[f"{fold.n}"] += 1

    def stop(self) -> None:
        self._stop_it.set()
        self.join(30)


@pytest.mark.slow
def test_a_re_ingest_during_queries_by_the_ledger(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """At any time each row is visible once; afterwards also by glob; the oracle agrees, and neither
    the same id nor the next run changes anything.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 4_000, partitions=2)
    terminal.pipeline("again", [name], max_records=1_000)
    assert len(terminal.json("run", "again")["commits"]) == 4
    ask = ("replay", "again", "--start", "500", "--end", "1500", "--replay-id", "x")
    explained = terminal.json(*ask, "--dry-run")
    assert (explained["lane"], explained["records"], len(explained["chunks"])) == (
        "replay",
        2_000,
        2,
    )
    reader = Reader(terminal.lake / "again", {(p, o) for p in (0, 1) for o in range(2_000)})
    reader.start()
    slow = "publish.committed:sleep=1;publish.retiring:sleep=0.4;publish.finalising:sleep=0.4"
    report = terminal.json(*ask, TIDEGATE_FAULT=slow)
    reader.stop()
    assert reader.wrong == []
    assert len(reader.passes) == 3  # before, between and after the two entries
    assert (report["plan_id"], report["rows"]) == (explained["plan_id"], 2_000)
    oracle_client.agree(broker.bootstrap, terminal.lake, "again", [name])
    lanes = terminal.json("coverage", "again")["topics"][name]["partitions"]["0"]["intervals"]
    assert [(i["lane"], i["start"], i["end"]) for i in lanes] == [
        ("live", 0, 500), ("replay", 500, 1_500), ("live", 1_500, 2_000),
    ]  # fmt: skip
    after = terminal.tree()
    assert terminal.json(*ask)["commits"] == report["commits"]
    assert terminal.json("run", "again")["commits"] == []
    assert data(after) == data(terminal.tree())
    assert terminal.json("verify", "again", "--against-kafka")["differences"] == 0


def data(tree: dict[str, int]) -> dict[str, int]:
    return {k: v for k, v in tree.items() if "/data/" in k or "/log/" in k}


@pytest.mark.blackbox
def test_what_cannot_be_replayed(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Not in the lake, not whole files, expired, or an id of another window: all complaints at
    once, and nothing changes. Replays of windows X, Y and X are three commits.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 2_000, partitions=2)
    own_files = {"minPartitions": 2}
    terminal.pipeline("strict", [name], max_records=1_000, options=own_files)
    terminal.json("run", "strict")
    topic_records.numbers(broker.bootstrap, name, 200, partitions=2)
    before = terminal.tree()

    def refused(*args: str) -> list[str]:
        error = terminal.json("replay", "strict", *args, code=3)["error"]
        assert error["name"] == "WindowRefused"
        assert terminal.tree() == before
        return error["numbers"]["complaints"]  # type: ignore[no-any-return]

    start = json.dumps({name: {"0": 0, "1": 600}})
    assert refused("--replay-id", "x", "--start", start, "--end", "1100") == [
        "partition 0: [1000, 1100) is not in the lake: there is nothing to replace; backfill it",
        "partition 1: [1000, 1100) is not in the lake: there is nothing to replace; backfill it",
    ]
    invalid = ("--replay-id", " ", "--partitions", "0,7", "--where", "true")
    assert refused(*invalid, "--start", "0", "--end", "600") == [
        "replay id ' ': letters, digits and _.:+-, 128 at most",
        "where: a re-ingest replaces whole files and takes no filter",
        "no partitions [7]: there are 0 to 1",
        "partition 0: [0, 600) cuts committed files; the nearest window of whole ones is [0, 1000)",
    ]
    assert refused("--replay-id", "x", "--start", "5", "--end", "5") == ["the window is empty"]
    window = ("--replay-id", "x", "--start", "0", "--end", "600")
    said = terminal.json("replay", "strict", *window, code=3)["error"]["message"]
    words = shlex.split(said.splitlines()[-1])
    assert words[:3] == ["tidegate", "replay", "strict"]
    assert "2,000 records in" in terminal.run(*words[1:]).stdout

    def replay(replay_id: str, **settings: Any) -> int:
        terminal.pipeline("strict", [name], max_records=1_000, options=own_files, **settings)
        window = ("--start", "0", "--end", "500", "--replay-id", replay_id)
        (commit,) = terminal.json("replay", "strict", *window)["commits"]
        assert commit["rows"] == 1_000
        return int(commit["commit"])

    first = replay("x")
    assert replay("y", isolation="read_uncommitted") == first + 1
    assert replay("x-again") == first + 2
    assert replay("x") == first
    other = terminal.json(
        "replay", "strict", "--start", "500", "--end", "1000", "--replay-id", "x", code=3
    )["error"]
    assert other["name"] == "ReplayRefused"
    topic_records.delete_records(broker.bootstrap, name, {0: 10})
    before = terminal.tree()
    (expired,) = refused("--replay-id", "z", "--start", "0", "--end", "500")
    assert "partition 0: [0, 10) is before the log start 10" in expired
    assert terminal.json("replay", "strict", "--start", "0", "--end", "500", "--replay-id", "z",
                         "--partitions", "1")["rows"] == 500  # fmt: skip
    terminal.json("run", "strict")
    found = terminal.json("verify", "strict")
    assert (found["differences"], found["rows"]) == (0, 2_200)


@pytest.mark.blackbox
@pytest.mark.parametrize(
    "at",
    [
        pytest.param("plan.frozen", marks=pytest.mark.faults),
        pytest.param("publish.before", marks=pytest.mark.faults),
        "publish.retiring",
    ],
)
def test_a_replay_that_was_killed_goes_on(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], at: str
) -> None:
    """The same id, or the next plan, completes it."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 900, partitions=1)
    terminal.pipeline("again", [name])
    terminal.json("run", "again")
    ask = ("replay", "again", "--start", "0", "--end", "900", "--replay-id", "x")
    if at == "plan.frozen":
        terminal.run(*ask, code=86, TIDEGATE_FAULT=f"{at}:exit")
    else:
        terminal.end_at(at, *ask)
    if at == "publish.retiring":  # the next plan of any run completes it
        assert terminal.json("run", "again")["commits"] == []
    else:
        assert terminal.json(*ask)["rows"] == 900
    oracle_client.agree(broker.bootstrap, terminal.lake, "again", [name])
    assert {f["commit"] for f in terminal.json("files", "again")} == {3}
