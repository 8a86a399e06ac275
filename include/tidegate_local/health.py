"""The health of Airflow: heartbeats of its services, and the expected DAGs."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate_local import airflow, processes
from tidegate_local.airflow import AirflowFailed
from tidegate_local.airflow_api import AirflowApi, AirflowUnreachable

BEATING = ("scheduler", "dag-processor")
"""The services that have heartbeats."""

_TIMEOUT = 180.0  # a first start on a busy machine reads all of Airflow from the disk


class DagsBroken(TidegateError):
    """Airflow runs, but cannot parse a DAG file."""


def wait(
    api: AirflowApi,
    home: Path,
    *,
    started: Collection[str],
    since: datetime,
    expected: Collection[str],
) -> None:
    """Wait until nothing is missing; of services just `started`, only news `since` then count.

    The last heartbeat of a killed service looks healthy for half a minute. Raises DagsBroken, or
    AirflowFailed for a service that ended, or after a time limit.
    """
    deadline = time.monotonic() + _TIMEOUT
    while True:
        missing = _missing(api, started=started, since=since, expected=expected)
        for name in airflow.SERVICES:  # also when nothing is missing: it may have just ended
            if processes.find(name, home=home) is None:
                log = home / "logs" / f"{name}.log"
                raise AirflowFailed(f"Airflow's {name} has ended: see {log}")
        if not missing:
            return
        if time.monotonic() > deadline:
            raise AirflowFailed(
                f"Airflow is not healthy after {_TIMEOUT:.0f} s: {missing}; the logs are in"
                f" {home / 'logs'}"
            )
        time.sleep(0.2)


def _missing(
    api: AirflowApi, *, started: Collection[str], since: datetime, expected: Collection[str]
) -> str:
    def is_new(service: str, at: datetime) -> bool:
        return service not in started or at >= since

    try:
        beats, dags, errors = api.heartbeats(), api.dags(), api.import_errors()
    except AirflowUnreachable as error:
        return str(error)
    if broken := [(file, trace) for file, trace, at in errors if is_new("dag-processor", at)]:
        listed = "\n".join(f"  {file}: {trace.strip()}" for file, trace in broken)
        raise DagsBroken(f"Airflow runs, but cannot read these DAG files:\n{listed}")
    still = [name for name in BEATING if name not in beats or not is_new(name, beats[name])]
    unseen = {dag for dag in expected if dag not in dags or not is_new("dag-processor", dags[dag])}
    still += [f"DAG {dag}" for dag in sorted(unseen)]
    return f"no sign of {', '.join(still)}" if still else ""
