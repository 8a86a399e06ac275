"""Run detached processes that outlive their starter, and end only those.

A pid alone proves nothing: pids come back. A record therefore holds the pid *and* the start
time that the kernel gave the process, and signals go through a pidfd, which can never reach
another process than the one that was checked. Linux only.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.launch.file_lock import locked
from tidegate_local import state_files


@dataclass(frozen=True)
class Process:
    """A process that `start` made; `started` is in clock ticks since boot."""

    name: str
    pid: int
    started: int
    log: Path


@dataclass(frozen=True)
class _Stat:
    pid: int
    parent: int
    session: int
    started: int


def start(
    name: str,
    argv: Sequence[str | Path],
    *,
    home: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Start `argv` in a session of its own, or return the living process of that name.

    Output is appended to `home/logs/<name>.log`, the record is `home/run/<name>.json`.
    `env` is the whole environment; without it, this process's own is inherited.
    """
    log, record = home / "logs" / f"{name}.log", _record(name, home)
    for directory in (log.parent, record.parent):
        directory.mkdir(parents=True, exist_ok=True)
    with locked(record.with_suffix(".lock")):
        if running := find(name, home=home):
            return running
        with log.open("ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        stat = _stat(child.pid, dead_too=True)
        child.returncode = 0  # from here on the record is in charge: no warning, no implicit wait
        assert stat is not None, "a child that nobody has waited for keeps its entry in /proc"
        state_files.write(record, {"pid": stat.pid, "started": stat.started})
        return Process(name, stat.pid, stat.started, log)


def find(name: str, *, home: Path) -> Process | None:
    """Return the process that `start` made under this name, if it still lives."""
    try:
        record = json.loads(_record(name, home).read_text())
    except FileNotFoundError:
        return None
    process = Process(name, record["pid"], record["started"], home / "logs" / f"{name}.log")
    return process if _lives(process.pid, process.started) else None


def stop(name: str, *, home: Path, timeout: float = 10.0) -> bool:
    """End the process and all its descendants: TERM, `timeout` seconds of patience, KILL.

    Only the process itself is asked first, so that it can end its children in its own way.
    Returns whether there was anything to end.
    """
    process = find(name, home=home)
    if process is None:
        _record(name, home).unlink(missing_ok=True)
        return False
    family = _family(process)
    send(process, signal.SIGTERM)
    send(process, signal.SIGCONT)  # a stopped process would not even see the TERM
    deadline = time.monotonic() + timeout
    while _lives(process.pid, process.started) and time.monotonic() < deadline:
        time.sleep(0.02)
        family |= _family(process)
    _end(family - {(process.pid, process.started)}, signal.SIGTERM, patience=2.0)
    _end(family, signal.SIGKILL, patience=5.0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    _record(name, home).unlink(missing_ok=True)
    return True


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False when it is gone."""
    return _signal(process.pid, process.started, number)


def last_words(name: str, *, home: Path, is_error: Callable[[str], object]) -> str:
    """Return the last line of a process's log that tells of an error, else its last line."""
    log = home / "logs" / f"{name}.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    told = [line for line in lines if is_error(line)] or lines
    return f"{told[-1] if told else 'it said nothing'} (see {log})"


def _record(name: str, home: Path) -> Path:
    return home / "run" / f"{name}.json"


def _stat(pid: int, *, dead_too: bool = False) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, field 2, may itself hold spaces and parentheses: count from the last one.
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX" and not dead_too:
        return None
    return _Stat(pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def _lives(pid: int, started: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat.started == started


def _family(process: Process) -> set[tuple[int, int]]:
    """Return (pid, started) of the process, its session and all their descendants.

    Empty once the process is dead: only while it lives does the kernel keep its pid, and with
    it the number of the session, from being given to others.
    """
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    everyone = [stat for pid in pids if (stat := _stat(pid))]
    members = {stat for stat in everyone if stat.session == process.pid}
    while more := {stat for stat in everyone if stat.parent in {m.pid for m in members}} - members:
        members |= more
    if not _lives(process.pid, process.started):
        return set()
    return {(stat.pid, stat.started) for stat in members}


def _end(processes: set[tuple[int, int]], number: signal.Signals, *, patience: float) -> None:
    for pid, started in processes:
        _signal(pid, started, number)
    deadline = time.monotonic() + patience
    while any(_lives(*process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)


def _signal(pid: int, started: int, number: signal.Signals) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not _lives(pid, started):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
