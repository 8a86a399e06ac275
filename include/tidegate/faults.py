"""Fault points: places at which a test can stop, delay or end the process.

`TIDEGATE_FAULT=<point>[@k]:<action>[;…]` sets the actions of points, for every time or only the
k-th time that this process reaches them. Unset, a point only reads the environment. Actions: `exit`
(at once, with code 86, without cleanup), `kill` (SIGKILL to itself), `kill-parent`, `kill-jvm` (the
parent, which must be a JVM), `raise`, `sleep=<seconds>`, `wait=<file>` (continue when the file
exists; `<file>.reached.<pid>` is created before).
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tidegate.errors import ConfigurationError

VARIABLE = "TIDEGATE_FAULT"
TESTING = "TIDEGATE_TESTING"

passed: Counter[str] = Counter()


class FaultInjected(Exception):
    """A fault point raised, as set in TIDEGATE_FAULT."""


def point(name: str) -> None:
    """Perform the actions of this point. ValueError if TIDEGATE_FAULT is not valid."""
    if faults := os.environ.get(VARIABLE):
        if os.environ.get(TESTING) != "1":
            raise ConfigurationError(
                f"{VARIABLE} is set: it ends or delays processes, for tests alone; unset it (tests "
                f"set {TESTING}=1)"
            )
        passed[name] += 1
        for act in [a for at, a in _parse(faults) if at in (name, f"{name}@{passed[name]}")]:
            act()


def _parse(faults: str) -> list[tuple[str, Callable[[], None]]]:
    """Return all points and actions: a typing error fails at the first point that is reached."""
    parsed = []
    for fault in filter(None, map(str.strip, faults.split(";"))):
        at, _, action = fault.partition(":")
        action, _, argument = action.partition("=")
        try:
            parsed.append((at, _action(at, action, argument)))
        except (KeyError, ValueError):
            raise ValueError(
                f"{VARIABLE}: {fault!r} is not <point>:<action>; actions: exit, kill, kill-jvm,"
                " kill-parent, raise, sleep=<seconds>, wait=<file>"
            ) from None
    return parsed


def _action(at: str, action: str, argument: str) -> Callable[[], None]:
    def fail() -> NoReturn:
        raise FaultInjected(f"fault at {at}")

    if action == "sleep":
        seconds = float(argument)
        return lambda: time.sleep(seconds)
    if action == "wait" and argument:
        return lambda: _wait(Path(argument))
    if argument:
        raise ValueError(argument)
    return {
        "exit": lambda: os._exit(86),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "kill-parent": lambda: os.kill(os.getppid(), signal.SIGKILL),
        "kill-jvm": _kill_jvm,
        "raise": fail,
    }[action]


def _wait(file: Path) -> None:
    file.with_name(f"{file.name}.reached.{os.getpid()}").touch()
    while not file.exists():
        time.sleep(0.01)


def _kill_jvm() -> None:
    parent = os.getppid()
    name = Path(f"/proc/{parent}/comm").read_text().strip()
    if name != "java":
        raise RuntimeError(f"kill-jvm: the parent, {parent}, is {name} and not a JVM")
    os.kill(parent, signal.SIGKILL)
