"""Lines of Spark: which are too old, and what an older one lacks."""

from importlib.metadata import version

import pytest

from tidegate.launch import jars
from tidegate.settings import spark_lines


def test_lines_are_compared_as_numbers() -> None:
    assert [spark_lines.line(v) for v in ("3.5.7", "4.0.0-preview2", "4.10.1")] == [
        "3.5", "4.0", "4.10",
    ]  # fmt: skip
    assert [spark_lines.is_too_old(v) for v in ("3.4.4", "3.5.0", "3.10.0", "4.0.4")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert [spark_lines.is_partial(v) for v in ("3.5.7", "4.0.0", "4.2")] == [True, False, False]


def test_the_installed_pyspark_is_of_the_pinned_line() -> None:
    assert spark_lines.line(version("pyspark")) == spark_lines.PINNED
    (connector,) = [j for j in jars.read("spark-kafka") if j.artifact.startswith("spark-sql-kafka")]
    assert spark_lines.line(connector.version) == spark_lines.PINNED


@pytest.mark.parametrize(
    ("number", "source", "columns", "is_refused"),
    [
        ("3.5.7", "json", ["**"], True),
        ("3.5.7", "csv", ["key", "*"], True),
        ("3.5.7", "csv", ["key"], False),
        ("3.5.7", "parquet", ["key", "value"], False),
        ("3.5.7", "text", ["value"], False),
        ("3.5.7", None, ["key"], False),
        ("4.0.0", "json", ["**"], False),
        ("4.2.0", "parquet", ["*"], False),
    ],
)
def test_json_needs_spark_4(
    number: str, source: str | None, columns: list[str], is_refused: bool
) -> None:
    found = spark_lines.complaint(number, source, columns, declared="key STRING")
    typed = spark_lines.complaint(number, source, columns, declared="key STRING, n INT")
    assert (found is not None) == is_refused
    assert (typed is not None) == (is_refused or (number, source) == ("3.5.7", "csv"))
    assert found is None or found.startswith(f"Spark {number}: files of JSON")
