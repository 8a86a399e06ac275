"""What Airflow's database knows of the pipelines' DAGs: paused, running, failed, due.

By SQL of its own: importing Airflow's models takes seconds, more than all the rest of a command.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.runs.pipeline_state import DagState

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PREFIX = "tidegate__"  # of the DAG of a pipeline
_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_WAIT = 5  # seconds for a server's answer


def known_dag_states(pipelines: Iterable[str]) -> Mapping[str, DagState]:
    """Return the states of the pipelines' DAGs, by pipeline, for a command.

    Empty where neither environment nor airflow.cfg names the database in plain text, or it cannot
    be asked.
    """
    if (url := _database_url()) is None:
        return {}
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.pool import NullPool
    except ModuleNotFoundError:  # Airflow is elsewhere
        return {}
    limit = {} if url.startswith("sqlite") else {"connect_timeout": _WAIT}
    try:
        engine = create_engine(url, poolclass=NullPool, connect_args=limit)
        with engine.connect() as connection:
            return read_dag_states(connection, pipelines)
    except (SQLAlchemyError, ModuleNotFoundError):  # or its driver is missing
        return {}


def _database_url() -> str | None:
    """Return the URL of Airflow's database, as the environment or its airflow.cfg has it."""
    if url := os.environ.get(_URL):
        return url
    if not (home := os.environ.get("AIRFLOW_HOME")):
        return None
    config = configparser.RawConfigParser()
    try:
        config.read(Path(home) / "airflow.cfg")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return None
    default = f"sqlite:///{Path(home) / 'airflow.db'}"
    url = config.get("database", "sql_alchemy_conn", fallback=default)
    return None if url == default and not Path(home, "airflow.db").exists() else url


def read_dag_states(connection: Connection, pipelines: Iterable[str]) -> dict[str, DagState]:
    """Return the states of the pipelines' DAGs, by pipeline: of those that Airflow has.

    Runs of a backfill over dates do not count. By three queries, whatever their number. Errors are
    those of SQLAlchemy.
    """
    from sqlalchemy import Boolean, DateTime, column, func, select, table

    ids = [f"{_PREFIX}{name}" for name in pipelines]
    dag = table(
        "dag",
        column("dag_id"),
        column("is_paused", Boolean),
        column("next_dagrun_create_after", DateTime(timezone=True)),
    )
    run = table(
        "dag_run",
        column("dag_id"),
        column("run_id"),
        column("state"),
        column("run_type"),
        column("end_date", DateTime(timezone=True)),
    )
    newest: dict[str, dict[str, Any]] = {}
    ends = select(run.c.dag_id, run.c.state, func.max(run.c.end_date))
    for dag_id, state, ended in connection.execute(
        ends.where(run.c.dag_id.in_(ids), run.c.run_type != "backfill").group_by(
            run.c.dag_id, run.c.state
        )
    ):
        newest.setdefault(dag_id, {})[state] = ended
    failed = {
        dag_id: states["failed"]
        for dag_id, states in newest.items()
        if states.get("failed") and not _is_later(states.get("success"), states["failed"])
    }
    failures = select(run.c.dag_id, run.c.run_id, run.c.end_date).where(
        run.c.dag_id.in_(failed), run.c.state == "failed", run.c.run_type != "backfill"
    )
    names = {
        dag_id: run_id
        for dag_id, run_id, ended in connection.execute(failures)
        if ended == failed[dag_id]
    }
    return {
        dag_id.removeprefix(_PREFIX): DagState(
            paused=bool(paused),
            running="running" in newest.get(dag_id, {}),
            failed=names.get(dag_id),
            ended=_utc(failed.get(dag_id)),
            next_run=None if paused else _utc(due),
        )
        for dag_id, paused, due in connection.execute(
            select(dag.c.dag_id, dag.c.is_paused, dag.c.next_dagrun_create_after).where(
                dag.c.dag_id.in_(ids)
            )
        )
    }


def _is_later(one: datetime | None, other: datetime) -> bool:
    return one is not None and one > other


def _utc(moment: datetime | None) -> datetime | None:
    """Return a time with its zone, which SQLite does not keep."""
    if moment is None or moment.tzinfo:
        return moment
    return moment.replace(tzinfo=UTC)
