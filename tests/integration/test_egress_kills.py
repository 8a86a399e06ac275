"""Egress by `tidegate run`, killed half-way: the retry sends exactly the missing rows.

Another client checks that every (file, row) of the input is in the target with its content, and
that Tidegate's count of duplicates is right.
"""

import csv
import gzip
import io
import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import topic_reader, topic_records
from support.cli_user import Terminal
from support.process_list import is_running, spark_jvm
from tidegate_local import kafka
from tidegate_local.kafka import Broker

ROWS = 40_000
COLUMNS = {
    "json": {"columns": "value STRING, n ARRAY<INT>"},
    "csv": {"columns": "n STRING, value STRING"},
}
FORMATS = ("parquet", "json", "csv", "text", "lake", "again")
VICTIMS = ("jvm", "tidegate", "broker")
# Small requests, one at a time, so that the run can be killed half-way.
SLOW = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}
IMPATIENT = {"delivery.timeout.ms": 4_000, "request.timeout.ms": 2_000, "max.block.ms": 4_000}

Expected = dict[tuple[int, int], bytes]


@dataclass
class Case:
    """A pipeline `out`, the expected values by file and row, and its target topic."""

    terminal: Terminal
    topic: str
    expected: Expected
    ask: tuple[str, ...] = ("run", "out", "--run-id", "r")

    def start(self) -> subprocess.Popen[str]:
        return self.terminal.start(*self.ask, "--json")

    def records(self) -> list[topic_reader.Record]:
        return topic_reader.read(self.terminal.bootstrap, self.topic)

    def count(self) -> int:
        return sum(topic_reader.ends(self.terminal.bootstrap, self.topic).values())

    @property
    def claims(self) -> list[Any]:
        return list(self.terminal.json("status", "out")["open_claims"])


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker that tests may kill and restart at the same address."""
    home = tmp_path_factory.mktemp("mortal")
    try:
        yield kafka.start(home)
    finally:
        kafka.stop(home)


def case(terminal: Terminal, name: str, format_: str, rng: random.Random, **producer: int) -> Case:
    """Create a source in this format, with several files of unequal length, and its pipeline."""
    topic = f"{name}-target"
    topic_records.create(terminal.bootstrap, topic, partitions=4)
    settings: dict[str, Any] = {"target": {"topic": topic, "producer": SLOW | producer}}
    ask = Case.ask
    if format_ in ("lake", "again"):
        topic_records.numbers(terminal.bootstrap, f"{name}-source", ROWS)
        terminal.pipeline("lake", [f"{name}-source"])
        terminal.json("run", "lake")
        settings["source"] = {"lake": "lake"}
        settings["target"]["timestamps"] = "source"
        there = topic_reader.read(terminal.bootstrap, f"{name}-source")
        expected: Expected = {(s.partition, s.offset): s.value or b"" for s in there}
        if format_ == "again":  # a window of it, without numbers that end with 7
            ask = ("replay", "out", "--replay-id", "x", "--start", "500", "--end", "9500",
                   "--where", "cast(key as string) not like '%7'")  # fmt: skip
            expected = {
                (file, offset): value for (file, offset), value in expected.items()
                if 500 <= offset < 9_500 and not value.endswith(b"7")
            }  # fmt: skip
    else:
        source = terminal.home / "in"
        source.mkdir()
        settings |= {
            "source": {"path": str(source), "format": format_} | COLUMNS.get(format_, {}),
            "columns": {"value": "value"},
        }
        if rng.random() < 0.5:
            settings |= {
                "order_by": ["value"],
                "columns": {"value": "value", "partition": "cast(hash(value) & 3 as int)"},
            }
        expected = {}
        cuts = [0, *sorted(rng.sample(range(1, ROWS), 2)), ROWS]
        for n, (first, end) in enumerate(itertools.pairwise(cuts)):
            values = [f"{i:06d}-{rng.randbytes(20).hex()}" for i in range(first, end)]
            file = f"part={n}/file {n}.{format_}"
            write(source / file, format_, values)
            expected |= {(n, row): value.encode() for row, value in enumerate(values)}
    terminal.egress("out", **settings)
    return Case(terminal, topic, expected, ask)


def write(path: Path, format_: str, values: list[str]) -> None:
    path.parent.mkdir()
    if format_ == "parquet":
        table = pa.table({"value": values, "n": list(range(len(values)))})
        pq.write_table(table, path, row_group_size=5_000)
    elif format_ == "json":
        path.write_text("".join(json.dumps({"value": v, "n": [1]}) + "\n" for v in values))
    elif format_ == "csv":
        text = io.StringIO()
        csv.writer(text).writerows([("n", "value"), *enumerate(values)])
        path.write_text(text.getvalue())
    else:
        path.with_name(f"{path.name}").write_text("\n".join(values))


def half_way(case: Case, process: subprocess.Popen[str], fraction: float) -> None:
    """Wait until this fraction of the rows is in the target."""
    while case.count() < fraction * len(case.expected):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def all_is_there(case: Case, report: dict[str, Any]) -> int:
    """Assert that target and report agree with the input; return the number of duplicates."""
    found = case.records()
    assert {each.row: each.value for each in found} == case.expected
    assert [each for each in found if each.said[3] not in ("", str(each.timestamp))] == []
    assert {each.plan for each in found} == {report["plan_id"]}
    counted = topic_reader.rows(found)
    duplicates = counted.total() - len(counted)
    assert (report["rows"], report["duplicates"]) == (len(case.expected), duplicates)
    per = Counter(each.partition for each in found)
    assert {r["partition"]: r["sent"] + r["duplicates"] for r in report["receipts"]} == per
    verified = case.terminal.json("verify", "out", "--against-kafka")
    assert (verified["differences"], verified["against_kafka"]["rows"]) == (0, len(found))
    assert case.claims == []
    return duplicates


def killed(
    tmp_path: Path, mortal: Broker, name: str, format_: str, victim: str, seed: int
) -> tuple[Case, dict[str, Any]]:
    """Kill the victim half-way, and retry until the run is complete; return case and report."""
    rng = random.Random(seed)
    terminal = Terminal(tmp_path, mortal.bootstrap)
    impatient = IMPATIENT if victim == "broker" and seed % 2 == 0 else {}
    made = case(terminal, name, format_, rng, **impatient)
    process = made.start()
    fraction = rng.uniform(0.02, 0.9)
    half_way(made, process, fraction)
    if victim == "broker":
        kafka.kill(mortal.home)
        time.sleep(10)
        assert kafka.start(mortal.home).bootstrap == mortal.bootstrap
    else:
        jvm = spark_jvm(process.pid)
        os.kill(jvm if victim == "jvm" else process.pid, signal.SIGKILL)
        until = time.monotonic() + 5
        while is_running(jvm):
            assert time.monotonic() < until
            time.sleep(0.02)
    out, err = process.communicate(timeout=300)
    print(
        f"seed {seed}: {format_}, {victim} at {fraction:.2f}: {process.returncode}, {made.count()}"
    )
    if victim != "broker":
        assert process.returncode == (4 if victim == "jvm" else -signal.SIGKILL), err
        (claim,) = made.claims
        assert claim["sender_dead"]
    if impatient:
        assert process.returncode == 4, err
    for _ in range(3):
        if process.returncode == 0:
            return made, json.loads(out)
        process = made.start()
        out, err = process.communicate(timeout=300)
        assert process.returncode in (0, 4), err
    raise AssertionError(err)


@pytest.mark.blackbox
@pytest.mark.parametrize(
    ("format_", "victim", "seed"),
    [
        pytest.param("again", "jvm", 1, marks=pytest.mark.slow),
        pytest.param("lake", "jvm", 1, marks=pytest.mark.faults),
        pytest.param("parquet", "tidegate", 3, marks=pytest.mark.faults),
        pytest.param("csv", "broker", 2, marks=pytest.mark.faults),
    ],
)
def test_killed_half_way(
    tmp_path: Path, mortal: Broker, format_: str, victim: str, seed: int
) -> None:
    """The JVM, the run itself, the broker for 10 s: nothing is missing after the retry, and the
    doubles are counted. A lake's rows keep their order. What is sent again is so by
    its id alone, and once.
    """
    name = f"killed-{format_}-{victim}"
    made, report = killed(tmp_path, mortal, name, format_, victim, seed)
    all_is_there(made, report)
    if format_ == "again":
        count = made.count()
        again = made.terminal.run(*made.ask, "--json")
        assert {**json.loads(again.stdout), "run": report["run"]} == report
        assert "replay x was done before, as entry #" in again.stderr
        assert made.count() == count
        assert made.terminal.json(*made.ask, "--dry-run")["replay"]["commit"] == report["commit"]
        assert made.terminal.json("status", "out")["waiting"]["offsets"] == ROWS
    if format_ in ("lake", "again"):
        assert report["broken_order"] == []
        for p in range(4):
            offsets = [each.row[1] for each in made.records() if each.partition == p]
            assert offsets == sorted(offsets)


@pytest.mark.blackbox
@pytest.mark.faults
@pytest.mark.parametrize("seed", range(100, 120))
def test_killed_anywhere(tmp_path: Path, mortal: Broker, seed: int) -> None:
    """Twenty seeded kills over all formats and victims."""
    format_, victim = FORMATS[seed % len(FORMATS)], VICTIMS[seed % len(VICTIMS)]
    made, report = killed(tmp_path, mortal, f"seed-{seed}", format_, victim, seed)
    duplicates = all_is_there(made, report)
    print(f"seed {seed}: {duplicates} duplicates, broken order: {report['broken_order']}")


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_repeated_run_sends_nothing(tmp_path: Path, mortal: Broker) -> None:
    """A run with default settings of plain and compressed text; the same run again has the same
    report and sends nothing; status and exit codes.
    """
    terminal = Terminal(tmp_path, mortal.bootstrap)
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("one\ntwo\n")
    (source / "b.txt.gz").write_bytes(gzip.compress(b"three\n"))
    target = {"topic": "again", "partitions": 2}
    terminal.egress("out", source={"path": str(source), "format": "text"}, target=target)
    waiting = terminal.json("status", "out")
    assert (waiting["waiting"]["files"], waiting["sent"]["rows"]) == (2, 0)
    report = terminal.json("run", "out", "--run-id", "r")
    tree = terminal.tree()
    assert terminal.json("run", "out", "--run-id", "r") == report
    assert terminal.json("run", "out", "--run-id", "other")["commit"] is None
    assert tree.items() <= terminal.tree().items()
    found = topic_reader.read(mortal.bootstrap, "again")
    assert topic_reader.rows(found) == Counter([(0, 0), (0, 1), (1, 0)])
    status = terminal.json("status", "out")
    assert (status["waiting"]["files"], status["sent"]) == (
        0, {"files": 2, "rows": 3, "duplicates": 0},
    )  # fmt: skip
    (source / "a.txt").write_text("other\n")
    error = terminal.json("run", "out", code=3)["error"]
    assert error["name"] == "PartitionsLeftOut"
    assert terminal.json("run", "out", "--resend")["rows"] == 1
    assert terminal.json("release", "out", "--how", "resend", "--reason", "x", code=3)["error"][
        "name"] == "NotClaimed"  # fmt: skip


@pytest.mark.slow
@pytest.mark.blackbox
def test_killed_at_each_step(tmp_path: Path, mortal: Broker) -> None:
    """One run that ends at each point in turn, and is started again with its id: each row is in the
    topic once, by one commit, after the claim that died and the one that has sent.
    """
    terminal = Terminal(tmp_path, mortal.bootstrap, processes=True)
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("one\ntwo\n")
    target = {"topic": "steps", "partitions": 2}
    terminal.egress("out", source={"path": str(source), "format": "text"}, target=target)
    ask = ("run", "out", "--run-id", "r")
    for point in ("plan.frozen", "send.claimed", "seal.written", "publish.before",
                  "publish.committed", "caches.half"):  # fmt: skip
        terminal.run(*ask, code=86, TIDEGATE_FAULT=f"{point}:exit")
    report = terminal.json(*ask)
    assert (report["rows"], report["duplicates"], report["commit"]) == (2, 0, 3)
    found = topic_reader.read(mortal.bootstrap, "steps")
    assert sorted(record.value or b"" for record in found) == [b"one", b"two"]
    assert terminal.json("verify", "out", "--against-kafka")["differences"] == 0
