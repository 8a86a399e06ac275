"""Airflow's Variables from a terminal: in its database, as the `airflow` command does it.

A task's own way, `connections.Variables`, asks the process that started the task.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import NeedsAirflow

DESCRIPTION = "Tidegate's cursor, a copy of the ledger"
# Importing Airflow without one of these would make a new Airflow in the user's home.
NAMED_BY = ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")


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
        from airflow.models.variable import Variable
        from airflow.utils.session import create_session

        with _in_its_database(), create_session() as session:
            found = session.query(Variable).filter(Variable.key == name).one_or_none()
            return None if found is None else found.get_val()

    def write(self, name: str, text: str) -> None:
        from airflow.models.variable import Variable

        with _in_its_database():
            Variable.set(name, text, description=DESCRIPTION)


@contextmanager
def _in_its_database() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        # Not its text: it may hold the address with a password.
        raise NeedsAirflow(
            f"Airflow's database cannot be asked ({type(error).__name__}): check that it runs, "
            "that `airflow db migrate` was done, and AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
        ) from None
