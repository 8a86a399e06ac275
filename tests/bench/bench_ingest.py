"""Compare a whole `tidegate run` with a plain PySpark script, and the stage alone, warmed.

One broker, one topic, two contenders in ABBA order; every result is read back, and void unless it
holds exactly what was sent. Everything that was measured is written as JSON.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workload import PARTITIONS, TOPIC, Sent, check, load

from tidegate import jars
from tidegate.core.offsets import OffsetRange
from tidegate.local import kafka
from tidegate.runs.submission import ensure_archive, submission, submit
from tidegate.spark.job import Bytes, Chunk, Job

TARGETS = {"whole run": 1.5, "stage, warmed": 2.0}
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
WRITES = ("first", "second", "third")


@dataclass(frozen=True)
class Contender:
    """Something that writes the topic into a directory, its files below `files`.

    `go` returns the seconds that count, or None for all that it took.
    """

    name: str
    files: str
    go: Callable[[Path], float | None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ingest.json")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure(name)
    ensure_archive(lambda _: None)  # a part of set-up, as in `make setup`
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        home = Path(directory)
        broker = kafka.start(home / "kafka").bootstrap
        try:
            sent = load(broker, args.records)
            results = {
                "whole run": measure(
                    (whole_tidegate(broker, home), whole_plain(broker)),
                    sent, args.repetitions, home / "out",
                ),
                "stage, warmed": measure(
                    (warmed_tidegate(broker, home, sent), warmed_plain(broker)),
                    sent, args.repetitions, home / "out",
                ),
            }  # fmt: skip
        finally:
            kafka.stop(home / "kafka")
    report = {
        "format": 1,
        "records": args.records,
        "partitions": PARTITIONS,
        "bytes_per_record": round(sent.bytes / args.records, 1),
        "page_cache": "warm",
        "order": "ABBA",
        "machine": {"cpus": os.cpu_count(), "system": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            "java": _java_version(),
            **{name: version(name) for name in ("tidegate", "pyspark", "kafka-python", "pyarrow")},
        },
        "results": results,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    return tell(results)


def measure(
    contenders: tuple[Contender, Contender], sent: Sent, repetitions: int, output: Path
) -> dict[str, Any]:
    """Run A B B A A B …; return every repetition, medians, quartiles, and the ratio of medians."""
    taken: dict[str, list[dict[str, float]]] = {c.name: [] for c in contenders}
    for repetition in range(repetitions):
        for contender in contenders if repetition % 2 == 0 else contenders[::-1]:
            before, started = _cpu(), time.monotonic()
            counts = contender.go(output)
            wall, cpu = time.monotonic() - started, _cpu() - before
            check(output / contender.files, sent)
            shutil.rmtree(output)
            seconds = wall if counts is None else counts
            taken[contender.name].append(
                {"seconds": round(seconds, 3), "wall": round(wall, 3), "cpu": round(cpu, 2)}
            )
            print(f"{contender.name:>20} {seconds:7.2f} s, {cpu:6.1f} s of CPU", flush=True)
    ours, plain = (statistics.median(_seconds(taken[c.name])) for c in contenders)
    return {
        "repetitions": taken,
        "summary": {name: _summary(_seconds(runs)) for name, runs in taken.items()},
        "times_faster": round(plain / ours, 3),
    }


def tell(results: Mapping[str, Any]) -> int:
    """Print what was measured; 1 if a target was missed."""
    missed = 0
    for what, result in results.items():
        for name, summary in result["summary"].items():
            low, high = summary["quartiles"]
            print(f"{what}: {name}: median {summary['median']:.2f} s ({low:.2f} to {high:.2f})")
        reached = result["times_faster"] >= TARGETS[what]
        missed += not reached
        print(
            f"{what}: {result['times_faster']:.2f} times faster than plain,"
            f" target {TARGETS[what]} {'reached' if reached else 'MISSED'}"
        )
    return min(missed, 1)


def whole_tidegate(broker: str, home: Path) -> Contender:
    """`tidegate run` from cold, as a person types it, into a lake that is new each time."""
    pipelines = home / "pipelines"
    pipelines.mkdir()
    (pipelines / "bench.yaml").write_text(
        f"name: bench\nkind: ingest\ntopics: [{TOPIC}]\nlake: ${{TIDEGATE_LAKE}}\n"
    )
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}

    def go(output: Path) -> None:
        output.mkdir()
        _run(
            [BIN / "tidegate", "run", "bench", "--run-id", "bench"],
            TIDEGATE_PIPELINES=str(pipelines),
            TIDEGATE_LAKE=str(output),
            TIDEGATE_HOME=str(home / "no-stack"),
            AIRFLOW_CONN_KAFKA_DEFAULT=json.dumps(connection),
        )

    return Contender("tidegate run", "bench/data", go)


def whole_plain(broker: str) -> Contender:
    """One `spark-submit` of the plain script from cold."""

    def go(output: Path) -> None:
        _plain(broker, [output])

    return Contender("plain spark-submit", ".", go)


def warmed_tidegate(broker: str, home: Path, sent: Sent) -> Contender:
    """The third of three chunks in one application, all of the same window."""
    window = tuple(
        OffsetRange(TOPIC, p, 0, high + 1) for p, (_, _, high, _) in sent.content.items()
    )
    records = sum(map(len, window))
    options = {"kafka.bootstrap.servers": broker, "kafka.isolation.level": "read_committed"}

    def go(output: Path) -> float:
        chunks = tuple(Chunk(n, window, str(output / to)) for n, to in enumerate(WRITES))
        path = home / "job.json"
        Job("bench", "bench", options, chunks, Bytes("zstd", 1, records)).write(path)
        lines: list[str] = []
        given = submission(path, {}, records * len(WRITES), name="bench")
        submit(given, master="local[*]", log=lines.append)
        return _last_seconds(lines)

    return Contender("tidegate stage", WRITES[-1], go)


def warmed_plain(broker: str) -> Contender:
    """The third of three writes in one application."""

    def go(output: Path) -> float:
        return _last_seconds(_plain(broker, [output / to for to in WRITES]).splitlines())

    return Contender("plain write", WRITES[-1], go)


def _plain(broker: str, outputs: Sequence[Path]) -> str:
    connector = ",".join(map(str, jars.paths("spark-kafka")))
    script = HERE / "plain_spark.py"
    return _run(
        [BIN / "spark-submit", "--jars", connector, script, broker, TOPIC, *outputs],
        PYSPARK_PYTHON=sys.executable,  # else Spark takes the first python3 of the PATH
    )


def _run(command: Sequence[str | Path], **env: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def _last_seconds(lines: Sequence[str]) -> float:
    """Return the `… 1.23 s` that ends the last line which has one."""
    ends = (re.search(r" ([\d.]+) s$", line.rstrip()) for line in lines)
    return [float(end[1]) for end in ends if end][-1]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(runs: Sequence[Mapping[str, float]]) -> list[float]:
    return [run["seconds"] for run in runs]


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    low, _, high = statistics.quantiles(seconds, n=4) if seconds[1:] else [seconds[0]] * 3
    return {
        "median": round(statistics.median(seconds), 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "iqr": round(high - low, 3),
    }


def _java_version() -> str:
    told = subprocess.run([jars.java(), "-version"], capture_output=True, text=True, check=True)
    return told.stderr.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
