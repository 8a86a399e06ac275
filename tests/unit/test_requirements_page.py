"""The page of requirements and faults: each row has its tests, and says where they run."""

import re

import pytest

from support.cases import each_of
from support.doc_pages import page
from tools.requirements_page import ROW, filled, suites

TEXT = page("tests/requirements.md")
ROWS = [row.groups() for row in ROW.finditer(TEXT)]
RANGES = {"0.": 30, "1.": 19, "2.": 22, "3.": 16, "4.": 24, "6.": 36,
          "F": 24, "K": 24, "E": 9, "S": 12, "P": 30}  # fmt: skip
ABSENT = {"1.18", "3.15", "6.18", "6.27", "6.28", "6.33"}
"""Out of scope, not built, or taken out."""


def test_it_says_where_the_tests_run() -> None:
    """As `python tests/tools/requirements_page.py` would print it."""
    assert filled(TEXT) == TEXT


def test_no_row_is_missing() -> None:
    numbers = [number for number, *_ in ROWS]
    expected = {f"{group}{n}" for group, last in RANGES.items() for n in range(1, last + 1)}
    assert len(numbers) == len(set(numbers)) == TEXT.count("\n| ") - TEXT.count("\n| Row |")
    assert set(numbers) == (expected | {"5"}) - ABSENT
    assert [each for each in ABSENT if each not in TEXT] == []


@each_of(ROWS)
def test_each_row_has_a_test(row: tuple[str, ...]) -> None:
    _, what, tests, places, _ = row
    assert what.endswith(".")
    assert re.fullmatch(r"`tests/[^`]+::test_\w+`(, `tests/[^`]+::test_\w+`)*", tests)
    assert places


def test_a_test_that_does_not_exist_is_found() -> None:
    for wrong in (
        "tests/unit/test_docs.py::test_nothing",
        "tests/unit/test_nothing.py::test_links",
    ):
        with pytest.raises((KeyError, FileNotFoundError)):
            list(suites(wrong))


@pytest.mark.parametrize(
    ("test", "places"),
    [
        ("tests/unit/test_requirements_page.py::test_no_row_is_missing", ["test"]),
        (
            "tests/integration/test_broker_outages.py::test_an_ingest_without_a_broker",
            ["test-faults"],
        ),
        ("tests/integration/test_old_brokers.py::test_both_ways", ["test-slow"]),
        (
            "tests/integration/test_auto_created_targets.py"
            "::test_a_target_that_comes_back_is_noticed_and_counted",
            ["test-faults"],
        ),
        ("tests/spark/test_made_files.py::test_text", ["test", "test-slow"]),
    ],
)
def test_marks_are_read(test: str, places: list[str]) -> None:
    """Of the file, of the test and of its parameters."""
    assert list(suites(test)) == places
