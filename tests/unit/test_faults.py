"""Fault points do what they are told, only where they are told, and nothing when nobody asks."""

import os
import signal
import subprocess
import sys
import time
import timeit
from pathlib import Path

import pytest

from tidegate import faults


def test_unset_a_point_does_nothing_and_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    seconds = min(timeit.repeat(lambda: faults.point("anywhere"), number=1000, repeat=5))
    assert seconds < 0.01, "ten microseconds a call would be slow"


def test_only_the_named_point_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "stage.done:raise; commit.before:raise")
    faults.point("commit")
    faults.point("stage")
    with pytest.raises(faults.FaultInjected, match=r"commit\.before"):
        faults.point("commit.before")


def test_a_point_can_act_at_the_kth_passing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "kth@3:raise")
    faults.point("kth")
    faults.point("kth")
    with pytest.raises(faults.FaultInjected):
        faults.point("kth")
    faults.point("kth")


@pytest.mark.parametrize(
    "fault", ["p:explode", "p", "p:", "p:sleep", "p:sleep=soon", "p:wait", "p:kill=9"]
)
def test_a_typing_error_is_told_at_any_point(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a misspelt fault would be a test that always passes."""
    monkeypatch.setenv(faults.VARIABLE, fault)
    with pytest.raises(ValueError, match="actions: exit, kill"):
        faults.point("another.point")


def test_sleep_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "p:sleep=0.05")
    started = time.monotonic()
    faults.point("p")
    assert time.monotonic() - started >= 0.05


def test_wait_tells_who_is_there_and_goes_on_with_the_file(tmp_path: Path) -> None:
    """The barrier of the race tests: everybody is seen to reach it before anybody passes."""
    gate = tmp_path / "gate"
    waiting = [_start(f"p:wait={gate}") for _ in range(2)]
    expected = {f"gate.reached.{process.pid}" for process in waiting}
    deadline = time.monotonic() + 10
    while {f.name for f in tmp_path.iterdir()} != expected:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [process.poll() for process in waiting] == [None, None]
    gate.touch()
    assert [process.wait(10) for process in waiting] == [0, 0]


@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("exit", 86)])
def test_kill_and_exit_leave_no_time_to_clean_up(action: str, code: int) -> None:
    process = _start(f"p:{action}")
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (code, "")


def test_kill_parent_ends_the_parent_alone(tmp_path: Path) -> None:
    survived = tmp_path / "survived"
    child = f"from tidegate import faults; faults.point('p'); open({str(survived)!r}, 'w')"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = _start("p:kill-parent", parent)
    assert process.wait(10) == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while not survived.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_kill_jvm_kills_nothing_else() -> None:
    """Outside of a Spark driver the parent may be anything: the test runner, say."""
    process = _start("p:kill-jvm")
    _, error = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "not a JVM" in error


def _start(
    fault: str,
    program: str = "import atexit; from tidegate import faults\n"
    "atexit.register(print, 'cleaned up')\nfaults.point('p')",
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, faults.VARIABLE: fault, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
