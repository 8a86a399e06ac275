"""What of sampled values does not fit declared columns, and which columns would."""

import json
from typing import Any

import pytest

from tidegate.core import sample_fit
from tidegate.core.schema import ddl, parse


@pytest.mark.parametrize(
    ("kind", "fits", "unfit"),
    [
        ("BOOLEAN", [True, None], [1, "true"]),
        ("TINYINT", [127, -128], [128, 1.0, "1", True]),
        ("BIGINT", [2**63 - 1], [2**63]),
        ("DOUBLE", [1, 1.5], ["1", True]),
        ("DECIMAL(5,2)", [1, 999.99, "1.2", 1.239], [1000, "x", True, [1]]),
        ("STRING", ["a", 1, {"a": 1}], []),
        ("BINARY", ["aGk="], ["no base64!", 1]),
        ("DATE", ["2024-02-29"], ["2024-02-30", 1]),
        ("TIMESTAMP", ["2024-01-01T00:00:00Z"], ["soon", True, 1700000000]),
        ("ARRAY<INT>", [[1, None], []], [[1, "x"], 1]),
        ("MAP<STRING, INT>", [{"a": 1}], [{"a": "x"}, [1]]),
        ("STRUCT<a: INT>", [{"a": 1}, {}], [{"a": "x"}, 1]),
    ],
)
def test_values(kind: str, fits: list[Any], unfit: list[Any]) -> None:
    columns = parse(f"c {kind}")
    for values, number in ((fits, 0), (unfit, 1)):
        for value in values:
            found = sample_fit.reasons([json.dumps({"c": value}).encode()], columns)
            assert sum(found.values()) == number, value


def test_numbers_that_python_cannot_hold() -> None:
    """They are named, and end neither a sample nor a proposal."""
    values = [b'{"a": 1e99999999999999999999}', b'{"a": %d}' % 10**400, b'{"a": 1e400}']
    found = sample_fit.reasons(values, parse("a DOUBLE"))
    assert found == {"no JSON": 1, "a: no DOUBLE": 2}
    assert ddl(sample_fit.extended(values, parse("a DOUBLE, b INT"))) == "a DOUBLE, b INT"


def test_what_is_no_object() -> None:
    found = sample_fit.reasons([b"x", b"[1]", b'{"a": 1e999}', b"{}"], parse("a DOUBLE"))
    assert found == {"no JSON": 1, "no JSON object": 1, "a: no DOUBLE": 1}


@pytest.mark.parametrize(
    ("declared", "values", "extended"),
    [
        ("a INT", [{"a": 1}], "a INT"),
        ("a INT", [{"a": 2**31}], "a BIGINT"),
        ("a INT", [{"b": 1}], "a INT, b BIGINT"),
        ("a INT, b STRING", [{"b": 1, "a": 1.5}], "a INT, b STRING"),
        ("a INT", [{"a": "x"}], "a INT"),
        ("Ab INT", [{"ab": "x"}], "Ab INT"),
    ],
)
def test_columns_that_fit(declared: str, values: list[Any], extended: str) -> None:
    """Only what may follow the declared columns: a column added, a type widened."""
    found = sample_fit.extended([json.dumps(each).encode() for each in values], parse(declared))
    assert ddl(found) == extended
