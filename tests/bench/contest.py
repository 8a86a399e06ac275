"""Contenders in turn, every result checked, and what was measured."""

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tidegate.launch import jars


@dataclass(frozen=True)
class Contender:
    """Something that writes a result into a directory, or a topic of the directory's name.

    `files` is where the result is, below. `go` returns the seconds that count, or None for all
    that it took.
    """

    name: str
    files: str
    go: Callable[[Path], float | None]


def measure(
    contenders: Sequence[Contender],
    check: Callable[[Path], None],
    repetitions: int,
    outputs: Callable[[int], Path],
) -> dict[str, Any]:
    """Run A B C C B A …; return every repetition, medians, quartiles, and the ratios to the first.

    `outputs` names the place of each result, `check` raises unless it holds what it should.
    """
    taken: dict[str, list[dict[str, float]]] = {c.name: [] for c in contenders}
    number = 0
    for repetition in range(repetitions):
        for contender in contenders if repetition % 2 == 0 else contenders[::-1]:
            output = outputs(number)
            number += 1
            before, started = _cpu(), time.monotonic()
            counts = contender.go(output)
            wall, cpu = time.monotonic() - started, _cpu() - before
            check(output / contender.files)
            shutil.rmtree(output, ignore_errors=True)
            seconds = wall if counts is None else counts
            taken[contender.name].append(
                {"seconds": round(seconds, 3), "wall": round(wall, 3), "cpu": round(cpu, 2)}
            )
            print(f"{contender.name:>20} {seconds:7.2f} s, {cpu:6.1f} s of CPU", flush=True)
    return {"repetitions": taken, **compared(taken, "seconds")}


def compared(taken: Mapping[str, Sequence[Mapping[str, float]]], by: str) -> dict[str, Any]:
    """Return medians, quartiles, and the ratios to the first, of `seconds` or of `wall`."""
    seconds = {name: [run[by] for run in runs] for name, runs in taken.items()}
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    ours, *others = taken
    return {
        "summary": {name: _summary(each) for name, each in seconds.items()},
        "times_faster": {other: round(medians[other] / medians[ours], 3) for other in others},
    }


def tell(results: Mapping[str, Any], targets: Mapping[str, Mapping[str, float]]) -> int:
    """Print what was measured; 1 if a target was missed."""
    missed = 0
    for what, result in results.items():
        for name, summary in result["summary"].items():
            low, high = summary["quartiles"]
            print(f"{what}: {name}: median {summary['median']:.2f} s ({low:.2f} to {high:.2f})")
        for name, times in result["times_faster"].items():
            said = f"{what}: {times:.2f} times faster than {name}"
            if (target := targets.get(what, {}).get(name)) is not None:
                missed += times < target
                said += f", target {target} {'reached' if times >= target else 'MISSED'}"
            print(said)
    return min(missed, 1)


def surroundings() -> dict[str, Any]:
    """Return what a number depends on beside the contenders."""
    return {
        "format": 1,
        "page_cache": "warm",
        "order": "ABBA",
        "machine": {"cpus": os.cpu_count(), "system": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            "java": _java_version(),
            **{name: version(name) for name in ("tidegate", "pyspark", "kafka-python", "pyarrow")},
        },
    }


def write(path: Path, report: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def run(command: Sequence[str | Path], **env: str) -> str:
    """Run a command to its end; return its output."""
    done = subprocess.run(
        command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
