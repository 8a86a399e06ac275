"""Where versions of Airflow differ: what is taken from an older one, made up of this one."""

import runpy
import sys
from types import ModuleType
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied
from airflow.timetables.interval import CronDataIntervalTimetable as OfTheCore

from tidegate.orchestration import compatibility


def test_this_airflow_has_all_of_it() -> None:
    assert compatibility.CronDataIntervalTimetable is CronDataIntervalTimetable
    assert compatibility.AirflowSecretsBackendAccessDenied is AirflowSecretsBackendAccessDenied
    assert compatibility.ends_with_the_task(SparkSubmitOperator) == {"durable": False}


def test_names_that_airflow_3_1_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timetable is the core's; the error that nothing raises can be caught."""
    for name in ("airflow.sdk", "airflow.sdk.exceptions"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    found = runpy.run_path(compatibility.__file__)
    assert found["CronDataIntervalTimetable"] is OfTheCore
    denied = found["AirflowSecretsBackendAccessDenied"]
    assert issubclass(denied, Exception)
    assert not issubclass(RuntimeError, denied)


def test_a_provider_that_leaves_nothing_is_not_asked_to() -> None:
    """Line 5 refuses an argument that it does not know."""

    class Operator:
        def __init__(self, *, application: str = "", **kwargs: Any) -> None:
            pass

    assert compatibility.ends_with_the_task(Operator) == {}
