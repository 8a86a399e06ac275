"""docs/guarantees.md: each promise has a black-box scenario, and what it counts is so.

The scenarios stand in docs/internals/tests.md.
"""

import ast
import re
from pathlib import Path

import pytest

from tidegate_check import lake as checker

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/guarantees.md").read_text()
PROMISES = re.findall(r"^(\d+)\. \*\*", PAGE.partition("## Why it holds")[0], re.MULTILINE)
TESTS = (PROJECT / "docs/internals/tests.md").read_text()
SCENARIOS = dict(re.findall(r"^\| (\d+) \| (.*) \|$", TESTS, re.MULTILINE))


def test_each_promise_has_a_row() -> None:
    assert PROMISES == [str(n) for n in range(1, len(PROMISES) + 1)] != []
    assert [*SCENARIOS] == PROMISES


@pytest.mark.parametrize("promise", PROMISES)
def test_its_scenarios_know_nothing_of_the_code(promise: str) -> None:
    """They exist, and their files import nothing of `tidegate` when they are read."""
    named = re.findall(r"`(tests/(?:integration|e2e)/\w+\.py)::(\w+)`", SCENARIOS[promise])
    assert len(named) == SCENARIOS[promise].count("`") // 2 > 0
    for file, test in named:
        tree = ast.parse((PROJECT / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        modules = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        modules += [
            a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names
        ]
        assert [m for m in modules if m.partition(".")[0] == "tidegate"] == []


def test_the_page_says_how_long_the_checker_is() -> None:
    _, _, rest = PAGE.partition("It is one file of at most ")
    most = int(rest.partition(" lines")[0])
    assert len(Path(checker.__file__).read_text().splitlines()) <= most
