"""The options of a pipeline's own DAG, as its file has them below `airflow`, and its schedule."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

from airflow.sdk import AssetAlias, AssetAny, BaseNotifier, get_parsing_context

from tidegate.errors import ConfigurationError
from tidegate.orchestration import airflow_versions, assets
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.airflow_spec import Told
from tidegate.pipelines.spec import Egress, Spec
from tidegate.pipelines.value_types import AFTER_THE_LAKE


def dag_schedule(spec: Spec) -> Any:
    """Return the schedule of a pipeline's DAG. None: only manual runs.

    Of an egress that follows its lake: an event of any of the topics that it sends.
    ConfigurationError if it would follow nothing.
    """
    if spec.schedule is None:
        return None
    if isinstance(spec, Egress) and spec.schedule == AFTER_THE_LAKE and spec.source.lake:
        if (source := pipeline_files.load_ingest(spec.source.lake)).pattern:
            return AssetAlias(assets.of_pattern(source.name))
        if followed := assets.inlets(spec):
            return AssetAny(*followed)
        raise ConfigurationError(
            f"schedule: lake: {source.name} reads none of source.topics, so no run would start"
        )
    # With real data intervals: those of a plain cron string are empty in Airflow 3.
    return airflow_versions.CronDataIntervalTimetable(spec.schedule, timezone="UTC")


def task_defaults(spec: Spec) -> dict[str, Any]:
    """Return what all tasks of a pipeline's DAG have, by Airflow's names."""
    said = spec.airflow
    given = {"owner": said.owner, "pool": said.pool, "priority_weight": said.priority}
    return {name: value for name, value in given.items() if value is not None}


def failure_argument(spec: Spec) -> dict[str, Any]:
    """Return who is told of a failed run. ConfigurationError for what is no notifier.

    Empty in a task, which tells nobody: its machine need not have the notifier.
    """
    if (told := spec.airflow.on_failure) is None or get_parsing_context().task_id:
        return {}
    return {"on_failure_callback": _make_notifier(told)}


def deadline_argument(spec: Spec) -> dict[str, Any]:
    """Return until when a run must end, and who is told. ConfigurationError before Airflow 3.2."""
    said = spec.airflow
    if said.deadline is None or said.on_failure is None or get_parsing_context().task_id:
        return {}
    if airflow_versions.DeadlineAlert is None:
        raise ConfigurationError("airflow.deadline: needs Airflow 3.2 or later")
    alert = airflow_versions.DeadlineAlert(
        reference=airflow_versions.DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=said.deadline),
        callback=airflow_versions.SyncCallback(said.on_failure.call, said.on_failure.arguments),
    )
    return {"deadline": alert}


def _make_notifier(told: Told) -> BaseNotifier:
    """Return the notifier that Airflow calls. ConfigurationError if there is no such class.

    No other class or function: a pipeline's file has no code, and must not call any.
    """
    module, _, name = told.call.rpartition(".")
    where = f"airflow.on_failure.call: {told.call}"
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # of a module that is not ours
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from None
    if not isinstance(found, type) or not issubclass(found, BaseNotifier):
        raise ConfigurationError(f"{where}: is no notifier, a class of airflow.sdk.BaseNotifier")
    try:
        return found(**told.arguments)
    except Exception as error:  # its text may have an argument, which may be secret
        raise ConfigurationError(
            f"{where}: refuses its arguments: {type(error).__name__}"
        ) from None
