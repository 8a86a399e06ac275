"""Lines of Spark: which are too old, and what an older one lacks."""

from importlib.metadata import version

import pytest

from tidegate.launch import jars
from tidegate.settings import spark_lines


def test_lines_are_compared_as_numbers() -> None:
    assert [spark_lines.line_of(v) for v in ("3.5.7", "4.0.0-preview2", "4.10.1")] == [
        "3.5", "4.0", "4.10",
    ]  # fmt: skip
    assert [spark_lines.is_too_old(v) for v in ("3.4.4", "3.5.0", "3.10.0", "4.0.4")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert [spark_lines.is_partial(v) for v in ("3.5.7", "4.0.0", "4.2")] == [True, False, False]


def test_the_installed_pyspark_is_of_the_pinned_line() -> None:
    assert spark_lines.line_of(version("pyspark")) == spark_lines.PINNED
    (connector,) = [
        j for j in jars.read_lock("spark-kafka") if j.artifact.startswith("spark-sql-kafka")
    ]
    assert spark_lines.line_of(connector.version) == spark_lines.PINNED


@pytest.mark.parametrize(
    ("number", "is_typed", "columns", "is_refused"),
    [
        ("3.5.7", True, ["**"], True),
        ("3.5.7", True, ["key"], True),
        ("3.5.7", False, ["key", "*"], True),
        ("3.5.7", False, ["key", "value"], False),
        ("4.0.0", True, ["**"], False),
        ("4.2.0", False, ["*"], False),
    ],
)
def test_texts_with_types_and_rows_as_json_need_spark_4(
    number: str, is_typed: bool, columns: list[str], is_refused: bool
) -> None:
    found = spark_lines.version_complaint(number, columns, is_typed=is_typed)
    assert (found is not None) == is_refused
    assert found is None or found.startswith(f"Spark {number}: files of JSON")
