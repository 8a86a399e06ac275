"""Run detached processes that outlive their starter, and end only those.

Pids are reused. A record therefore holds the pid and the start time that the kernel gave the
process, and signals go through a pidfd, which can only reach the process that was checked. Start
times are read from /proc in clock ticks since boot: psutil's change with the system clock. Linux
only.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tidegate.launch.file_lock import hold_lock
from tidegate_local import state_files


@dataclass(frozen=True)
class Process:
    """A process that `start` made. `started` is in clock ticks since boot."""

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
    `env` is the whole environment. Without it, this process's own is inherited.
    """
    log, record = _log(name, home), _record(name, home)
    for directory in (log.parent, record.parent):
        directory.mkdir(parents=True, exist_ok=True)
    with hold_lock(record.with_suffix(".lock")):
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
        child.returncode = 0  # the record is in charge from here on: no warning, no implicit wait
        assert stat is not None, "a child that was not waited for keeps its entry in /proc"
        state_files.write(record, {"pid": stat.pid, "started": stat.started})
        return Process(name, stat.pid, stat.started, log)


def find(name: str, *, home: Path) -> Process | None:
    """Return the process that `start` made under this name, if it is alive."""
    record = state_files.read(_record(name, home))
    if record is None:
        return None
    process = Process(name, record["pid"], record["started"], _log(name, home))
    return process if _is_alive(process.pid, process.started) else None


def wait_until_ready(
    process: Process | None,
    is_ready: Callable[[], bool],
    *,
    timeout: float,
    failure: Callable[[str], Exception],
) -> None:
    """Return once `is_ready`. Raise `failure` of the reason if the process ends, or in `timeout` s.

    OSError in `is_ready` counts as not ready.
    """
    deadline = time.monotonic() + timeout
    while process and _is_alive(process.pid, process.started):
        with suppress(OSError):
            if is_ready():
                return
        if time.monotonic() > deadline:
            raise failure(f"did not answer within {timeout:.0f} s")
        time.sleep(0.05)
    raise failure("ended")


def stop(name: str, *, home: Path, timeout: float = 10.0) -> bool:
    """End the process and its descendants: SIGTERM, SIGKILL after `timeout` seconds.

    The process alone gets the first signal, so that it can end its children in its own way.
    Returns whether there was anything to end.
    """
    process = find(name, home=home)
    if process is None:
        _record(name, home).unlink(missing_ok=True)
        return False
    tree = _process_tree(process)
    send(process, signal.SIGTERM)
    send(process, signal.SIGCONT)  # a stopped process would not receive the SIGTERM
    deadline = time.monotonic() + timeout
    while _is_alive(process.pid, process.started) and time.monotonic() < deadline:
        time.sleep(0.02)
        tree |= _process_tree(process)
    _end(tree - {(process.pid, process.started)}, signal.SIGTERM, timeout=2.0)
    _end(tree, signal.SIGKILL, timeout=5.0)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    _record(name, home).unlink(missing_ok=True)
    return True


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal to exactly this process. False when it has ended."""
    return send_if(process.pid, number, partial(_is_alive, process.pid, process.started))


def send_if(pid: int, number: signal.Signals, condition: Callable[[], bool]) -> bool:
    """Send a signal if `condition` holds for the present owner of a pid. Return whether it did."""
    try:
        handle = os.pidfd_open(pid)  # before the condition: the pid may be reused afterwards
    except ProcessLookupError:
        return False
    try:
        if not condition():
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def last_error_line(name: str, *, home: Path, pattern: str) -> str:
    """Return the last line of a process's log that matches, else its last line, and the path."""
    log = _log(name, home)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if re.search(pattern, line)] or lines
    return f"{errors[-1] if errors else 'it said nothing'} (see {log})"


def _log(name: str, home: Path) -> Path:
    return home / "logs" / f"{name}.log"


def _record(name: str, home: Path) -> Path:
    return home / "run" / f"{name}.json"


def _stat(pid: int, *, dead_too: bool = False) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, field 2, may itself hold spaces and parentheses: count from the last one.
    fields = text.rpartition(")")[2].split()
    # The other threads of one that ends still have its files, and its ports.
    is_dead = fields[0] in "ZX" and int(fields[17]) <= 1
    if is_dead and not dead_too:
        return None
    return _Stat(pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def _is_alive(pid: int, started: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat.started == started


def _process_tree(process: Process) -> set[tuple[int, int]]:
    """Return (pid, started) of the process, its session and all their descendants.

    Empty once the process is dead: only while it is alive are its pid, and thereby the number of
    the session, not reused.
    """
    everyone = [stat for pid in psutil.pids() if (stat := _stat(pid))]
    members = {stat for stat in everyone if stat.session == process.pid}
    while more := {stat for stat in everyone if stat.parent in {m.pid for m in members}} - members:
        members |= more
    if not _is_alive(process.pid, process.started):
        return set()
    return {(stat.pid, stat.started) for stat in members}


def _end(processes: set[tuple[int, int]], number: signal.Signals, *, timeout: float) -> None:
    for pid, started in processes:
        send_if(pid, number, partial(_is_alive, pid, started))
    deadline = time.monotonic() + timeout
    while any(_is_alive(*process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
