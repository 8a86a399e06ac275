"""The local stack as users start it: real Kafka, Postgres and Airflow, killed and restarted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from support import process_list
from tidegate_local import processes, stack
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.health import DagsBroken

DAG = "tidegate__probe"
SLEEP = ["sleep", f"7777.{os.getpid()}"]  # unique, so that parallel test runs do not count it
DAGS = f'''
"""An airflow dag with a task that leaves its process group, as Spark does."""
import subprocess
from airflow.sdk import Variable, dag, task

@dag(dag_id="tidegate__probe", schedule=None)
def probe():
    @task
    def first():
        Variable.set("seen", "yes")
        return {{"0": 1}}

    @task
    def long(_):
        subprocess.run(["setsid", *{SLEEP}], check=True)

    long(first())

probe()
'''


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dags")
    (folder / "probe.py").write_text(DAGS)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    # Too long for a Unix socket, and with characters that must be escaped in settings and URLs.
    home = tmp_path_factory.mktemp("local") / f"{'long' * 20} a,b%40"
    yield home
    stack.down(home)


@pytest.fixture(scope="module")
def up(home: Path, dags: Path) -> Callable[[], list[str]]:
    def up() -> list[str]:
        said: list[str] = []
        stack.up(home, say=said.append, dags=dags, expected=[DAG])
        return said

    return up


@pytest.fixture
def api(home: Path, up: Callable[[], list[str]]) -> AirflowApi:
    up()
    running = stack.read(home)
    assert running is not None
    return running.api(home)


def sleepers() -> set[int]:
    running = psutil.process_iter(["cmdline"])
    return {process.pid for process in running if process.info["cmdline"] == SLEEP}


def until(what: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_a_named_port_that_is_taken_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of one line names the port; no process is started and no data is created."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("TIDEGATE_KAFKA_PORT", str(port))
        with pytest.raises(stack.PortTaken, match=str(port)):
            stack.up(tmp_path / "home", say=print)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["lock"]


@pytest.mark.slow
def test_two_ups_at_once_make_one_stack(home: Path, dags: Path) -> None:
    """Without a stack, a second `up` waits for the first, then starts nothing."""
    script = (
        "import sys; from pathlib import Path; from tidegate_local import stack;"
        f"stack.up(Path(sys.argv[1]), say=print, dags=Path(sys.argv[2]), expected=[{DAG!r}])"
    )
    argv = [sys.executable, "-c", script, str(home), str(dags)]
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=120)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert sum("already up" in each for each in said) == 1
    assert sum("waiting for another" in each for each in said) == 1


@pytest.mark.slow
def test_up_brings_everything_and_a_second_up_finds_it(
    home: Path, up: Callable[[], list[str]]
) -> None:
    """`up` ends healthy, with the DAG; the next one reports this at once and starts nothing."""
    up()
    before = stack.status(home)
    assert before["up"], before
    assert before["dags"] == [DAG]
    began = time.monotonic()
    assert "already up" in up()[-1]
    assert time.monotonic() - began < 8  # a start takes three times as long
    assert stack.status(home) == before


@pytest.mark.slow
def test_the_home_is_for_its_owner_only(home: Path, api: AirflowApi) -> None:
    """`up` makes the home directory private."""
    assert api.dags()
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_killed_scheduler_is_restarted_and_its_task_does_not_run_twice(
    home: Path, up: Callable[[], list[str]], api: AirflowApi
) -> None:
    """SIGKILL to the scheduler orphans its task; `up` ends the orphan and the task is retried."""
    assert api.trigger(DAG, "one")
    assert not api.trigger(DAG, "one")
    api.unpause(DAG)
    until(sleepers)
    orphans = sleepers()
    assert api.xcom(DAG, "one", "first", "return_value") == {"0": 1}
    assert api.variable("seen") == "yes"
    assert api.variable("unseen") is None

    scheduler = processes.find("scheduler", home=home)
    assert scheduler is not None
    processes.send(scheduler, signal.SIGKILL)
    until(lambda: not stack.status(home)["services"]["scheduler"]["healthy"])
    assert sleepers() == orphans
    up()
    assert stack.status(home)["up"]
    until(lambda: sleepers() - orphans)
    assert not sleepers() & orphans
    tasks = {task["task_id"]: task for task in api.tasks(DAG, "one")}
    assert (tasks["long"]["state"], tasks["long"]["try_number"]) == ("running", 2)


@pytest.mark.slow
def test_a_killed_database_and_broker_are_restarted(
    home: Path, up: Callable[[], list[str]], api: AirflowApi
) -> None:
    """SIGKILL to Postgres and Kafka: `up` restarts both with their data."""
    for name, place in (("postgres", home), ("kafka", home / "kafka")):
        process = processes.find(name, home=place)
        assert process is not None
        processes.send(process, signal.SIGKILL)
        until(lambda name=name, place=place: not processes.find(name, home=place))
    up()
    assert stack.status(home)["up"]
    assert api.variable("seen") == "yes"


@pytest.mark.slow
def test_a_broken_dag_file_is_named(
    dags: Path, up: Callable[[], list[str]], api: AirflowApi
) -> None:
    """`up` fails if a DAG file cannot be parsed, naming the file and the error."""
    broken = dags / "broken.py"
    broken.write_text('"""An airflow dag."""\nimport no_such_library\n')
    try:
        until(api.import_errors)
        with pytest.raises(DagsBroken, match=r"broken\.py(.|\n)*no_such_library"):
            up()
    finally:
        broken.unlink()
    until(lambda: not api.import_errors())


@pytest.mark.slow
def test_down_leaves_no_process(home: Path, api: AirflowApi) -> None:
    """`down` ends all processes that `up` or tasks started."""
    assert api.variable("seen") == "yes"
    until(sleepers, 120)  # Airflow starts the task again that lost its database
    assert len(process_list.of_stack(home)) > 5
    assert stack.down(home)
    assert process_list.of_stack(home) == []
    assert not sleepers()
    assert not stack.down(home)
    assert not stack.status(home)["up"]
