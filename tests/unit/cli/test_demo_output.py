"""What `tidegate demo` prints: on a terminal of 80 columns, and in a pipe; all numbers made up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import printed
from tidegate.cli import main
from tidegate_local import demo, flights, stack, topic_digest
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.home import default_home

DAG, BACK = demo.DAG, demo.BACK
RANGES = {"demo-1": (0, 77_100), "demo-2": (77_100, 84_194)}
CARRIERS = [
    ("UA", 58_665, 12.106), ("B6", 54_635, 13.02), ("EV", 54_173, 19.95), ("DL", 48_110, 9.26),
    ("OO", 32, 12.58),
]  # fmt: skip

FIRST = """\
  309,704 flights sent
January to November in topic 'flights' (0.5 s)
  demo-1: stage running
run demo-1 of tidegate__flights (0.5 s)
  27,072 flights sent
December in topic 'flights' (0.5 s)
  demo-2: stage running
run demo-2 of tidegate__flights (0.5 s)
the lake, counted by DuckDB (0.5 s)
  demo-1: stage running
run demo-1 of tidegate__flights_back (0.5 s)
topics 'flights' and 'flights-back', compared by another client (0.5 s)

steps
     0.5 s  the stack
     0.5 s  January to November in topic 'flights'
     0.5 s  run demo-1 of tidegate__flights
     0.5 s  December in topic 'flights'
     0.5 s  run demo-2 of tidegate__flights
     0.5 s  the lake, counted by DuckDB
     0.5 s  run demo-1 of tidegate__flights_back
     0.5 s  topics 'flights' and 'flights-back', compared by another client
     8.0 s  all of it

runs of tidegate__flights
  demo-1: 77,100 rows, 12.3 s
    partition 0: [0, 77,100)
  demo-2: 7,094 rows, 12.3 s
    partition 0: [77,100, 84,194)

336,776 rows = 336,776 distinct (partition, offset)

flights and mean departure delay, in minutes, of each carrier, by SQL:
TIDEGATE_HOME=%s .venv/bin/tidegate sql flights 'SELECT carrier, count(*) AS flights, \
avg(dep_delay) AS delay FROM flights GROUP BY carrier ORDER BY flights DESC, carrier'
  UA  58,665  12.1    B6  54,635  13.0    EV  54,173  19.9    DL  48,110   9.3
  OO      32  12.6

"""
AGAIN = """\
  all there already
January to November in topic 'flights' (0.5 s)
run demo-1 of tidegate__flights was successful before
  all there already
December in topic 'flights' (0.5 s)
run demo-2 of tidegate__flights was successful before
  demo-3: stage running
run demo-3 of tidegate__flights (0.5 s)
nothing new: run demo-3 found every offset in the lake already
the lake, counted by DuckDB (0.5 s)
run demo-1 of tidegate__flights_back was successful before
topics 'flights' and 'flights-back', compared by another client (0.5 s)

steps
     0.5 s  the stack
     0.5 s  January to November in topic 'flights'
     0.5 s  December in topic 'flights'
     0.5 s  run demo-3 of tidegate__flights
     0.5 s  the lake, counted by DuckDB
     0.5 s  topics 'flights' and 'flights-back', compared by another client
     6.0 s  all of it

runs of tidegate__flights
  demo-1: 77,100 rows, 12.3 s
    partition 0: [0, 77,100)
  demo-2: 7,094 rows, 12.3 s
    partition 0: [77,100, 84,194)
  demo-3: nothing new, 12.3 s

"""
ADDRESSES = """\
Variable tidegate__flights__flights = {"0": 84194}
Airflow  http://127.0.0.1:8080  login admin / secret
Lake     /data/[b]/lake
Logs     %s/logs
"""
EQUAL = """\
Way back 336,776 records in topic 'flights-back', equal to those in 'flights'
Stop     TIDEGATE_HOME=%s .venv/bin/tidegate local down
Start    TIDEGATE_HOME=%s .venv/bin/tidegate local up
"""


class MadeUpAirflow(AirflowApi):
    """An Airflow in which every run succeeds, but those that are said to fail."""

    url = "http://127.0.0.1:8080"

    def __init__(self) -> None:
        self.states: dict[tuple[str, str], str] = {}
        self.fails = False

    def run(self, dag: str, run_id: str) -> dict[str, Any] | None:
        state = self.states.get((dag, run_id))
        return {"dag_run_id": run_id, "state": state, "duration": 12.3} if state else None

    def runs(self, dag: str) -> list[dict[str, Any]]:
        return [self.run(dag, run_id) or {} for of, run_id in self.states if of == dag]

    def trigger(self, dag: str, run_id: str, **_: Any) -> bool:
        is_new = (dag, run_id) not in self.states
        self.states.setdefault((dag, run_id), "queued")
        return is_new

    def wait(
        self, dag: str, run_id: str, *, on_change: Callable[[dict[str, str]], None], **_: Any
    ) -> dict[str, Any]:
        on_change({"plan": "success", "stage": "running", "publish": "none"})
        self.states[dag, run_id] = "failed" if self.fails else "success"
        return self.run(dag, run_id) or {}

    def clear(self, *_: str) -> None: ...
    def unpause(self, _: str) -> None: ...

    def xcom(self, _: str, run_id: str, task: str, key: str) -> Any:
        start, end = RANGES.get(run_id, (0, 0))
        if task == "publish":
            return {"rows": end - start}
        return {"flights": {"0": start if key == "startingOffsets" else end}}

    def variable(self, _: str) -> str:
        return '{"0": 84194}'

    def tasks(self, *_: str) -> list[dict[str, Any]]:
        return [
            {"task_id": "plan", "state": "success", "try_number": 1},
            {"task_id": "stage", "state": "failed", "try_number": 3},
        ]

    def log(self, *_: Any) -> list[str]:
        return ["BrokerUnreachable: no answer from [b]:9092", "exit code 75"]


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> MadeUpAirflow:
    """A stack with Kafka and a lake that are not asked: a load sends what no run has read."""
    found = MadeUpAirflow()
    seconds = count(0.0, 0.5)
    loads = {range(1, 12): 309_704, range(12, 13): 27_072}
    addresses = stack.Stack("127.0.0.1:9092", found.url, "/data/[b]/lake")
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(stack, "up", lambda *_, **__: addresses)
    monkeypatch.setattr(stack.Stack, "api", lambda *_: found)
    monkeypatch.setattr("tidegate_local.airflow.password", lambda _: "secret")
    monkeypatch.setattr(flights, "load", lambda *_, months, **__: loads.pop(months, 0))
    monkeypatch.setattr(demo, "count_rows", lambda _: (demo.FLIGHTS, demo.FLIGHTS, CARRIERS))
    monkeypatch.setattr(
        topic_digest, "read_all", lambda *_: [topic_digest.TopicDigest(demo.FLIGHTS, {0: "a"})] * 2
    )
    return found


@pytest.fixture(params=["terminal", "pipe"])
def run_demo(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[], tuple[int, str, str]]:
    """Run `tidegate demo`; return its exit code, stdout and stderr."""
    printed.on(request.param, monkeypatch)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["tidegate", "demo"])

    def run() -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


RunDemo = Callable[[], tuple[int, str, str]]


def test_first_and_again(run_demo: RunDemo, airflow: MadeUpAirflow, tmp_path: Path) -> None:
    """Each step with its seconds, then the result; the second time says that nothing is new."""
    addresses, equal = ADDRESSES % tmp_path, EQUAL % (tmp_path, tmp_path)
    first = FIRST % tmp_path
    assert run_demo() == (0, first + addresses + equal, "")
    result = first[first.index("336,776 rows") :]
    assert run_demo() == (0, AGAIN + result + addresses + equal, "")


def test_a_failed_run(run_demo: RunDemo, airflow: MadeUpAirflow, tmp_path: Path) -> None:
    """The task that failed, its last lines, its log and what to do; the next demo retries it."""
    airflow.fails = True
    steps = FIRST.splitlines(keepends=True)
    log = tmp_path / f"logs/airflow/dag_id={DAG}/run_id=demo-1/task_id=stage/attempt=3.log"
    error = f"""\
RunFailed: run demo-1 of {DAG} failed; see {airflow.url}/dags/{DAG}/runs/demo-1
task stage, try 3, ended with:
  BrokerUnreachable: no answer from [b]:9092
  exit code 75
  (all of it: {log})
run the demo again to try these tasks again
"""
    assert run_demo() == (3, "".join(steps[:4]), error)
    airflow.fails = False
    code, out, _ = run_demo()
    assert code == 0
    assert f"run demo-1 had failed: its failed tasks run again\n{''.join(steps[2:4])}" in out


def test_a_lake_that_is_not_the_year(
    run_demo: RunDemo, airflow: MadeUpAirflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is printed all the same, then the difference."""
    monkeypatch.setattr(demo, "count_rows", lambda _: (demo.FLIGHTS + 4, demo.FLIGHTS, CARRIERS))
    result = (FIRST % tmp_path).replace("336,776 rows =", "336,780 rows, but")
    error = (
        "Difference: /data/[b]/lake holds 336,780 rows, 336,776 distinct (partition, offset), and "
        "not the 336,776 flights: is TIDEGATE_LAKE another lake than before?\n"
    )
    assert run_demo() == (3, result + ADDRESSES % tmp_path + EQUAL % (tmp_path, tmp_path), error)


def test_topics_that_differ(
    run_demo: RunDemo, airflow: MadeUpAirflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both counts, and what may be the cause."""
    found = [topic_digest.TopicDigest(demo.FLIGHTS, {0: digest}) for digest in ("a", "b")]
    monkeypatch.setattr(topic_digest, "read_all", lambda *_: found)
    error = (
        "Difference: topics 'flights' (336,776 records) and 'flights-back' (336,776) differ: did "
        "something else write to one of them?\n"
    )
    result = (
        FIRST % tmp_path
        + ADDRESSES % tmp_path
        + EQUAL.replace("equal", "NOT equal") % (tmp_path, tmp_path)
    )
    assert run_demo() == (3, result, error)


def test_an_interrupted_demo(
    run_demo: RunDemo, airflow: MadeUpAirflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Says how to go on, and how to stop what it has started."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(airflow, "wait", interrupt)
    code, out, err = run_demo()
    last = f"""\
interrupted: run it again to go on; what runs is stopped by
  TIDEGATE_HOME={tmp_path} .venv/bin/tidegate local down
"""
    assert (code, out.endswith(last), err) == (130, True, "")
    monkeypatch.delenv("TIDEGATE_HOME")
    assert demo._command(default_home(), "local down") == ".venv/bin/tidegate local down"
    in_bucket = demo._command(default_home("s3"), "local down")
    assert in_bucket == f"TIDEGATE_HOME={default_home('s3')} .venv/bin/tidegate local down"
