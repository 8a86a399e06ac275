"""The process that holds a claim: its identity, and the proof that it has ended."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TaskEnded = Callable[[Mapping[str, Any]], bool]
"""Returns whether Airflow knows that the task instance of a sender has ended."""

_PATIENCE = 15.0  # seconds for a JVM whose parent is dead to end
_BOOT = Path("/proc/sys/kernel/random/boot_id")
held_attempts: set[str] = set()


@contextmanager
def hold_attempt() -> Iterator[str]:
    """Yield the name of a new attempt: this process is its sender while the block runs.

    A program may call `tidegate.run` again in the same process.
    """
    attempt = secrets.token_hex(8)
    held_attempts.add(attempt)
    try:
        yield attempt
    finally:
        held_attempts.discard(attempt)


def sender_identity(
    task: Mapping[str, Any] | None, application: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the identity of this process for a claim: host, boot, pid, start, Airflow task.

    With the identity of an `application` that may outlive it, this process is its submitter.
    """
    return {
        "host": socket.gethostname(),
        **_pid_namespace(),
        "pid": os.getpid(),
        "started": start_time(os.getpid()),
        "task": None if task is None else dict(task),
        **({"application": dict(application)} if application else {}),
    }


def is_dead(
    sender: Mapping[str, Any], attempt: str, task_ended: TaskEnded, *, patience: float = _PATIENCE
) -> bool:
    """Say whether a sender and its Spark driver are proven dead. False means not proven.

    In the sender's pid namespace the proof is that neither its process nor any that names the
    attempt is running. A driver whose parent has just died has `patience` seconds to end. From
    anywhere else, another container or another boot included, Airflow's state of the task decides:
    that of the task's own deployment. A sender without a task is not proven dead there. Another
    boot is no proof: a container that moves to another node keeps host name and machine id.
    One with an application is never proven dead by this: `takeover` can.
    """
    if "application" in sender or not has_ended(sender, attempt, task_ended):
        return False
    if _visible_state(sender, attempt) is None:
        return True
    deadline = time.monotonic() + patience
    while _processes_naming(attempt):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def has_ended(sender: Mapping[str, Any], attempt: str, task_ended: TaskEnded) -> bool:
    """Say whether the process of a sender is proven to have ended. Its driver is not looked for.

    So has this process with an attempt that it has given up.
    """
    if (running := _visible_state(sender, attempt)) is not None:
        return not running
    task = sender["task"]
    return task is not None and task_ended(task)


def is_dead_here(sender: Mapping[str, Any], attempt: str) -> bool:
    """Say whether a sender is proven dead now by its processes. Airflow is not asked."""
    return is_dead(sender, attempt, lambda _: False, patience=0)


def is_alive(sender: Mapping[str, Any], attempt: str) -> bool:
    """Say whether a sender or its Spark driver is seen running here. False means not seen.

    Of a driver on YARN only the submitter is looked for.
    """
    here = {"host": socket.gethostname(), **_pid_namespace()}
    if {name: sender[name] for name in here} != here:
        return False
    return bool(_is_running(sender) or _processes_naming(attempt))


def _visible_state(sender: Mapping[str, Any], attempt: str) -> bool | None:
    """Say whether a sender's process runs, if it is this one with the attempt. None if that cannot
    be seen from here.
    """
    here = _pid_namespace()
    visible = {name: sender[name] for name in here} == here and sees_all_processes()
    running = _is_running(sender) if visible else None
    return attempt in held_attempts if running and sender["pid"] == os.getpid() else running


def _is_running(sender: Mapping[str, Any]) -> bool | None:
    """Say whether a sender's process runs. None if its pid exists and may not be inspected."""
    try:
        return bool(start_time(sender["pid"]) == sender["started"])
    except PermissionError:
        return None


def sees_all_processes() -> bool:
    """Say whether /proc shows the processes of other users. `hidepid` may hide them.

    A readable process 1 of another user is proof. One of the same user is not: in a container it
    may be the only visible process.
    """
    try:
        first = Path("/proc/1")
        if not (first / "stat").read_text():
            return False
        mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
        return first.stat().st_uid != os.geteuid() or not any(
            point == "/proc" and "hidepid=" in options
            for _, point, _, options, *_ in map(str.split, mounts)
        )
    except OSError:
        return False


def _pid_namespace() -> dict[str, str]:
    """Return machine, boot and pid namespace. Equal values mean that processes see each other."""
    machine = Path("/etc/machine-id")
    return {
        "machine": machine.read_text().strip() if machine.is_file() else "",
        "boot": _BOOT.read_text().strip(),
        "processes": str(Path("/proc/self/ns/pid").readlink()),
    }


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot. None if it does not run.

    Raises PermissionError where /proc lists it and shows nothing else of it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    has_ended = fields[0] in "ZX" and int(fields[17]) <= 1  # it, and all its threads
    return None if has_ended else int(fields[19])


def _processes_naming(attempt: str) -> list[int]:
    """Return the pids of other processes whose command line names the attempt."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if attempt.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
