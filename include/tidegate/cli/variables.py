"""Airflow's Variables from a terminal: those of its environment, or of the local stack."""

from __future__ import annotations

import getpass
import importlib.util
import os

from tidegate.errors import NeedsAirflow
from tidegate.runs.run import NO_MIRROR, Mirror


def variables() -> Mirror:
    """Return the Variables of the environment's Airflow, else the local stack's; NeedsAirflow."""
    from tidegate.orchestration.metadata_database import NAMED_BY, StoredVariables

    if not any(os.environ.get(name) for name in NAMED_BY):
        os.environ.update(_of_the_local_stack())
    return StoredVariables()


def mirror() -> Mirror:
    """Return where cursors are shown; without Airflow, its next run puts the Variable right."""
    try:
        return variables()
    except NeedsAirflow:
        return NO_MIRROR


def whoever() -> str:
    """Return who signs what is done by hand."""
    return f"cli:{getpass.getuser()}"


def _of_the_local_stack() -> dict[str, str]:
    if importlib.util.find_spec("tidegate_local") is None:
        return {}
    from tidegate_local import airflow, postgres, stack

    home = stack.default_home()
    known, database = stack.read(home), postgres.running(home)
    if known is None or database is None:
        return {}
    found = airflow.environment(
        home,
        database=database,
        bootstrap=known.kafka,
        port=int(known.airflow.rpartition(":")[2]),
        lake=known.lake,
        s3={},
    )
    return {name: value for name, value in found.items() if name.startswith("AIRFLOW_")}
