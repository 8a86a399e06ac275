"""What differs between the supported versions of Airflow and of its Spark provider."""

from __future__ import annotations

import inspect
from functools import cache

import airflow.sdk

try:
    from airflow.sdk import CronDataIntervalTimetable as CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable as CronDataIntervalTimetable

try:
    from airflow.sdk.exceptions import AirflowFailException as AirflowFailException
    from airflow.sdk.exceptions import (
        AirflowSecretsBackendAccessDenied as AirflowSecretsBackendAccessDenied,
    )
    from airflow.sdk.exceptions import AirflowSkipException as AirflowSkipException
except ImportError:  # Airflow 3.1. The later ones warn of the core's in the log of each task
    from airflow.exceptions import AirflowFailException as AirflowFailException
    from airflow.exceptions import AirflowSkipException as AirflowSkipException

    class AirflowSecretsBackendAccessDenied(Exception):  # type: ignore[no-redef]
        """Raised by nothing: in Airflow 3.1 a denied connection looks like a missing one."""


try:
    from airflow.sdk import DeadlineAlert as DeadlineAlert  # type: ignore[attr-defined]
    from airflow.sdk import DeadlineReference as DeadlineReference  # type: ignore[attr-defined]
    from airflow.sdk import SyncCallback as SyncCallback  # type: ignore[attr-defined]
except ImportError:  # Airflow 3.1
    DeadlineAlert = None

HAS_RUNTIME_PARTITIONS = hasattr(airflow.sdk, "PartitionedAtRuntime")
"""Whether a task may name the partitions of its assets' events: since Airflow 3.3."""


def ends_with_the_task(operator: type) -> dict[str, bool]:
    """Return the argument with which a Spark operator leaves no application for the next try.

    None for the provider's line 5 and early 6, which has no such argument, and for Airflow before
    3.3, which warns of it: they leave none.
    """
    has_it = hasattr(airflow.sdk, "ResumableJobMixin") and _is_durable(operator)
    return {"durable": False} if has_it else {}


@cache  # a tenth of what a pipeline's DAG takes
def _is_durable(operator: type) -> bool:
    return "durable" in inspect.signature(operator).parameters
