"""Runs killed at seeded moments, there and back, while readers look all the time.

What each reader has seen is printed. `TIDEGATE_KILLS` is the number of runs of a place.
"""

import io
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from support import topic_reader, topic_records
from support.buckets import BUCKET, content, keys
from support.cli_user import Terminal
from tidegate.errors import ConfigurationError
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

RUNS = int(os.environ.get("TIDEGATE_KILLS", "16"))
RECORDS = 500  # before each run of the way there

Rows = Counter[Any]


class Reader(threading.Thread):
    """Looks at rows until it is told to end: none may be there twice, none may go."""

    def __init__(self, name: str, look: Callable[[], Rows]) -> None:
        super().__init__(name=name, daemon=True)
        self._look, self._ending = look, threading.Event()
        self.seen: list[int] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._ending.wait(0.3):
            try:
                self.look()
            except Exception as error:
                self.wrong.append(f"{self.name}: {error!r}")

    def look(self) -> None:
        rows = self._look()
        if twice := [row for row, n in rows.items() if n > 1]:
            self.wrong.append(f"{self.name}: {len(twice)} rows twice, {min(twice)} among them")
        if self.seen and len(rows) < self.seen[-1]:
            self.wrong.append(f"{self.name}: {self.seen[-1]} rows, and then {len(rows)}")
        self.seen.append(len(rows))

    def end(self) -> None:
        self._ending.set()
        self.join(60)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self.seen)} looks, {len(set(self.seen))} states, "
            f"{self.seen[-1]} rows at the end, {len(self.wrong)} times wrong"
        )


def rows_of(table: pa.Table) -> Rows:
    return Counter(zip(*(table[name].to_pylist() for name in ("partition", "offset")), strict=True))


def by_glob(home: Path, s3: Server | None, lake: str) -> Callable[[], Rows]:
    """Return a look at all files below `data/` of the pipeline `there`."""

    def files() -> list[Any]:
        if s3 is None:
            return sorted(Path(lake, "there/data").rglob("*.parquet"))
        names = keys(s3, f"{lake}/there", r"^data/.*\.parquet$")
        return [io.BytesIO(content(s3, f"{lake}/there", name)) for name in names]

    def look() -> Rows:
        tables = (pq.read_table(each, partitioning=None) for each in files())
        return sum(map(rows_of, tables), Rows())

    return look


def kill(pid: int) -> None:
    """End a command and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        command = psutil.Process(pid)
        for each in [*command.children(recursive=True), command]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def run_and_kill(terminal: Terminal, name: str, run: int, after: float) -> int:
    """Start a run, and kill it after so many seconds if it has not ended; return its exit code."""
    process = terminal.start("run", name, "--run-id", f"{name}-{run}")
    moment = time.monotonic() + after
    while process.poll() is None and time.monotonic() < moment:
        time.sleep(0.01)
    kill(process.pid)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 4, -9), err
    return process.returncode


@pytest.mark.faults
@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_readers_of_runs_that_are_killed(
    place: str, broker: Broker, s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the ledger and below `data/` no row is ever there twice, or goes; what the ledger says is
    sent is in the target; at the end each row is there once, and duplicates are counted.
    """
    bucket = s3 if place == "bucket" else None
    lake = f"s3://{BUCKET}/polled" if bucket else str(tmp_path / "lake")
    environ = s3.environment if bucket else {}
    terminal = Terminal(tmp_path, broker.bootstrap, environ=environ, url=lake, processes=True)
    source, target = f"polled-{place}", f"polled-{place}-back"
    for topic in (source, target):
        topic_records.create(broker.bootstrap, topic, partitions=4)
    terminal.pipeline("there", [source])
    terminal.egress("back", source={"lake": "there"}, target={"topic": target}, lake=lake)
    for name, value in terminal.env().items():
        monkeypatch.setenv(name, value)

    def by_ledger() -> Rows:
        try:
            lake = tidegate.open_lake("there")
        except ConfigurationError:  # no run has written there; if any had, its rows are missed
            return Rows()
        return rows_of(lake.dataset().to_table(["partition", "offset"]))

    def sent() -> Rows:
        rows = tidegate.status("back")["sent"]["rows"]
        there = len({each.value for each in topic_reader.read(broker.bootstrap, target)})
        assert there >= rows, f"{rows} rows are sent by the ledger, and {there} are there"
        return Rows(range(rows))

    readers = (
        Reader("by the ledger", by_ledger),
        Reader("below data/", by_glob(tmp_path, bucket, lake)),
        Reader("sent", sent),
    )
    rng, codes = random.Random(place), Counter[tuple[str, int]]()
    for each in readers:
        each.start()
    written = 0
    seconds = {"there": 60.0, "back": 60.0}  # of the first run, which is not killed
    for run in range(RUNS // 2):
        topic_records.numbers(broker.bootstrap, source, RECORDS, first=written)
        written += RECORDS
        for name in ("there", "back"):
            began = time.monotonic()
            after = seconds[name] * (rng.uniform(0.02, 1.3) if run else 1)
            codes[name, run_and_kill(terminal, name, run, after)] += 1
            if not run:
                seconds[name] = time.monotonic() - began
    for name in ("there", "back", "back"):
        terminal.run("run", name)
    for each in readers:
        each.end()
        each.look()
        print(f"{place}: {each}")
    print(f"{place}: exit codes {dict(codes)}")
    assert [wrong for each in readers for wrong in each.wrong] == []
    assert [each.seen[-1] for each in readers] == [written] * 3
    records = topic_reader.read(broker.bootstrap, target)
    assert len({each.value for each in records}) == written
    status = terminal.json("status", "back")
    assert status["sent"]["duplicates"] == len(records) - written
    for name in ("there", "back"):
        assert terminal.json("verify", name, "--against-kafka")["differences"] == 0
