"""Print tests/requirements.md with its column `Runs in`: where the tests of a row run."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "tests/requirements.md"
SUITES = {"slow": "test-slow", "faults": "test-faults", "matrix": "test-matrix"}
"""The targets of make that run tests with a mark; `make test` runs those without one."""
ROW = re.compile(r"^\| ([A-Z]?\d[\d.]*) \| (.*) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)


def suites(test: str) -> Iterator[str]:
    """Yield where a test runs: `test`, `test-slow` …, several if its parameters decide.

    KeyError for a test that does not exist.
    """
    file, _, name = test.partition("::")
    own, of_parameters = _marks(file)[name]
    if not own:
        yield "test"
    yield from (target for mark, target in SUITES.items() if mark in own | of_parameters)


@functools.cache
def _marks(file: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return the marks of each test of a file: its own, and those of some of its parameters."""
    tree = ast.parse((PROJECT / file).read_text())
    assigned = {
        ast.unparse(node.targets[0]): _named(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    of_all = assigned.get("pytestmark", set())
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            own: set[str] = set()
            every: set[str] = set()
            for decorator in node.decorator_list:
                marks = _named(decorator) | assigned.get(ast.unparse(decorator), set())
                every |= marks
                own |= marks if isinstance(decorator, ast.Attribute) else set()
            found[node.name] = own | of_all, every - own
    return found


def _named(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)} & SUITES.keys()


def _filled(row: re.Match[str]) -> str:
    number, what, tests, _, rest = row.groups()
    named = re.findall(r"`([^`]+)`", tests)
    places = sorted({place for test in named for place in suites(test)})
    return f"| {number} | {what} | {tests} | {', '.join(places)} | {rest} |"


def filled(text: str) -> str:
    """Return the page with each row's suites as they are now."""
    return ROW.sub(_filled, text)


if __name__ == "__main__":
    sys.stdout.write(filled(PAGE.read_text()))
