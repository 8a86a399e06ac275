"""The demo and what follows it, on a real scheduler: killed, wiped and run again."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support import concurrent_runs, oracle_client, process_list, topic_reader
from support.cli_user import TIDEGATE
from support.doc_pages import PROJECT, fenced, page
from tidegate_local import airflow, kafka, processes, stack
from tidegate_local.airflow_api import AirflowApi, AirflowRefused

DAG = "tidegate__flights"
VARIABLE = "tidegate__flights__flights"
FLIGHTS = 336_776
# Ends a demo that hangs: one takes 193 s alone on two slow cores, and twice that beside others.
DEMO_SECONDS = 800
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with the project's pipelines."""
    home = tmp_path_factory.mktemp("demo")
    shutil.copytree(PROJECT / "include/pipelines", home / "pipelines")
    yield home
    stack.down(home)


@pytest.fixture
def flights(home: Path) -> Path:
    """The home, with the demo's flights in its lake and in the topic "flights-back"."""
    if not (home / "lake/flights").exists():
        demo(home)
    return home


def demo(home: Path) -> str:
    done = subprocess.run(
        [str(TIDEGATE), "demo"],
        env=concurrent_runs.environment(home),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def data(home: Path) -> dict[str, int]:
    """Return the lake's data files and ledger entries, with their inodes: never written again."""
    lake = home / "lake/flights"
    files = [*lake.rglob("data/**/*.parquet"), *lake.glob("_tidegate/log/*.json")]
    return {str(path.relative_to(lake)): path.stat().st_ino for path in files}


def api(home: Path) -> AirflowApi:
    known = stack.read(home)
    assert known is not None
    return known.api(home)


def agree(home: Path) -> None:
    known = stack.read(home)
    assert known is not None
    report = oracle_client.agree(known.kafka, home / "lake", "flights", ["flights"])
    assert report["lake"] == FLIGHTS


def assert_moved(home: Path, told: str) -> None:
    """Assert that every flight is there once, by count and by the oracle, and that XCom, Variable
    and asset event hold what the contract says.
    """
    assert "336,776 rows = 336,776 distinct (partition, offset)" in told
    assert "336,776 records in topic 'flights-back', equal to those in 'flights'" in told
    agree(home)
    back = api(home).xcom("tidegate__flights_back", "demo-1", "publish", "report")
    assert (back["rows"], back["duplicates"]) == (FLIGHTS, 0)
    ends = api(home).variable("tidegate__flights_back__flights-back")
    assert json.loads(ends or "") == {
        "flights-back": {"0": 78543, "1": 86969, "2": 86054, "3": 85210}
    }
    end = {"flights": {"0": 78543, "1": 86969, "2": 86054, "3": 85210}}
    assert json.loads(api(home).variable(VARIABLE) or "") == end
    plan = api(home).xcom(DAG, "demo-1", "plan", "plan")
    assert set(plan) == {"pipeline", "run_key", "generation", "plan_id", "uri"}
    starts = api(home).xcom(DAG, "demo-1", "plan", "startingOffsets")
    assert starts == {"flights": {"0": 0, "1": 0, "2": 0, "3": 0}}  # Airflow's API parses it
    # December may have been taken by a scheduled run that came first.
    runs = [run["dag_run_id"] for run in api(home).runs(DAG)]
    assert end in [api(home).xcom(DAG, run, "publish", "offsets") for run in runs]
    reports = {run: api(home).xcom(DAG, run, "publish", "report") for run in runs}
    assert sum(report["rows"] for report in reports.values() if report) == FLIGHTS
    report = reports["demo-1"]
    link = f"tidegate/report/flights/{report['run_key']}/{report['generation']}"
    for task in ("plan", "stage", "publish", "verdict"):
        assert api(home).xcom(DAG, "demo-1", task, "_link_ReportLink") == link
    kept = home / "lake/flights/_tidegate/reports" / report["run_key"] / "1.json"
    assert json.loads(kept.read_text())["rows"] == report["rows"]


def test_demo(home: Path) -> None:
    assert_moved(home, demo(home))


@pytest.mark.slow
def test_demo_killed_half_way_and_run_again(tmp_path: Path) -> None:
    """Killed with rows staged and not yet committed, then run again: every flight once."""
    home = tmp_path / "home"
    shutil.copytree(PROJECT / "include/pipelines", home / "pipelines")
    said = home / "said"
    try:
        with said.open("w") as output:
            killed = subprocess.Popen(
                [str(TIDEGATE), "demo"],
                env=concurrent_runs.environment(home),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        until = time.monotonic() + 200
        while not list(home.glob("lake/flights/_tidegate/staging/**/*.parquet")):
            assert killed.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.2)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        scheduler = processes.find("scheduler", home=home)
        assert scheduler is not None
        dying = psutil.Process(scheduler.pid)
        processes.send(scheduler, signal.SIGKILL)
        dying.wait(30)  # on busy CPUs its end takes seconds, and until then it counts as alive
        assert_moved(home, demo(home))
    finally:
        stack.down(home)


@pytest.mark.slow
def test_a_second_demo_finds_nothing_new(flights: Path) -> None:
    """Nothing is loaded twice, no Spark runs, the lake is as it was."""
    before = data(flights)
    assert "nothing new" in demo(flights)
    assert data(flights) == before


def test_a_run_triggered_by_rest(flights: Path) -> None:
    """The requests of docs/how-to/own-kafka.md and past-data.md, with the demo's pipeline for
    the reader's.
    """
    (block,) = (each for each in fenced(page("docs/how-to/own-kafka.md"), "sh")
                if "curl" in each)  # fmt: skip
    (backfill,) = (each for each in fenced(page("docs/how-to/past-data.md"), "sh")
                   if "curl" in each)  # fmt: skip
    backfill = backfill.replace("03-01T", "03-08T")  # one interval
    requests = block[block.index("TOKEN=") :].replace("orders-1", "by-rest") + backfill
    known = stack.read(flights)
    assert known is not None
    addresses = {"AIRFLOW": known.airflow, "PASSWORD": airflow.password(flights), "NO_PROXY": "*"}
    done = subprocess.run(
        ["bash", "-ec", requests.replace("tidegate__orders", DAG)],
        cwd=PROJECT,
        env={**os.environ, **addresses},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"by-rest"' in done.stdout
    runs = api(flights).runs(DAG)
    (backfilled,) = (run["dag_run_id"] for run in runs if run["run_type"] == "backfill")
    for run_id in ("by-rest", backfilled):
        assert api(flights).wait(DAG, run_id, timeout=120)["state"] == "success"


def test_nothing_listens_beyond_the_loopback_address(flights: Path) -> None:
    """No process of the stack can be reached from another machine."""
    connections = []
    for process in process_list.of_stack(flights):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            connections += process.net_connections(kind="inet")
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_secrets_are_for_their_owner_only(flights: Path) -> None:
    """Each file with a secret is private, should the home be opened."""
    for name in ("keys.json", "passwords.json"):
        assert (flights / "airflow" / name).stat().st_mode & 0o777 == 0o600
    assert (flights / "postgres" / "socket").resolve().stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_window_is_sent_again_by_the_form(flights: Path) -> None:
    """An egress pipeline's replay: `send` runs and `stage` is skipped; the same id in another run
    sends nothing; a dry run does nothing at all.
    """
    airflow, dag = api(flights), "tidegate_replay"
    where = "get_json_object(cast(value as string), '$.carrier') = 'UA'"
    window = {"pipeline": "flights_back", "partitions": [1, 2], "start": "1000", "end": "3000",
              "replay_id": "ua", "where": where}  # fmt: skip
    before = data(flights)
    with pytest.raises(AirflowRefused, match="replay_id"):
        airflow.trigger(dag, "bad", conf={**window, "replay_id": "../ua"})
    airflow.trigger(dag, "first", conf=window)
    airflow.trigger(dag, "dry", conf={**window, "replay_id": "other", "dry_run": True})
    airflow.unpause(dag)
    assert airflow.wait(dag, "first", timeout=180)["state"] == "success"
    airflow.trigger(dag, "again", conf=window)
    for run_id in ("dry", "again"):
        assert airflow.wait(dag, run_id, timeout=180)["state"] == "success"

    def states(run_id: str) -> dict[str, str]:
        return {task["task_id"]: task["state"] for task in airflow.tasks(dag, run_id)}

    done = {"plan": "success", "stage": "skipped", "send": "success", "publish": "success",
            "verdict": "success"}  # fmt: skip
    assert states("first") == states("again") == done
    nothing = dict.fromkeys(("stage", "send", "publish", "verdict"), "skipped")
    assert states("dry") == {"plan": "success", **nothing}
    report = airflow.xcom(dag, "first", "publish", "report")
    assert airflow.xcom(dag, "again", "publish", "report") == {**report, "run": "again"}
    known = stack.read(flights)
    assert known is not None
    there = [
        (each.partition, each.offset, each.content)
        for each in topic_reader.read(known.kafka, "flights")
        if each.partition in (1, 2)
        and 1_000 <= each.offset < 3_000
        and json.loads(each.value or b"")["carrier"] == "UA"
    ]
    assert there
    here = [
        (each.partition, each.row[1], each.content)
        for each in topic_reader.read(known.kafka, "flights-back")
        if each.plan == report["plan_id"]
    ]
    assert here == there
    assert (report["rows"], report["duplicates"]) == (len(there), 0)
    assert data(flights) == before


@pytest.mark.slow
def test_airflows_database_and_variables_are_lost(flights: Path) -> None:
    """Between two runs the whole database goes. From a terminal, without a run, `reconcile` brings
    every Variable back: the ingest's cursors, the ends of what the egress wrote. A Variable that is
    lost alone is written by the next run; the lake stays as it is (invariant 5).
    """
    before = data(flights)
    stack.down(flights)
    shutil.rmtree(flights / "postgres")
    airflow, _ = concurrent_runs.up(flights)
    assert airflow.variable(VARIABLE) is None
    done = subprocess.run(
        [str(TIDEGATE), "reconcile", "--json"],
        env=concurrent_runs.environment(flights),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["pipelines"]
    mended = {v["name"]: (v["state"], v["mended"]) for each in found for v in each["variables"]}
    back = "tidegate__flights_back__flights-back"
    assert mended == {VARIABLE: ("missing", True), back: ("missing", True)}
    assert json.loads(airflow.variable(VARIABLE) or "")["flights"]["0"] == 78543
    assert json.loads(airflow.variable(back) or "")["flights-back"]["0"] == 78543
    airflow._call("DELETE", f"/api/v2/variables/{VARIABLE}", without={204})
    assert airflow.variable(VARIABLE) is None
    airflow.trigger(DAG, "after-the-loss")
    airflow.unpause(DAG)
    run = airflow.wait(DAG, "after-the-loss", timeout=120)
    assert run["state"] == "success"
    states = {task["task_id"]: task["state"] for task in airflow.tasks(DAG, "after-the-loss")}
    assert states == {
        "plan": "success",
        "stage": "skipped",
        "publish": "skipped",
        "verdict": "success",
    }
    assert json.loads(airflow.variable(VARIABLE) or "")["flights"]["0"] == 78543
    assert data(flights) == before
    agree(flights)


def test_down_leaves_nothing_running(flights: Path) -> None:
    """What `up` started is ended, Kafka too."""
    assert len(process_list.of_stack(flights)) > 5
    stack.down(flights)
    assert process_list.of_stack(flights) == []
    assert kafka.find(flights / "kafka") is None
    assert not [name for name, s in stack.status(flights)["services"].items() if s["pid"]]
