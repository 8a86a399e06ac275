"""Compare the working tree with another commit of this repository: `make bench-against REF=…`.

Both are run from their sources, with the packages of this environment, in turns (A B B A …) on one
broker. Each result is checked; one that does not hold what was sent ends the comparison. A case
that takes more than 10 % more CPU than the commit fails it; times of the clock are only told.

Cases: a small run (1,000 records) from cold, `--help`, a bulk ingest, many topics, an egress
of files, one of a lake.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_egress
import bench_memory
import workload
from contest import Contender, measure, run, surroundings, write

from tidegate.launch import jars
from tidegate_local import kafka

PROJECT = Path(__file__).parents[2]
LIMIT = 1.10
"""CPU time here by that of the commit."""
CODE = "from tidegate.cli.main import run; run()"
HELPS = 5  # in a row: one alone is too short to be measured


@dataclass(frozen=True)
class Side:
    """One of the two trees."""

    name: str
    tree: Path

    def tidegate(self, *args: str, **env: str) -> None:
        """Run a command of this tree from cold."""
        path = {"PYTHONPATH": str(self.tree / "include"), **env}
        run([sys.executable, "-P", "-c", CODE, *args], **path)


@dataclass(frozen=True)
class Case:
    """What a side does with the directory of a result, and the proof that it did."""

    go: Callable[[Side, Path], None]
    check: Callable[[Path], None] = lambda _: None
    outputs: Callable[[int], Path] | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ref", help="a commit")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records")
    parser.add_argument("--out", type=Path, help="write the report there, as JSON")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure(name)
    with (
        checkout(args.ref) as tree,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory,
    ):
        sides = Side("here", PROJECT), Side(args.ref, tree)
        for side in sides:  # an archive of classes fits one list of jars
            try:
                side.tidegate("jars")
            except SystemExit:
                print(
                    f"{side.name} has no command `jars`: with the archive of classes that it finds"
                )
        found = {}
        for name in args.case or CASES:
            home = Path(directory, name)
            home.mkdir()
            broker = kafka.start(home / "kafka").bootstrap
            try:
                found[name] = compared(CASES[name](broker, home, args.scale), sides, args, home)
            finally:
                kafka.stop(home / "kafka")
    if args.out:
        write(args.out, {**surroundings(), "ref": args.ref, "results": found})
    return tell(found, args.ref)


@contextmanager
def checkout(ref: str) -> Iterator[Path]:
    """Check a commit out beside this tree, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="tidegate-ref-") as directory:
        tree = Path(directory, "tree")
        git = ["git", "-C", str(PROJECT)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), ref], check=True)
        locks = ["requirements.lock", "include/tidegate/launch/jars"]
        if subprocess.run([*git, "diff", "--quiet", ref, "--", *locks], check=False).returncode:
            print(f"{ref} has other packages or jars; its code runs with the packages of this tree")
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def compared(
    case: Case, sides: tuple[Side, Side], args: argparse.Namespace, home: Path
) -> dict[str, Any]:
    """Measure both sides, after an unmeasured run of each."""
    numbered: Callable[[int], Path] = case.outputs or (lambda number: home / f"out-{number}")
    for number, side in enumerate(sides):
        output = numbered(1000 + number)
        case.go(side, output)
        case.check(output)
    contenders = [
        Contender(side.name, ".", lambda output, side=side: case.go(side, output)) for side in sides
    ]
    return measure(contenders, case.check, args.repetitions, numbered)


def tell(found: Mapping[str, Any], ref: str) -> int:
    """Print ratios to the commit; return 1 if any case takes too much CPU."""
    print(f"\n{'case':<8} {'wall here':>10} {ref[:10]:>10} {'ratio':>6} "
          f"{'CPU here':>10} {ref[:10]:>10} {'ratio':>6}")  # fmt: skip
    failed = False
    for name, result in found.items():
        row = f"{name:<8}"
        for what in ("wall", "cpu"):
            here, there = (
                statistics.median(each[what] for each in runs)
                for runs in result["repetitions"].values()
            )
            ratio = here / there
            row += f" {here:9.2f}s {there:9.2f}s {ratio:6.2f}"
            failed |= what == "cpu" and ratio > LIMIT
        print(row)
    if failed:
        print(f"more than {LIMIT - 1:.0%} more CPU than {ref}")
    return int(failed)


def pipelines(broker: str, home: Path, form: Mapping[str, Any]) -> dict[str, str]:
    """Write the file of the pipeline "bench"; return the environment of its commands."""
    directory = home / "pipelines"
    directory.mkdir(exist_ok=True)
    (directory / "bench.yaml").write_text(json.dumps({"name": "bench", **form}))
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}
    return {
        "TIDEGATE_PIPELINES": str(directory),
        "TIDEGATE_HOME": str(home / "no-stack"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
    }


def ingest(records: int) -> Callable[[str, Path, float], Case]:
    def made(broker: str, home: Path, scale: float) -> Case:
        sent = workload.load(broker, int(records * scale))
        form = {"kind": "ingest", "topics": [workload.TOPIC], "lake": "${TIDEGATE_LAKE}"}
        env = pipelines(broker, home, form)

        def go(side: Side, output: Path) -> None:
            output.mkdir()
            side.tidegate("run", "bench", "--run-id", "bench", **env, TIDEGATE_LAKE=str(output))

        return Case(go, lambda output: workload.check(output / "bench/data", sent))

    return made


def many_topics(broker: str, home: Path, scale: float) -> Case:
    case = bench_memory.Case(int(100 * scale), 2, 25, 400, 5_000_000)
    bench_memory.fill(broker, case)
    form = {"kind": "ingest", "pattern": "memory-.*", "lake": "${TIDEGATE_LAKE}"}
    env = pipelines(broker, home, form)

    def go(side: Side, output: Path) -> None:
        output.mkdir()
        side.tidegate("run", "bench", "--run-id", "bench", **env, TIDEGATE_LAKE=str(output))

    def check(output: Path) -> None:
        rows = workload.duckdb.sql(
            f'SELECT count(*), count(DISTINCT (topic, partition, "offset")) FROM read_parquet('
            f"'{output}/bench/data/**/*.parquet', hive_partitioning=true)"
        ).fetchall()
        if rows != [(case.sent, case.sent)]:
            raise workload.Void(f"{output} holds {rows}, and sent were {case.sent}")

    return Case(go, check)


def egress(broker: str, home: Path, scale: float) -> Case:
    source = home / "source"
    sent = bench_egress.make(source, int(100_000 * scale), 100)

    def go(side: Side, output: Path) -> None:
        env = pipelines(broker, home, {
            "kind": "egress", "lake": str(output), "settle": 0,
            "source": {"path": str(source), "format": "parquet"},
            "target": {"topic": output.name}, "columns": {"key": "key", "value": "value"},
        })  # fmt: skip
        side.tidegate("run", "bench", "--run-id", "bench", **env)

    def check(output: Path) -> None:
        bench_egress.check(broker, output.name, sent)

    return Case(go, check, bench_egress.fresh(broker, home, "t"))


def way_back(broker: str, home: Path, scale: float) -> Case:
    """An egress of a lake, whose records have one header."""
    source, here = home / "source", Side("here", PROJECT)
    sent = bench_egress.make(source, int(100_000 * scale), 100)
    topic = bench_egress.fresh(broker, home, "feed")(0).name
    first = {
        "kind": "egress", "lake": str(home / "first"), "settle": 0, "target": {"topic": topic},
        "source": {"path": str(source), "format": "parquet"},
        "columns": {"key": "key", "value": "value"},
    }  # fmt: skip
    here.tidegate("run", "bench", **pipelines(broker, home, first))
    feed = {"name": "feed", "kind": "ingest", "topics": [topic], "lake": str(home / "lake")}
    (home / "pipelines/feed.yaml").write_text(json.dumps(feed))
    here.tidegate("run", "feed", **pipelines(broker, home, first))

    def go(side: Side, output: Path) -> None:
        env = pipelines(broker, home, {
            "kind": "egress", "lake": str(output), "source": {"lake": "feed"},
            "target": {"topic": output.name},
        })  # fmt: skip
        side.tidegate("run", "bench", "--run-id", "bench", **env)

    def check(output: Path) -> None:
        bench_egress.check(broker, output.name, sent)

    return Case(go, check, bench_egress.fresh(broker, home, "t"))


def help_of_the_command(_: str, __: Path, ___: float) -> Case:
    def go(side: Side, output: Path) -> None:
        output.mkdir()
        for _ in range(HELPS):
            side.tidegate("--help")

    return Case(go)


CASES: Mapping[str, Callable[[str, Path, float], Case]] = {
    "small": ingest(1_000),
    "help": help_of_the_command,
    "bulk": ingest(400_000),
    "topics": many_topics,
    "egress": egress,
    "back": way_back,
}

if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
