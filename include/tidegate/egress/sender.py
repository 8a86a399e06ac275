"""Who sends, and the proof that it does so no more."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

IsOver = Callable[[Mapping[str, Any]], bool]
"""Says of a sender's `task` whether Airflow knows that this try has ended."""

_PATIENCE = 15.0  # seconds for a JVM whose parent is dead to end
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# The kernel gives the first namespaces fixed numbers (PROC_PID_INIT_INO, PROC_UTS_INIT_INO).
_OF_THE_MACHINE = {"pid:[4026531836]", "uts:[4026531838]"}


def ourselves(task: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a claim says of this process: host, boot, pid, start time, Airflow's task."""
    return {
        "host": socket.gethostname(),
        **_here(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "task": None if task is None else dict(task),
    }


def is_dead(
    sender: Mapping[str, Any], attempt: str, is_over: IsOver, *, patience: float = _PATIENCE
) -> bool:
    """Say whether a sender is proven dead, its Spark driver with it; False means: not proven.

    Where its processes can be seen from here: neither it nor any that names the attempt is left; a
    driver whose parent has just died is given `patience` seconds. Elsewhere, in another container
    or before another boot for two, Airflow is asked about its task. Of one without a task, a
    reboot of the same machine is proof; in a container that cannot be known.
    """
    here = _here()
    can_be_seen = {name: sender[name] for name in here} == here and _sees_all_processes()
    runs = _runs(sender) if can_be_seen else None
    if runs is None:
        task = sender["task"]
        return _ended_by_a_reboot(sender, here) if task is None else is_over(task)
    if runs:
        return False
    give_up = time.monotonic() + patience
    while _names(attempt):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.2)
    return True


def is_alive(sender: Mapping[str, Any], attempt: str) -> bool:
    """Say whether a sender, or its Spark driver, is seen to live; False means: not seen."""
    here = {"host": socket.gethostname(), **_here()}
    if {name: sender[name] for name in here} != here:
        return False
    return bool(_runs(sender) or _names(attempt))


def _runs(sender: Mapping[str, Any]) -> bool | None:
    """Say whether a sender's process runs; None where there is one that may not be looked at."""
    try:
        return bool(_started(sender["pid"]) == sender["started"])
    except PermissionError:
        return None


def _ended_by_a_reboot(sender: Mapping[str, Any], here: Mapping[str, str]) -> bool:
    """Say whether a sender ran on this machine, and before its last boot.

    A container keeps its host name, and the machine id of its image, when it moves to another
    node, whose boot is another one too: there, nothing tells a reboot from a move.
    """
    return (
        _is_outside_containers()
        and sender["processes"] == here["processes"]
        and sender["machine"] == here["machine"] != ""
        and sender["host"] == socket.gethostname()
        and not sender["host"].startswith("localhost")  # the name of any machine
        and sender["boot"] != here["boot"]
    )


def _is_outside_containers() -> bool:
    """Say whether this process sees the processes and the host name of the machine itself."""
    namespaces = {str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("pid", "uts")}
    return namespaces == _OF_THE_MACHINE


def _sees_all_processes() -> bool:
    """Say whether other users' processes can be seen: /proc may be mounted to hide them.

    Another user's first process that can be read is proof. Our own is none: in a container it may
    be the only one that we see.
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


def _here() -> dict[str, str]:
    """Return what two processes share that see each other in /proc."""
    machine = Path("/etc/machine-id")
    return {
        "machine": machine.read_text().strip() if machine.is_file() else "",
        "boot": _BOOT.read_text().strip(),
        "processes": str(Path("/proc/self/ns/pid").readlink()),
    }


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if there is none.

    PermissionError where /proc shows that there is one, and nothing else of it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _names(attempt: str) -> list[int]:
    """Return the processes of this host whose command line names the attempt."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if attempt.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
