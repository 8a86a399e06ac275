"""Declared columns, and those that sampled values need."""

import json
from typing import Any

import pytest

from tidegate.core.sampled_columns import extend_columns
from tidegate.core.schema import parse_columns, render_ddl


@pytest.mark.parametrize(
    ("declared", "values", "better"),
    [
        ("a INT", [{"a": 2**31}], "a BIGINT"),
        ("a INT", [{"b": 1}], "a INT, b BIGINT"),
        ("a INT, b STRING", [{"b": 1, "a": 1.5}], "a INT, b STRING"),
        ("a INT", [{"a": "x"}], "a INT"),
        ("Ab INT", [{"ab": "x"}], "Ab INT"),
    ],
)
def test_columns_that_fit(declared: str, values: list[Any], better: str) -> None:
    """Only what may follow the declared columns: a column added, a type widened."""
    texts = [json.dumps(each).encode() for each in values]
    columns = parse_columns(declared)
    assert render_ddl(extend_columns(texts, columns, [name for name, _ in columns])) == better


def test_a_column_that_all_values_fit() -> None:
    """It stays as it is: a whole number that is sampled could be a BIGINT."""
    assert (
        render_ddl(extend_columns([b'{"a": 1, "b": 1}'], parse_columns("a INT, b INT"), ["b"]))
        == "a INT, b BIGINT"
    )


def test_numbers_that_python_cannot_hold() -> None:
    values = [b'{"a": 1e99999999999999999999}', b'{"a": %d}' % 10**400, b'{"a": 1e400}']
    assert (
        render_ddl(extend_columns(values, parse_columns("a DOUBLE, b INT"), ["a"]))
        == "a DOUBLE, b INT"
    )
