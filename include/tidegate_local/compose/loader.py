"""Fill the demo's topic, start its DAGs, and end when the rows are in the lake."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import tenacity

from tidegate import api, connections
from tidegate.errors import ConfigurationError, Difference, TidegateError
from tidegate.pipelines import pipeline_files
from tidegate_local import flights
from tidegate_local.airflow_api import AirflowApi, AirflowUnreachable
from tidegate_local.compose.prepare import USER

TOPIC = "flights"
INGEST, BACK = "tidegate__flights", "tidegate__flights_back"
MAINTENANCE = "tidegate_maintenance"
FLIGHTS = 336_776
_RUN = "compose-1"
_TIMEOUT = 900.0  # s for each step: a first start reads all images' files from the disk

Say = Callable[[str], None]


class NotLoaded(TidegateError):
    """A DAG is missing or cannot be parsed, or a run has failed."""


def load(environ: Mapping[str, str], say: Say, *, timeout: float = _TIMEOUT) -> None:
    """Load a year of flights into the topic, then run both pipelines and count the lake's rows.

    Can be repeated: only what is missing is done. Raises a TidegateError if a step fails or takes
    more than `timeout` seconds. Difference if the lake has not each flight once.
    """
    bootstrap = _bootstrap(environ)
    sent = _flights(bootstrap, timeout)
    say(f"topic {TOPIC!r} at {bootstrap}: {sent:,} flights sent, all {FLIGHTS:,} are there")
    airflow = open_api(environ)
    _await_dags(airflow, {INGEST, BACK, MAINTENANCE}, timeout)
    for dag in (INGEST, BACK):
        run = airflow.complete(dag, _RUN, timeout=timeout)
        say(f"run {_RUN} of {dag}: {run['state']}")
        if run["state"] != "success":
            failed = [
                task["task_id"] for task in airflow.tasks(dag, _RUN) if task["state"] == "failed"
            ]
            raise NotLoaded(
                f"run {_RUN} of {dag} failed in {', '.join(failed)}: its log is in Airflow; run"
                " this again to try again"
            )
    airflow.unpause(MAINTENANCE)
    rows, distinct = count_flights(environ)
    if (rows, distinct) != (FLIGHTS, FLIGHTS):
        raise Difference(
            f"the lake holds {rows:,} rows, {distinct:,} distinct (partition, offset), and not the"
            f" {FLIGHTS:,} flights",
            rows=rows,
            distinct=distinct,
        )
    say(f"{rows:,} rows = {distinct:,} distinct (partition, offset) in {environ['TIDEGATE_LAKE']}")


def count_flights(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the rows of the pipeline's lake, and its distinct (topic, partition, offset).

    By Arrow: the image has no DuckDB.
    """
    keys = ["topic", "partition", "offset"]
    spec = pipeline_files.load_spec(Path(environ["TIDEGATE_PIPELINES"]) / "flights.yaml", environ)
    table = api.open_lake(spec).dataset().to_table(columns=keys)
    return table.num_rows, table.group_by(keys).aggregate([]).num_rows


def _bootstrap(environ: Mapping[str, str]) -> str:
    found = connections.read_environment_connection("kafka_default", environ)
    if found is None:
        raise connections.not_defined("Kafka", "kafka_default", in_airflow=False)
    return str(found.extra["bootstrap.servers"])


def open_api(environ: Mapping[str, str]) -> AirflowApi:
    """Return a client of the API server that tasks use."""
    url = environ["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].removesuffix("/execution/")
    if not (password := environ.get("AIRFLOW_ADMIN_PASSWORD")):
        raise ConfigurationError("AIRFLOW_ADMIN_PASSWORD is not set: see .env.example")
    return AirflowApi(url, user=USER, password=password)


def _flights(bootstrap: str, timeout: float) -> int:
    """Load the topic. A broker that has just started is asked again."""
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(flights.FlightsNotLoaded),
        stop=tenacity.stop_after_delay(timeout),
        wait=tenacity.wait_fixed(2.0),
        reraise=True,
    ):
        with attempt:
            return flights.load(bootstrap, TOPIC)
    raise AssertionError("the last attempt raises")


def _await_dags(airflow: AirflowApi, expected: Collection[str], timeout: float) -> None:
    """Wait until Airflow has parsed the DAGs; NotLoaded names a file that it cannot parse."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            missing = sorted(set(expected) - set(airflow.dags()))
            broken = airflow.import_errors()
        except AirflowUnreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
            continue
        if not missing:
            return
        if broken:
            file, trace, _ = broken[0]
            raise NotLoaded(f"Airflow cannot parse {file}: {trace.strip().splitlines()[-1]}")
        if time.monotonic() > deadline:
            raise NotLoaded(f"Airflow has no DAG {', '.join(missing)} after {timeout:.0f} s")
        time.sleep(1.0)
