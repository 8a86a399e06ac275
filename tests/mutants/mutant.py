"""The form of a mutant, and how the product is changed by one."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import unwrap
from operator import attrgetter
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

import tidegate

PRODUCT = Path(tidegate.__file__).parents[1]
"""The directory of the product's packages."""


class Mutant(NamedTuple):
    """A guard of the product, and the test that fails without it.

    `place` names the function or constant that has the guard, by as much of its dotted name as no
    other has: `_remove`, `sweeping._remove`. So it may move to another module. A place with a slash
    is a file. `guard` is found in it once, whatever the white space; `instead` replaces it.
    """

    name: str
    place: str
    guard: str
    instead: str
    test: str

    def applied(self) -> tuple[str, str]:
        """Return the file below `PRODUCT` that has the guard, and its text without the guard.

        ValueError if there is no such place or guard, or several.
        """
        name, start, end, _ = self._found()
        text = (PRODUCT / name).read_text()
        tokens = map(re.escape, re.findall(r"\w+|[^\w\s]", self.guard))
        matches = [*re.compile(r"\s*".join(tokens)).finditer(text, start, end)]
        if len(matches) != 1:
            raise ValueError(f"{self.name}: its guard is {len(matches)} times in {self.place}")
        before, after = text[: matches[0].start()], text[matches[0].end() :]
        return name, before + self.instead.strip() + after

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Let the loaded function run without the guard, until the patch is undone."""
        name, text = self.applied()
        qualified = self._found().qualified
        module = import_module(name.removesuffix(".py").replace("/", "."))
        codes = _codes(compile(text, name, "exec", dont_inherit=True))
        (code,) = (each for each in codes if each.co_qualname == qualified)
        found = attrgetter(qualified)(module)
        function = found.fget if isinstance(found, property) else unwrap(found)
        patch.setattr(function, "__code__", code)

    def _found(self) -> "Place":
        if "/" in self.place:
            return Place(self.place, 0, len((PRODUCT / self.place).read_text()), "")
        found = _places()[self.place]
        if len(found) != 1:
            raise ValueError(f"{self.name}: {len(found)} places have the name {self.place}")
        return found[0]


class Place(NamedTuple):
    """A function or constant: its file below `PRODUCT`, its characters, its name in its module."""

    file: str
    start: int
    end: int
    qualified: str


@cache
def _places() -> dict[str, list[Place]]:
    """Return the places of the product by each end of their dotted names."""
    found = defaultdict(list)
    for path in sorted(PRODUCT.rglob("*.py")):
        file, text = path.relative_to(PRODUCT).as_posix(), path.read_text()
        lines = [0]
        for line in text.splitlines(keepends=True):
            lines.append(lines[-1] + len(line))
        for qualified, first, last in _defined(ast.parse(text), ""):
            parts = [*path.relative_to(PRODUCT).with_suffix("").parts, *qualified.split(".")]
            place = Place(file, lines[first - 1], lines[last], qualified)
            for at in range(len(parts)):
                found[".".join(parts[at:])].append(place)
    return found


def _defined(tree: ast.AST, prefix: str, *, within: bool = False) -> Iterator[tuple[str, int, int]]:
    """Yield each function and constant of a module: its name, its first and its last line.

    `within` a function, its variables are no constants.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (node, *node.decorator_list))
            yield prefix + node.name, first, node.end_lineno or first
            yield from _defined(node, f"{prefix}{node.name}.", within=True)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not within:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node.lineno, node.end_lineno or node.lineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
