"""Measure the memory of runs: few chunks, many chunks, topics and partitions, big records.

Each case is a whole `tidegate run` at default settings (a driver of 1 GB) from topics that are
compressed with lz4. It is void unless the ledger covers every offset that was sent. The command
fails if a case needs more than the limits below, which do not grow with the work.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import workload
from contenders import pipeline
from contest import surroundings, write
from workload import Shape

from tidegate.launch import jars
from tidegate.launch.spark_submit import ensure_archive
from tidegate_local import kafka

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
_COLLECTED = re.compile(r"Pause \w+.* \d+M->(\d+)M\((\d+)M\) ([\d.]+)ms")


@dataclass(frozen=True)
class Case:
    """Topics that are read in chunks of `max_records`."""

    shape: Shape
    max_records: int = 5_000_000


CASES: Mapping[str, Case] = {
    "10 chunks": Case(Shape(100_000, 400, partitions=4), 10_000),
    "500 chunks": Case(Shape(5_000_000, 400, partitions=4), 10_000),
    "1,000 topics": Case(Shape(2_000_000, 400, topics=1_000, partitions=1)),
    "10,000 partitions": Case(Shape(200_000, 400, topics=100, partitions=100)),
    "100 chunks of records of 200 kB": Case(Shape(10_000, 200_000, partitions=4), 100),
}
HEAP_MB = 400
"""Limit for the driver's heap after a collection."""
PYTHON_MB = 400
"""Limit for the resident memory of the command itself."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of: {', '.join(CASES)}; default: all")
    parser.add_argument("--spark-conf", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "memory.json")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure_jars(name)
    ensure_archive(lambda _: None)
    conf = dict(each.split("=", 1) for each in args.spark_conf)
    results: dict[str, Any] = {}
    over: list[str] = []
    if args.out.exists():  # cases may be measured one at a time
        results = json.loads(args.out.read_text())["results"]
    for name in args.cases or CASES:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
            case = CASES[name]
            try:
                found = measured(case, Path(directory), conf)
            finally:
                kafka.stop(Path(directory, "kafka"))
        results[name] = {"max_records": case.max_records, **asdict(case.shape), **found}
        print(name, json.dumps(results[name]), flush=True)
        ordered = {name: results[name] for name in CASES if name in results}
        write(args.out, {**surroundings(), "results": ordered})
        for what, limit in (("heap", HEAP_MB), ("python", PYTHON_MB)):
            if (took := found[f"{what}_mb"]) > limit:
                over.append(f"{name}: {what} {took} MB, and {limit} MB is the limit")
    print("\n".join(over))
    return int(bool(over))


def measured(case: Case, home: Path, conf: Mapping[str, str]) -> dict[str, Any]:
    """Fill the topics, run once, and return what the application's JVM took."""
    broker = kafka.start(home / "kafka").bootstrap
    workload.create(broker, "memory", case.shape)
    log = home / "gc.log"
    environment = {**os.environ, **pipeline(home, broker, {
        "name": "bench", "kind": "ingest", "lake": str(home / "lake"), "pattern": "memory-.*",
        "spark": {"conf": {"spark.driver.extraJavaOptions": f"-Xlog:gc:file={log}", **conf}},
    })}  # fmt: skip
    started = time.monotonic()
    command = [BIN / "tidegate", "run", "bench", "--run-id", "bench", "--json"]
    with (home / "out").open("w") as out:
        run = subprocess.Popen(
            [*command, "--max-records", str(case.max_records)],
            env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        java = python = 0
        while run.poll() is None:
            java, python = max(java, _java(run.pid)), max(python, _resident(run.pid))
            time.sleep(0.1)
    if run.returncode:
        raise workload.Void(f"exit {run.returncode}: {(home / 'out').read_text()[-3000:]}")
    status = subprocess.run(
        [BIN / "tidegate", "status", "bench", "--json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    covered = sum(
        each["cursor"] - each["origin"]
        for topic in json.loads(status.stdout)["topics"].values()
        for each in topic["partitions"].values()
    )
    if covered != case.shape.records:
        raise workload.Void(f"{case.shape.records} records sent, the ledger covers {covered}")
    pauses = _COLLECTED.findall(log.read_text())
    return {
        "seconds": round(time.monotonic() - started, 1),
        "heap_mb": max(int(after) for after, _, _ in pauses),
        "rss_mb": java >> 20,
        "python_mb": python >> 20,
        "seconds_in_collections": round(sum(float(ms) for _, _, ms in pauses) / 1000, 1),
    }


def _java(pid: int) -> int:
    """Return the resident bytes of the largest Java process below a process."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return 0
    return max((_resident(each.pid) for each in below if _is_java(each)), default=0)


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.Error:
        return False


def _resident(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0


if __name__ == "__main__":
    sys.exit(main())
