"""Compare the working tree with another commit of this repository: `make bench-against REF=…`.

Both are run from their sources, with the packages of this environment, in turns (A B B A …) on one
broker. Each result is checked; one that does not hold what was sent ends the comparison. A case
that takes more than 10 % more CPU than the commit fails it; times of the clock are only told.

Cases: a small run (1,000 records) from cold, `--help`, a bulk ingest, many topics, an egress
of files, one of a lake. By name (`--case`): records of JSON, CSV or Avro into columns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sources
import workload
from contenders import pipeline
from contest import Contender, measure, median, run, surroundings, write
from workload import Shape

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
    parser.add_argument(
        "--case", action="append", choices=CASES, help=f"default: {', '.join(USUAL)}"
    )
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records")
    parser.add_argument("--out", type=Path, help="write the report there, as JSON")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure_jars(name)
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
        for name in args.case or USUAL:
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
        locks = ["requirements.txt", "include/tidegate/launch/jars"]
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
    contenders = [
        Contender(side.name, lambda output, side=side: case.go(side, output), case.check)
        for side in sides
    ]
    return measure(contenders, args.repetitions, numbered, first=True)


def tell(found: Mapping[str, Any], ref: str) -> int:
    """Print ratios to the commit; return 1 if any case takes too much CPU."""
    print(f"\n{'case':<8} {'wall here':>10} {ref[:10]:>10} {'ratio':>6} "
          f"{'CPU here':>10} {ref[:10]:>10} {'ratio':>6}")  # fmt: skip
    failed = False
    for name, result in found.items():
        row = f"{name:<8}"
        for what in ("seconds", "cpu"):
            here, there = (median(runs, what) for runs in result.values())
            ratio = here / there
            row += f" {here:9.2f}s {there:9.2f}s {ratio:6.2f}"
            failed |= what == "cpu" and ratio > LIMIT
        print(row)
    if failed:
        print(f"more than {LIMIT - 1:.0%} more CPU than {ref}")
    return int(failed)


def ingest(shape: Shape) -> Callable[[str, Path, float], Case]:
    def made(broker: str, home: Path, scale: float) -> Case:
        sent = workload.load(broker, "bench", shape.scaled(scale))
        form = {"pattern": "bench-.*", "lake": "${TIDEGATE_LAKE}"}
        if shape.format:
            value = {"format": shape.format, "schema": workload.SCHEMAS[shape.format]}
            form |= {"decode": {"*": {"value": value}}}
        env = pipeline(home, broker, {"name": "bench", "kind": "ingest", **form})

        def go(side: Side, output: Path) -> None:
            output.mkdir()
            side.tidegate("run", "bench", "--run-id", "bench", **env, TIDEGATE_LAKE=str(output))

        return Case(go, lambda output: workload.check(output / "bench/data", sent))

    return made


def egress(broker: str, home: Path, scale: float) -> Case:
    source = home / "source"
    sent = sources.files(source, int(100_000 * scale), 100)
    return sending(broker, home, sent, {
        "source": {"path": str(source), "format": "parquet"},
        "columns": {"key": "key", "value": "value"},
    })  # fmt: skip


def way_back(broker: str, home: Path, scale: float) -> Case:
    """An egress of a lake, whose records have one header."""
    _, sent = sources.lake(home, broker, int(100_000 * scale), 100)
    return sending(broker, home, sent, {"source": {"lake": "feed"}})


def sending(broker: str, home: Path, sent: sources.Rows, form: Mapping[str, Any]) -> Case:
    def go(side: Side, output: Path) -> None:
        env = pipeline(home, broker, {
            "name": "bench", "kind": "egress", "lake": str(output), "settle": 0,
            "target": {"topic": output.name}, **form,
        })  # fmt: skip
        side.tidegate("run", "bench", "--run-id", "bench", **env)

    def check(output: Path) -> None:
        sources.check(broker, output.name, sent)

    return Case(go, check, sources.targets(broker, home, "t"))


def help_of_the_command(_: str, __: Path, ___: float) -> Case:
    def go(side: Side, output: Path) -> None:
        output.mkdir()
        for _ in range(HELPS):
            side.tidegate("--help")

    return Case(go)


CASES: Mapping[str, Callable[[str, Path, float], Case]] = {
    "small": ingest(Shape(1_000, 300, partitions=4)),
    "help": help_of_the_command,
    "bulk": ingest(Shape(400_000, 300, partitions=4)),
    "topics": ingest(Shape(5_000, 400, topics=100, partitions=2)),
    "egress": egress,
    "back": way_back,
    **{f: ingest(Shape(200_000, 300, partitions=4, format=f)) for f in ("json", "csv", "avro")},
}
USUAL = ("small", "help", "bulk", "topics", "egress", "back")

if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
