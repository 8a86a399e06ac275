"""Processes of this machine, as any of its users sees them."""

import contextlib
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import psutil

WITHOUT_FIRST_THREAD = """\
import os, socket, threading, time
from ctypes import CDLL
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=time.sleep, args=(60,)).start()
print(server.getsockname()[1], flush=True)
CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
"""A program that prints the port at which it listens, then ends the first of its two threads.

Linux shows it as a zombie, which it is not: it has its files, and its port. So is any process with
threads for a moment when it is killed.
"""


class CommandLines:
    """Collect what a `ps` of any user would show while the block runs."""

    def __enter__(self) -> Self:
        self._lines: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def _collect(self) -> None:
        while not self._over.wait(0.05):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):  # gone
                    self._lines.add(file.read_text(errors="replace"))


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process; none of one that has ended."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def command_line(pid: int) -> str:
    """Return a process's arguments, with blanks between them; nothing of one that has ended."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def wait_for_zombie(pid: int) -> None:
    """Wait until Linux shows a process as a zombie; at most 10 seconds."""
    deadline = time.monotonic() + 10
    while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"{pid} is no zombie"
        time.sleep(0.01)


def spark_jvm(pid: int) -> int:
    """Return the JVM of the Spark driver that a process has started."""
    (jvm,) = [
        p for p in descendants(pid) if "org.apache.spark.deploy.SparkSubmit" in command_line(p)
    ]
    return jvm


def is_job(arguments: str, name: str = "") -> bool:
    """Say whether the arguments of a process name a job of Tidegate: `ingest`, `egress`, or any."""
    return f"tidegate/spark/jobs/{name}" in arguments


def is_running(pid: int) -> bool:
    """Say whether a process runs; a dead one that its parent has not waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def have_ended(pids: Iterable[int]) -> bool:
    """Say whether no process runs any more, within a second: exit closes a file before it ends."""
    deadline = time.monotonic() + 1
    while running := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return not running


def of_stack(home: Path) -> list[psutil.Process]:
    """Return the processes of a local stack, found by other traces than those Tidegate uses."""
    traces = (str(home), str((home / "postgres" / "socket").resolve()))

    def belongs(process: psutil.Process) -> bool:
        try:
            out, err = (Path(f"/proc/{process.pid}/fd/{n}").readlink() for n in (1, 2))
            links = (process.cwd(), str(out), str(err))
        except (OSError, psutil.Error):
            return False
        return any(trace in link for trace in traces for link in links)

    return [process for process in psutil.process_iter() if belongs(process)]
