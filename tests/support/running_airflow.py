"""Airflow's own processes on a database of a test, with its DAGs and its environment."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tidegate_local import airflow, health
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.postgres import Postgres


@contextmanager
def running(
    home: Path, database: Postgres, env: Mapping[str, str], port: int, expected: Sequence[str]
) -> Iterator[AirflowApi]:
    """Start them, and wait until they have the DAGs that are expected. At the end they are
    stopped.
    """
    try:
        airflow.migrate(home, database=database, env=env)
        since, password = datetime.now(UTC), airflow.password(home)
        for name in airflow.SERVICES:
            airflow.start(name, home, database=database, env=env)
        api = AirflowApi(f"http://127.0.0.1:{port}", user=airflow.USER, password=password)
        services = list(airflow.SERVICES)
        health.wait(api, home, started=services, since=since, expected=expected)
        yield api
    finally:
        for name in airflow.SERVICES:
            airflow.stop(name, home)
