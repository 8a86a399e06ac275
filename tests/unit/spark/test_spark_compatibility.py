"""What applications do differently with Spark 3.5, without a Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.offsets import OffsetRange
from tidegate.spark import spark_versions
from tidegate.spark.preflight import Refused, preflight

WINDOW = (OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 5, 5), OffsetRange("b", 0, 0, 41))


def spark(version: str, given: dict[str, str]) -> Any:
    reader = SimpleNamespace()
    reader.format = lambda _: reader
    reader.options = lambda **options: given.update(options) or reader
    reader.load = lambda: "frame"
    return SimpleNamespace(version=version, read=reader)


@pytest.mark.parametrize(("version", "least"), [("3.5.7", "6"), ("4.0.4", "1"), ("4.2.0", "1")])
def test_the_number_of_tasks(version: str, least: str) -> None:
    """Spark 3.5 does not know the largest size of a task: it is given their number."""
    given: dict[str, str] = {}
    options = {"maxrecordsperpartition": "30", "minpartitions": "1"}
    found: Any = spark_versions.read_kafka(spark(version, given), options, WINDOW)
    assert (found, given["minpartitions"]) == ("frame", least)
    assert options["minpartitions"] == "1"


def test_an_error_of_spark_3_5() -> None:
    """Its condition and its message have other names there."""
    old: Any = SimpleNamespace(getErrorClass=lambda: "PATH_NOT_FOUND", desc="[PATH_NOT_FOUND] x")
    assert spark_versions.error_condition(old) == "PATH_NOT_FOUND"
    assert spark_versions.error_message(old) == "[PATH_NOT_FOUND] x"
    other: Any = SimpleNamespace(getErrorClass=lambda: None)
    assert (spark_versions.error_condition(other), spark_versions.error_message(other)) == ("", "")


@pytest.mark.parametrize("source", ["json", "parquet"])
def test_json_is_refused_before_anything_is_read(source: str) -> None:
    """Also where a plan is older than the pipeline's file."""
    columns = {"value": "**" if source == "json" else "*"}
    job: Any = SimpleNamespace(
        source=SimpleNamespace(is_lake=False, format=source, columns=None),
        columns=columns,
        spark="3.5",
    )
    with pytest.raises(Refused, match=r"^Spark 3\.5\.7: files of JSON, columns of CSV"):
        preflight(spark("3.5.7", {}), job)


def test_a_driver_of_another_spark_sends_nothing() -> None:
    """The claim would name the wrong one."""
    job: Any = SimpleNamespace(spark="4.0")
    with pytest.raises(Refused, match=r"^the driver has Spark 4\.2\.0, and .* is of 4\.0"):
        preflight(spark("4.2.0", {}), job)
