"""Detached processes: all descendants are ended, and no other process is."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process_list import WITHOUT_FIRST_THREAD, wait_for_zombie
from tidegate_local import ports, processes


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for record in (tmp_path / "run").glob("*.json"):
        processes.stop(record.stem, home=tmp_path, timeout=0.0)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path.name} never appeared"
        time.sleep(0.01)
    return path.read_text()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_started_process_is_found_again_and_stopped(home: Path) -> None:
    """Output goes to its log; a second stop finds nothing to do."""
    started = processes.start("sleeper", ["sh", "-c", "echo hello; exec sleep 60"], home=home)
    assert wait_for(started.log) == "hello\n"
    assert started.log == home / "logs" / "sleeper.log"
    assert os.getsid(started.pid) == started.pid
    assert processes.find("sleeper", home=home) == started

    assert processes.stop("sleeper", home=home)
    assert processes.find("sleeper", home=home) is None
    assert not alive(started.pid)
    assert not processes.stop("sleeper", home=home)


def test_starting_twice_gives_the_running_one(home: Path) -> None:
    first = processes.start("sleeper", ["sleep", "60"], home=home)
    assert processes.start("sleeper", ["sleep", "60"], home=home) == first


def test_environment_and_directory_are_the_given_ones(home: Path) -> None:
    work = home / "work"
    work.mkdir()
    started = processes.start(
        "printer",
        ["/bin/sh", "-c", 'echo "$WORD in $PWD"; exec sleep 60'],
        home=home,
        env={"WORD": "tide", "PATH": os.environ["PATH"]},
        cwd=work,
    )
    assert wait_for(started.log) == f"tide in {work}\n"


def test_a_reused_pid_is_neither_found_nor_ended(home: Path) -> None:
    """The record of a dead process has the pid of another one, with another start time."""
    other = processes.start("other", ["sleep", "60"], home=home)
    (home / "run" / "ours.json").write_text(
        json.dumps({"pid": other.pid, "started": other.started - 1})
    )
    assert processes.find("ours", home=home) is None
    assert not processes.stop("ours", home=home)
    assert alive(other.pid)


def test_stop_ends_descendants_in_sessions_of_their_own(home: Path) -> None:
    """As Airflow's tasks are: a grandchild that left the session and ignores TERM is ended."""
    pid_file = home / "grandchild"
    grandchild = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.1; done"
    program = (
        "import subprocess, time\n"
        f"subprocess.Popen(['sh', '-c', {grandchild!r}], start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    processes.start("parent", [sys.executable, "-c", program], home=home)
    pid = int(wait_for(pid_file))

    assert processes.stop("parent", home=home)
    assert not alive(pid)


def test_stop_kills_a_process_that_ignores_sigterm(home: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    deaf = processes.start("deaf", ["sh", "-c", script], home=home)
    wait_for(deaf.log)
    assert processes.stop("deaf", home=home, timeout=0.3)
    assert not alive(deaf.pid)


def test_a_paused_process_may_end_in_its_own_way(home: Path) -> None:
    """A stopped process receives SIGTERM only when it continues."""
    script = "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.1; done"
    paused = processes.start("paused", ["sh", "-c", script], home=home)
    wait_for(paused.log)
    assert processes.send(paused, signal.SIGSTOP)
    assert processes.stop("paused", home=home)
    assert paused.log.read_text() == "ready\nbye\n"


def test_a_killed_process_is_not_found_and_can_be_started_again(home: Path) -> None:
    first = processes.start("sleeper", ["sleep", "60"], home=home)
    assert processes.send(first, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while processes.find("sleeper", home=home) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes.find("sleeper", home=home) is None
    assert not processes.send(first, signal.SIGTERM)
    assert processes.start("sleeper", ["sleep", "60"], home=home).pid != first.pid


def test_a_process_lives_until_its_last_thread_has_ended(home: Path) -> None:
    """Until then it has its ports, and the next start would have to take others."""
    program = [sys.executable, "-c", WITHOUT_FIRST_THREAD]
    started = processes.start("threads", program, home=home)
    port = int(wait_for(started.log))
    wait_for_zombie(started.pid)
    assert not ports.is_free(port)
    assert processes.find("threads", home=home) == started
    assert processes.stop("threads", home=home, timeout=0.1)
    assert ports.is_free(port)
    assert processes.find("threads", home=home) is None


def test_free_ports_stay_out_of_the_way_of_outgoing_connections() -> None:
    assert all(port < 32_768 for port in (ports.free_port() for _ in range(5)))


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that gets several may not have started when the next one is chosen."""
    monkeypatch.setattr(ports, "PORTS", range(31_000, 31_040))
    given = [ports.free_port(kept=[31_005]) for _ in range(20)]
    assert len(set(given)) == 20
    assert 31_005 not in given
