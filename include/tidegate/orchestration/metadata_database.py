"""Airflow's Variables and connections from a terminal, as the `airflow` command has them.

A task's own way, `connections`, asks the process that started the task.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from threading import RLock
from typing import Any

from tidegate.errors import NeedsAirflow

DESCRIPTION = "Tidegate's cursor, a copy of the ledger"
# Importing Airflow without one of these would make a new Airflow in the user's home.
NAMED_BY = ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
_one_at_a_time = RLock()  # Airflow's imports are no place for two threads, nor is stdout


class StoredVariables:
    """The Variables in the database that the environment names; NeedsAirflow where there is none.

    Airflow is imported here, not above: it takes seconds, and it sets up what it finds.
    """

    def __init__(self) -> None:
        if not any(os.environ.get(name) for name in NAMED_BY):
            raise NeedsAirflow(
                "there is no Airflow in this environment, so no Variables: run this where "
                f"{' or '.join(NAMED_BY)} is set as for Airflow's own processes"
            )
        self.read("tidegate")  # is it there, and are its tables?

    def read(self, name: str) -> str | None:
        with quiet_airflow():
            from airflow.models.variable import Variable
            from airflow.utils.session import create_session

            with create_session() as session:
                found = session.query(Variable).filter(Variable.key == name).one_or_none()
                return None if found is None else found.get_val()

    def write(self, name: str, text: str) -> None:
        with quiet_airflow():
            from airflow.models.variable import Variable

            Variable.set(name, text, description=DESCRIPTION)


def connection(name: str) -> Any:
    """Look a connection up where Airflow would: in its secrets backends, then in its database.

    AirflowNotFoundException if it is nowhere; NeedsAirflow as with the Variables.
    """
    StoredVariables()  # else a database that is away looks like one without the connection
    with quiet_airflow():
        from airflow.models.connection import Connection

        return Connection.get_connection_from_secrets(name)


@contextmanager
def quiet_airflow() -> Iterator[None]:
    """Keep what Airflow, once imported, has to say out of our answers: it logs to stdout."""
    from sqlalchemy.exc import SQLAlchemyError

    root = logging.getLogger()
    with _one_at_a_time, redirect_stdout(sys.stderr):
        handlers, level = root.handlers[:], root.level
        try:
            yield
        except SQLAlchemyError as error:
            # Not its text: it may hold the address with a password.
            raise NeedsAirflow(
                f"Airflow's database cannot be asked ({type(error).__name__}): check that it runs, "
                "that `airflow db migrate` was done, and AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
            ) from None
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
