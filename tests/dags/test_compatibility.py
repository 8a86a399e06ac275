"""Where versions of Airflow differ: what is taken from an older one, made up of this one."""

import runpy
import sys
import warnings
from types import ModuleType
from typing import Any

import airflow.exceptions
import airflow.sdk
import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSecretsBackendAccessDenied,
    AirflowSkipException,
)
from airflow.timetables.interval import CronDataIntervalTimetable as OfTheCore

from tidegate.orchestration import airflow_connections, airflow_versions, maintenance, tasks


def test_this_airflow_has_all_of_it() -> None:
    assert airflow_versions.CronDataIntervalTimetable is CronDataIntervalTimetable
    assert airflow_versions.AirflowSecretsBackendAccessDenied is AirflowSecretsBackendAccessDenied
    assert airflow_versions.AirflowFailException is AirflowFailException
    assert airflow_versions.AirflowSkipException is AirflowSkipException
    assert airflow_versions.ends_with_the_task(SparkSubmitOperator) == {"durable": False}


def test_names_that_airflow_3_1_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timetable and exceptions are the core's; the error that nothing raises can be caught."""
    for each in (AirflowFailException, AirflowSkipException):
        monkeypatch.setattr(airflow.exceptions, each.__name__, each, raising=False)
    for name in ("airflow.sdk", "airflow.sdk.exceptions"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    found = runpy.run_path(airflow_versions.__file__)
    assert found["CronDataIntervalTimetable"] is OfTheCore
    assert found["AirflowFailException"] is AirflowFailException
    assert found["AirflowSkipException"] is AirflowSkipException
    denied = found["AirflowSecretsBackendAccessDenied"]
    assert issubclass(denied, Exception)
    assert not issubclass(RuntimeError, denied)


@pytest.mark.parametrize("module", [tasks, maintenance, airflow_connections])
def test_nothing_is_imported_that_airflow_warns_of(module: ModuleType) -> None:
    """The log of each task, and of each command, would begin with the warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runpy.run_path(module.__file__ or "")
    assert [str(each.message) for each in caught] == []


def test_a_provider_that_leaves_nothing_is_not_asked_to() -> None:
    """Line 5 refuses an argument that it does not know."""

    class Operator:
        def __init__(self, *, application: str = "", **kwargs: Any) -> None:
            pass

    assert airflow_versions.AirflowFailException is AirflowFailException
    assert airflow_versions.AirflowSkipException is AirflowSkipException
    assert airflow_versions.ends_with_the_task(Operator) == {}


def test_an_airflow_that_leaves_nothing_is_not_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.3 the argument has no effect, and is warned of for each DAG that is parsed."""
    monkeypatch.setitem(sys.modules, "airflow.sdk", ModuleType("airflow.sdk"))
    monkeypatch.setattr(airflow, "sdk", sys.modules["airflow.sdk"])
    assert airflow_versions.ends_with_the_task(SparkSubmitOperator) == {}
