"""When a sender counts as dead: only by proof, and its Spark driver with it. Real processes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from support.process_list import WITHOUT_FIRST_THREAD, wait_for_zombie
from tidegate.egress import sender
from tidegate.egress.sender import hold_attempt, is_alive, is_dead, is_dead_here, sender_identity

ATTEMPT = f"{os.getpid():016x}-of-a-test"  # another run of these tests must not see ours
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def never(_: Mapping[str, Any]) -> bool:
    raise AssertionError("Airflow is not asked")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as started:
        yield started
        started.kill()


def sender_of(pid: int, **others: Any) -> dict[str, Any]:
    return {**sender_identity(None), "pid": pid, "started": sender.start_time(pid), **others}


def test_we_live_until_we_give_an_attempt_up() -> None:
    """A program may call `tidegate.run` again; a driver that is left still counts."""
    with hold_attempt() as attempt:
        assert not is_dead(sender_identity(None), attempt, never, patience=0)
        assert not is_dead_here(sender_identity(None), attempt)
        assert sender_identity({"try": 1})["task"] == {"try": 1}
        driver = subprocess.Popen([*SLEEP, attempt])
        named = Path(f"/proc/{driver.pid}/cmdline")
        while not named.read_bytes():  # it has begun, and the kernel has not set its arguments yet
            time.sleep(0.01)
    with driver:
        assert not is_dead(sender_identity(None), attempt, never, patience=0)
        driver.kill()
    assert is_dead(sender_identity(None), attempt, never, patience=0)


def test_what_another_process_holds_is_not_ours() -> None:
    """A fork copies what this process holds."""
    with hold_attempt() as attempt:
        claimed = sender_identity(None)
        if (pid := os.fork()) == 0:
            with hold_attempt():
                sender.held_attempts.clear()
                os._exit(not is_dead(claimed, attempt, never, patience=0))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_another_process_lives_until_it_is_killed(process: subprocess.Popen[bytes]) -> None:
    """Also while it is stopped; a zombie process is dead."""
    claimed = sender_of(process.pid)
    assert not is_dead(claimed, ATTEMPT, never, patience=0)
    process.send_signal(signal.SIGSTOP)
    assert not is_dead(claimed, ATTEMPT, never, patience=0)
    process.kill()
    while sender.start_time(process.pid):
        time.sleep(0.01)
    assert is_dead(claimed, ATTEMPT, never, patience=0)
    process.wait()
    assert is_dead(claimed, ATTEMPT, never, patience=0)


def test_a_sender_lives_until_its_last_thread_has_ended() -> None:
    program = [sys.executable, "-c", WITHOUT_FIRST_THREAD]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline()
            claimed = sender_of(process.pid)
            wait_for_zombie(process.pid)
            assert not is_dead(claimed, ATTEMPT, never, patience=0)
        finally:
            process.kill()
        process.wait()
        assert is_dead(claimed, ATTEMPT, never, patience=0)


def test_a_pid_that_is_used_again_is_another_process(process: subprocess.Popen[bytes]) -> None:
    claimed = sender_of(process.pid)
    claimed["started"] -= 1
    assert is_dead(claimed, ATTEMPT, never, patience=0)


def test_where_processes_are_hidden_nothing_is_proven_by_looking(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes]
) -> None:
    """A /proc that hides other users' processes shows a living sender as gone."""
    claimed = sender_of(process.pid)
    monkeypatch.setattr(sender, "start_time", lambda _: None)
    assert is_dead(claimed, ATTEMPT, never, patience=0)
    monkeypatch.setattr(sender, "sees_all_processes", lambda: False)
    assert not is_dead(claimed, ATTEMPT, never, patience=0)
    assert is_dead({**claimed, "task": {}}, ATTEMPT, lambda _: True, patience=0)


def test_a_process_that_may_not_be_looked_at_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes]
) -> None:
    """With hidepid=1 a process of another user is listed, and cannot be read: it is neither seen
    alive nor proven dead, and Airflow is asked. Nothing is raised.
    """
    claimed = sender_of(process.pid)
    read = Path.read_text

    def refuses(path: Path, *args: Any, **kwargs: Any) -> str:
        if str(path) == f"/proc/{process.pid}/stat":
            raise PermissionError(1, "Operation not permitted")
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuses)
    assert not is_alive(claimed, ATTEMPT)
    assert not is_dead(claimed, ATTEMPT, never, patience=0)
    for over in (True, False):
        airflow = mock.Mock(return_value=over)
        assert is_dead({**claimed, "task": {"try": 1}}, ATTEMPT, airflow, patience=0) is over
        airflow.assert_called_once_with({"try": 1})


@pytest.mark.parametrize("hides", [1, 2])
@pytest.mark.parametrize("first", ["root", "nobody"])
def test_a_proc_that_hides_processes(hides: int, first: str) -> None:
    """A real /proc with hidepid, a sender of another user, and pid 1 of another user or our own:
    the living sender is not taken for dead.
    """
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.geteuid() != 0 or python is None:
        pytest.skip("another user's processes can be made by root only")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sender as s\n"
        "pid, started = map(int, sys.argv[2:4])\n"
        "claimed = {**s.sender_identity(None), 'pid': pid, 'started': started}\n"
        "print(s.is_alive(claimed, 'y' * 16), s.is_dead(claimed, 'y' * 16, print, patience=0))"
    )
    nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    look = f'{python} -c "$2" "$1" $sender $started'
    shell = (
        "mount -t proc proc /proc; sleep 60 & sender=$!; "
        "started=$(cut -d' ' -f22 /proc/$sender/stat); "
        f"mount -o remount,hidepid={hides} /proc; "
        + (f"{nobody} {look}; kill $sender" if first == "root" else f"exec {nobody} {look}")
    )
    # A copy that any user may read.
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        shutil.copy(sender.__file__, open_to_all)
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", shell, "sh", open_to_all, script],
            capture_output=True,
            text=True,
            check=False,
        )
    if "not permitted" in done.stderr and "Traceback" not in done.stderr:
        pytest.skip("namespaces may not be made here")
    assert done.stdout == "False False\n", done.stderr


def test_a_driver_outlives_its_parent_a_little() -> None:
    """Whoever names the attempt in its command line may still send: it is waited for."""
    gone = sender_of(1, started=-1)
    with subprocess.Popen([*SLEEP, f"/tmp/{ATTEMPT}/job.json"]) as driver:
        while str(ATTEMPT) not in open(f"/proc/{driver.pid}/cmdline").read():  # noqa: PTH123, SIM115
            time.sleep(0.01)
        assert not is_dead(gone, ATTEMPT, never, patience=0.3)
        assert is_dead(gone, "another attempt", never, patience=0)
        driver.kill()
        assert is_dead(gone, ATTEMPT, never, patience=5)


def test_alive_is_what_can_be_seen(process: subprocess.Popen[bytes]) -> None:
    """The process of a claim, or the driver of its attempt, on this machine, since this boot and in
    this container. What is elsewhere is neither proven alive nor dead.
    """
    claimed, gone = sender_of(process.pid), sender_of(1, started=-1)
    assert is_alive(claimed, ATTEMPT)
    assert not is_alive({**claimed, "started": claimed["started"] - 1}, ATTEMPT)
    for elsewhere in ({"host": "h"}, {"boot": "b"}, {"machine": "m"}, {"processes": "pid:[7]"}):
        assert not is_alive({**claimed, **elsewhere}, ATTEMPT)
    assert not is_alive(gone, ATTEMPT)
    with subprocess.Popen([*SLEEP, f"/tmp/{ATTEMPT}/job.json"]) as driver:
        while not is_alive(gone, ATTEMPT):
            time.sleep(0.01)
        driver.kill()


@pytest.mark.parametrize(
    ("task", "answer", "dead"),
    [
        (None, True, False),
        ({"task": "send", "try": 1}, True, True),
        ({"task": "send", "try": 1}, False, False),
    ],
)
def test_on_another_machine_or_in_a_container_only_airflow_can_tell(
    task: Any, answer: bool, dead: bool
) -> None:
    """Without a task Airflow cannot tell: an operator must release the claim."""
    for elsewhere in ({"boot": "other"}, {"host": "h", "machine": "m"}, {"processes": "pid:[7]"}):
        claimed = {**sender_identity(task), **elsewhere, "pid": os.getpid() + 1}
        found = is_dead(claimed, ATTEMPT, lambda asked: asked == task and answer, patience=0)
        assert found is dead
