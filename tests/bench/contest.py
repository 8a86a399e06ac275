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

    `check` raises unless the result holds what it should.
    """

    name: str
    go: Callable[[Path], None]
    check: Callable[[Path], None] = lambda _: None


def measure(
    contenders: Sequence[Contender],
    repetitions: int,
    outputs: Callable[[int], Path],
    *,
    first: bool = False,
) -> dict[str, list[dict[str, float]]]:
    """Run A B C C B A …; return the seconds and the seconds of CPU of each run of each contender.

    `outputs` names the place of each result. `first`: an unmeasured run of each comes before.
    """
    taken: dict[str, list[dict[str, float]]] = {c.name: [] for c in contenders}
    number = 0
    for repetition in range(-1 if first else 0, repetitions):
        for contender in contenders if repetition % 2 == 0 else contenders[::-1]:
            output = outputs(number)
            number += 1
            before, started = _cpu(), time.monotonic()
            contender.go(output)
            wall, cpu = time.monotonic() - started, _cpu() - before
            contender.check(output)
            shutil.rmtree(output, ignore_errors=True)
            if repetition >= 0:
                taken[contender.name].append({"seconds": round(wall, 3), "cpu": round(cpu, 2)})
                print(f"{contender.name:>30} {wall:7.2f} s, {cpu:6.1f} s of CPU", flush=True)
    return taken


def median(runs: Sequence[Mapping[str, float]], what: str = "seconds") -> float:
    return statistics.median(run[what] for run in runs)


def quartiles(runs: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """Return the first and the third quartile of the seconds."""
    seconds = [run["seconds"] for run in runs]
    low, _, high = statistics.quantiles(seconds, n=4) if seconds[1:] else seconds * 3
    return low, high


def surroundings() -> dict[str, Any]:
    """Return what a number depends on beside the contenders."""
    return {
        "machine": {"cpus": os.cpu_count(), "system": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            "java": _java_version(),
            **{
                name: version(name)
                for name in ("tidegate", "pyspark", "kafka-python", "confluent-kafka", "pyarrow")
            },
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


def _java_version() -> str:
    told = subprocess.run(
        [jars.find_java(), "-version"], capture_output=True, text=True, check=True
    )
    return told.stderr.splitlines()[0]
