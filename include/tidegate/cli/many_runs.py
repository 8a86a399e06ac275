"""Runs of several pipelines by one command: a process each, so many at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from tidegate.cli.runs import ended_by_signals
from tidegate.terminal.console import note, say, worst_exit_code


class Runs:
    """The processes of the runs. Those that go on when the command ends are ended, too.

    Each has a group of its own: Ctrl-C reaches this process alone, and each run gets one signal.
    """

    def __init__(self, options_of: Callable[[str], Sequence[str]], *, as_json: bool) -> None:
        self.options_of, self.as_json = options_of, as_json
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._lock, self._ended = Lock(), False

    def run(self, name: str) -> Any:
        """Run a pipeline to its end. Return its document with `--json`, else relay its lines."""
        process = self._start(name)
        if process is None:
            return None
        with process:
            assert process.stdout is not None, "it is a pipe"
            if self.as_json:
                return _document(name, process.stdout.read())
            for line in process.stdout:
                say(f"{name}: {line.rstrip()}")
        return None

    def _start(self, name: str) -> subprocess.Popen[str] | None:
        """Start a run. None if the command has ended meanwhile."""
        # Without -P, a module of the working directory could take the place of a library.
        command = [sys.executable, "-P", "-m", "tidegate.cli.main", "run", name]
        command += self.options_of(name)
        with self._lock:
            if self._ended:
                return None
            process = self.processes[name] = subprocess.Popen(
                [*command, "--json"] if self.as_json else command,
                stdout=subprocess.PIPE,
                stderr=None if self.as_json else subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                process_group=0,
            )
        return process

    def end(self) -> None:
        """End the processes that go on. No other is started."""
        with self._lock:
            self._ended = True
            for process in self.processes.values():
                process.terminate()  # which does nothing to a process that has ended

    def failed(self) -> dict[str, int]:
        """Return the exit codes of the runs that failed."""
        return {name: each.returncode for name, each in self.processes.items() if each.returncode}


def run_each(
    pipelines: Sequence[str],
    options_of: Callable[[str], Sequence[str]],
    jobs: int,
    *,
    as_json: bool,
) -> int:
    """Run pipelines, `jobs` at once, with their options. Return the most severe exit code.

    A run that fails stops no other. Each line of progress begins with the name of its pipeline.
    """
    runs = Runs(options_of, as_json=as_json)
    with ended_by_signals(), ThreadPoolExecutor(jobs) as threads:
        try:
            documents = list(threads.map(runs.run, pipelines))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            runs.end()
            raise
    failed = runs.failed()
    if as_json:
        print(json.dumps({"format": 1, "pipelines": documents}))
    elif failed:
        names = ", ".join(name for name in pipelines if name in failed)
        note(f"failed: {names} ({len(failed)} of {len(pipelines)})", "red")
    return worst_exit_code(0, *(code if code in range(1, 5) else 1 for code in failed.values()))


def _document(name: str, text: str) -> Any:
    """Return the document that a run printed, with the name of its pipeline."""
    try:
        return {"pipeline": name, **json.loads(text)}
    except ValueError:  # it was killed
        return {"format": 1, "pipeline": name}
