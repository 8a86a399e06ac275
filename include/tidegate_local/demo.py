"""The demo: a year of flights in two loads from Kafka to the lake, and back to another topic.

Every step first checks what is done already, so a killed demo is simply run again.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import api
from tidegate.errors import ConfigurationError, Difference, TidegateError
from tidegate.launch.file_lock import hold_lock
from tidegate.pipelines import pipeline_files
from tidegate_local import airflow, buckets, flights, stack, topic_digest
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.home import default_home
from tidegate_local.stack import Say, Stack

DAG = "tidegate__flights"
TOPIC = "flights"
VARIABLE = f"{DAG}__{TOPIC}"
BACK, BACK_TOPIC = "tidegate__flights_back", "flights-back"
FLIGHTS = 336_776
_TIMEOUT = 300.0
_BY_CARRIER = (
    "SELECT carrier, count(*) AS flights, avg(dep_delay) AS delay FROM flights GROUP BY carrier"
    " ORDER BY flights DESC, carrier"
)
_LOADS = (("demo-1", "January to November", range(1, 12)), ("demo-2", "December", range(12, 13)))


class RunFailed(TidegateError):
    """A run of the demo's DAG failed. The message has the task, its last lines and its log."""


@dataclass
class Demo:
    """A running demo. `steps` are what was done, with the seconds that each took."""

    home: Path
    stack: Stack
    api: AirflowApi
    say: Say
    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps.append((what, time.monotonic() - began))
        self.say(f"{what} ({self.steps[-1][1]:.1f} s)")


def demo(home: Path, say: Say, *, store: str = "") -> None:
    """Run the demo and print its result. Difference if the lake is not the whole year."""
    home = home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Two demos at once would both send what the topic lacks.
    try:
        with hold_lock(home / "demo.lock", lambda: say("waiting for another demo to end")):
            show_result(home, say, store)
    except KeyboardInterrupt:
        say("interrupted: run it again to go on; what runs is stopped by")
        say(f"  {_command(home, 'local down')}")
        raise


def show_result(home: Path, say: Say, store: str) -> None:
    began = time.monotonic()
    up = stack.up(home, say=say, store=store)
    if "://" in up.lake and not up.store:
        raise ConfigurationError(
            f"the demo counts files on this machine: unset TIDEGATE_LAKE={up.lake}"
        )
    this = Demo(home, up, up.api(home), say)
    this.steps.append(("the stack", time.monotonic() - began))
    is_repeated = all(_state(this, DAG, run_id) == "success" for run_id, _, _ in _LOADS)
    for run_id, what, months in _LOADS:
        with this.step(f"{what} in topic {TOPIC!r}"):
            sent = flights.load(up.kafka, TOPIC, months=months, partitions=4)
            say(f"  {sent:,} flights sent" if sent else "  all there already")
        _complete_run(this, DAG, run_id)
    if is_repeated:
        _complete_run(this, DAG, another := _next_run(this))
        if not _planned_ranges(this.api, another):
            say(f"nothing new: run {another} found every offset in the lake already")
    with this.step("the lake, counted by DuckDB"):
        rows, distinct, carriers = count_rows(this)
    _complete_run(this, BACK, "demo-1")
    with this.step(f"topics {TOPIC!r} and {BACK_TOPIC!r}, compared by another client"):
        there, back = topic_digest.read_all(up.kafka, (TOPIC, BACK_TOPIC))
    for line in _result_lines(this, rows, distinct, carriers, seconds=time.monotonic() - began):
        say(line)
    equal = "equal to" if back == there else "NOT equal to"
    say(f"Way back {back.records:,} records in topic {BACK_TOPIC!r}, {equal} those in {TOPIC!r}")
    say(f"Stop     {_command(home, 'local down')}")
    say(f"Start    {_command(home, 'local up')}")
    if back != there:
        raise Difference(
            f"topics {TOPIC!r} ({there.records:,} records) and {BACK_TOPIC!r} ({back.records:,}) "
            "differ: did something else write to one of them?",
            there=there.records,
            back=back.records,
        )
    if (rows, distinct) != (FLIGHTS, FLIGHTS):
        raise Difference(
            f"{up.lake} holds {rows:,} rows, {distinct:,} distinct (partition, offset), and not"
            f" the {FLIGHTS:,} flights: is TIDEGATE_LAKE another lake than before?",
            rows=rows,
            distinct=distinct,
        )


def _state(this: Demo, dag: str, run_id: str) -> str | None:
    run = this.api.run(dag, run_id)
    return str(run["state"]) if run else None


def _next_run(this: Demo) -> str:
    """Return the first run id that is free, or of a run that a killed demo left unfinished."""
    number = len(_LOADS) + 1
    while _state(this, DAG, f"demo-{number}") == "success":
        number += 1
    return f"demo-{number}"


def _complete_run(this: Demo, dag: str, run_id: str) -> None:
    """Trigger a run, unless it exists, and wait for it. Its failed tasks are retried."""
    if _state(this, dag, run_id) == "success":
        this.say(f"run {run_id} of {dag} was successful before")
        return
    with this.step(f"run {run_id} of {dag}"):
        run = this.api.complete(
            dag,
            run_id,
            timeout=_TIMEOUT,
            on_retry=lambda: this.say(f"run {run_id} had failed: its failed tasks run again"),
            on_change=lambda tasks: _say_progress(this, run_id, tasks),
        )
    if run["state"] != "success":
        raise RunFailed(_failure_report(this, dag, run_id), run_id=run_id)


def _say_progress(this: Demo, run_id: str, tasks: dict[str, str]) -> None:
    quiet = ("none", "scheduled", "queued", "success")
    if busy := [f"{task} {state}" for task, state in tasks.items() if state not in quiet]:
        this.say(f"  {run_id}: {', '.join(busy)}")


def _failure_report(this: Demo, dag: str, run_id: str) -> str:
    lines = [f"run {run_id} of {dag} failed; see {this.api.url}/dags/{dag}/runs/{run_id}"]
    for task in this.api.tasks(dag, run_id):
        if task["state"] == "failed":
            name, number = task["task_id"], task["try_number"]
            log = airflow.logs(this.home) / f"dag_id={dag}" / f"run_id={run_id}"
            lines.append(f"task {name}, try {number}, ended with:")
            lines += [f"  {line}" for line in this.api.log(dag, run_id, name, number)[-10:]]
            lines.append(f"  (all of it: {log / f'task_id={name}' / f'attempt={number}.log'})")
    return "\n".join([*lines, "run the demo again to try these tasks again"])


def count_rows(this: Demo) -> tuple[int, int, list[tuple[str, int, float]]]:
    """Return rows, distinct (partition, offset), and of each carrier, that with the most flights
    first, their number and their mean delay in minutes.
    """
    stack.use_store(this.home)
    environ = {**os.environ, "TIDEGATE_LAKE": this.stack.lake}
    spec = pipeline_files.load_spec(pipeline_files.pipelines_directory() / "flights.yaml", environ)
    with api.open_lake(spec).duckdb() as db:
        counted = db.execute(
            'SELECT count(*), count(DISTINCT (topic, partition, "offset")) FROM flights'
        ).fetchone()
        carriers = db.execute(_BY_CARRIER).fetchall()
    assert counted is not None
    return counted[0], counted[1], carriers


def _result_lines(
    this: Demo, rows: int, distinct: int, carriers: list[tuple[str, int, float]], *, seconds: float
) -> Iterator[str]:
    yield ""
    yield "steps"
    for what, took in this.steps:
        yield f"  {took:6.1f} s  {what}"
    yield f"  {seconds:6.1f} s  all of it"
    yield ""
    yield f"runs of {DAG}"
    for run in this.api.runs(DAG):
        yield from _run_lines(this.api, run)
    yield ""
    relation = " =" if rows == distinct else ", but"
    yield f"{rows:,} rows{relation} {distinct:,} distinct (partition, offset)"
    yield ""
    yield "flights and mean departure delay, in minutes, of each carrier, by SQL:"
    yield f"{_command(this.home, 'sql flights')} '{_BY_CARRIER}'"
    cells = [f"{carrier} {count:>7,} {delay:>5.1f}" for carrier, count, delay in carriers]
    yield from _in_columns(cells, columns=4)
    yield ""
    yield f"Variable {VARIABLE} = {this.api.variable(VARIABLE)}"
    yield f"Airflow  {this.stack.airflow}  login {airflow.USER} / {airflow.password(this.home)}"
    yield f"Lake     {this.stack.lake}"
    if server := buckets.find(this.home, this.stack.store):
        yield f"Store    {server.endpoint}  in {this.home / this.stack.store}"
    yield f"Logs     {this.home / 'logs'}"


def _command(home: Path, action: str) -> str:
    """Return the command for the stack of a home, from the directory of the project."""
    is_default = not os.environ.get("TIDEGATE_HOME") and home == default_home()
    own = "" if is_default else f"TIDEGATE_HOME={shlex.quote(str(home))} "
    return f"{own}.venv/bin/tidegate {action}"


def _run_lines(api: AirflowApi, run: dict[str, Any]) -> Iterator[str]:
    """Yield a run's rows, seconds and offset ranges, from its XComs."""
    run_id = run["dag_run_id"]
    if run["state"] != "success":
        yield f"  {run_id}: {run['state']}"
        return
    found = _planned_ranges(api, run_id)
    report = api.xcom(DAG, run_id, "publish", "report") or {}
    what = f"{report.get('rows', 0):,} rows" if found else "nothing new"
    if report.get("covered_by"):
        what += ", the rest was committed by another run meanwhile"
    yield f"  {run_id}: {what}, {run['duration']:.1f} s"
    for partition, (start, end) in found.items():
        yield f"    partition {partition}: [{start:,}, {end:,})"


def _planned_ranges(api: AirflowApi, run_id: str) -> dict[str, tuple[int, int]]:
    """Return the offset ranges that a run has planned, by partition. None if nothing was new."""
    starts, ends = (
        _offsets(api.xcom(DAG, run_id, "plan", key)) for key in ("startingOffsets", "endingOffsets")
    )
    ranges = {p: (starts[p], ends[p]) for p in sorted(ends, key=int)}
    return {p: (start, end) for p, (start, end) in ranges.items() if start < end}


def _offsets(pushed: Any) -> dict[str, int]:
    """Return the topic's offsets of an XCom, which has Spark's JSON or its text."""
    by_topic = json.loads(pushed) if isinstance(pushed, str) else pushed
    return dict((by_topic or {}).get(TOPIC, {}))


def _in_columns(cells: list[str], *, columns: int) -> Iterator[str]:
    for at in range(0, len(cells), columns):
        yield "  " + "    ".join(cells[at : at + columns])
