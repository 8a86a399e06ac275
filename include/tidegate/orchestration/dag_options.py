"""The options of a pipeline's own DAG, as its file has them below `airflow`, and its schedule."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import AssetAlias, AssetAny, BaseNotifier

from tidegate.errors import ConfigurationError
from tidegate.orchestration import airflow_versions, assets
from tidegate.pipelines.airflow_spec import Told
from tidegate.pipelines.spec import Egress, Spec
from tidegate.pipelines.value_types import AFTER_THE_LAKE


def dag_schedule(spec: Spec) -> Any:
    """Return the schedule of a pipeline's DAG. None: only manual runs.

    Of an egress that follows its lake: an event of any of the topics that it sends.
    """
    if spec.schedule is None:
        return None
    if isinstance(spec, Egress) and spec.schedule == AFTER_THE_LAKE and spec.source.lake:
        return AssetAny(*(assets.inlets(spec) or [AssetAlias(assets.of_pattern(spec.source.lake))]))
    # With real data intervals: those of a plain cron string are empty in Airflow 3.
    return airflow_versions.CronDataIntervalTimetable(spec.schedule, timezone="UTC")


def task_defaults(spec: Spec) -> dict[str, Any]:
    """Return what all tasks of a pipeline's DAG have, by Airflow's names."""
    said = spec.airflow
    given = {"owner": said.owner, "pool": said.pool, "priority_weight": said.priority}
    return {name: value for name, value in given.items() if value is not None}


def dag_arguments(spec: Spec) -> dict[str, Any]:
    """Return who is told of a failed run, and of one that misses its deadline.

    ConfigurationError for what cannot be called, or needs a later Airflow.
    """
    said = spec.airflow
    if said.complete_hours and not airflow_versions.HAS_RUNTIME_PARTITIONS:
        raise ConfigurationError("airflow.complete_hours: needs Airflow 3.3 or later")
    if (told := said.on_failure) is None:
        return {}
    found: dict[str, Any] = {"on_failure_callback": _load(told)}
    if said.deadline is not None:
        if airflow_versions.DeadlineAlert is None:
            raise ConfigurationError("airflow.deadline: needs Airflow 3.2 or later")
        found["deadline"] = airflow_versions.DeadlineAlert(
            reference=airflow_versions.DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(seconds=said.deadline),
            callback=airflow_versions.SyncCallback(told.call, told.arguments),
        )
    return found


def _load(told: Told) -> Callable[..., Any]:
    """Return what Airflow calls with the context of a run. ConfigurationError if it cannot be."""
    module, _, name = told.call.rpartition(".")
    where = f"airflow.on_failure.call: {told.call}"
    try:
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, type) and issubclass(found, BaseNotifier):
            notifier: Callable[..., Any] = found(**told.arguments)
            return notifier
    except Exception as error:  # of a module, or a notifier, that is not ours
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from None
    if isinstance(found, type) or not callable(found):
        raise ConfigurationError(f"{where}: is neither a function nor a notifier of Airflow")
    return functools.partial(found, **told.arguments) if told.arguments else found
