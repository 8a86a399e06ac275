"""Airflow's Variables for commands: the environment's Airflow, else that of the local stack."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from tidegate.cli.commands import has_local_stack
from tidegate.errors import NeedsAirflow

if TYPE_CHECKING:
    from tidegate.runs.run import Mirror


def variables() -> Mirror:
    """Return the Variables of the environment's Airflow, else of the local stack's.

    Raises NeedsAirflow if there is neither.
    """
    from tidegate.orchestration.metadata_database import NAMED_BY, StoredVariables

    if not any(os.environ.get(name) for name in NAMED_BY):
        os.environ.update(_of_the_local_stack())
    return StoredVariables()


def variables_if_any() -> Mirror:
    """Return the Variables, or none without Airflow. The next run in Airflow rewrites them."""
    from tidegate.runs.run import NO_MIRROR

    try:
        return variables()
    except NeedsAirflow:
        return NO_MIRROR


def signature() -> str:
    """Return the author of a command's ledger entries: `cli:<user>`."""
    return f"cli:{getpass.getuser()}"


def _of_the_local_stack() -> dict[str, str]:
    if not has_local_stack():
        return {}
    from tidegate_local import airflow, postgres, stack
    from tidegate_local.home import default_home

    home = default_home()
    running, database = stack.read(home), postgres.running(home)
    if running is None or database is None:
        return {}
    environment = airflow.environment(
        home,
        database=database,
        bootstrap=running.kafka,
        port=int(running.airflow.rpartition(":")[2]),
        lake=running.lake,
    )
    return {name: value for name, value in environment.items() if name.startswith("AIRFLOW_")}
