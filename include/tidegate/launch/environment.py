"""The environment that other programs inherit: without what Airflow's variables hold."""

from __future__ import annotations

import os

_SECRETS = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__")


def withheld_variables() -> dict[str, str]:
    """Return Airflow's connections, Variables and settings of this environment, each empty.

    Airflow's Spark provider adds to the environment, and can take nothing out of it.
    """
    return {name: "" for name in os.environ if name.startswith(_SECRETS)}
