"""Airflow's Variables and connections for commands, read as the `airflow` command reads them.

Tasks use `connections`, which asks the task's supervisor process.
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
# Without one of these, importing Airflow would create a new installation in the user's home.
NAMED_BY = ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
_airflow_lock = RLock()  # while Airflow is imported and stdout is redirected


class StoredVariables:
    """The Variables in the environment's Airflow database. NeedsAirflow without it.

    Airflow is imported in the methods, because it takes seconds and configures logging.
    """

    def __init__(self) -> None:
        if not any(os.environ.get(name) for name in NAMED_BY):
            raise NeedsAirflow(
                "there is no Airflow in this environment, so no Variables: run this where "
                f"{' or '.join(NAMED_BY)} is set as for Airflow's own processes"
            )
        self.read("tidegate")  # raises NeedsAirflow if there is no database, or no table

    def read(self, name: str) -> str | None:
        with quiet_airflow():
            from airflow.models.variable import Variable
            from airflow.utils.session import create_session

            with create_session() as session:
                variable = session.query(Variable).filter(Variable.key == name).one_or_none()
                return None if variable is None else variable.get_val()

    def write(self, name: str, text: str) -> None:
        with quiet_airflow():
            from airflow.models.variable import Variable

            Variable.set(name, text, description=DESCRIPTION)


def find_stored_connection(name: str) -> Any:
    """Return a connection from Airflow's secrets backends, else from its database.

    Raises AirflowNotFoundException if it is in neither, and NeedsAirflow without a database.
    """
    StoredVariables()  # else an unreachable database looks like a missing connection
    with quiet_airflow():
        from airflow.models.connection import Connection

        return Connection.get_connection_from_secrets(name)


@contextmanager
def quiet_airflow() -> Iterator[None]:
    """Redirect Airflow's output to stderr, restore logging, and translate database errors.

    Raises NeedsAirflow if Airflow is not installed here.
    """
    try:
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError:
        raise _not_installed() from None

    root, alembic = logging.getLogger(), logging.getLogger("alembic")
    with _airflow_lock, redirect_stdout(sys.stderr):
        handlers, level, of_alembic = root.handlers[:], root.level, alembic.level
        alembic.setLevel(logging.WARNING)  # Airflow 3.2 loads it, and it reports each plugin
        try:
            yield
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "airflow":
                raise _not_installed() from None
            raise
        except SQLAlchemyError as error:
            # Its text is omitted: it may contain a URL with a password.
            raise NeedsAirflow(
                f"Airflow's database cannot be asked ({type(error).__name__}): check that it runs, "
                "that `airflow db migrate` was done, and AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
            ) from None
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
            alembic.setLevel(of_alembic)


def _not_installed() -> NeedsAirflow:
    named = next((name for name in NAMED_BY if os.environ.get(name)), NAMED_BY[0])
    return NeedsAirflow(
        f"{named} is set, but Airflow is not installed beside Tidegate; run this in Airflow's "
        "environment, or define the connections by AIRFLOW_CONN_<ID>"
    )
