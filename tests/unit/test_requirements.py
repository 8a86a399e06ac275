"""The dependencies of pyproject.toml: what the package imports, and what the lock has."""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.cases import each_of

PROJECT = Path(__file__).parents[2]
INCLUDE = PROJECT / "include"
FORM = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
BASE = [Requirement(each) for each in FORM["dependencies"]]
EXTRAS = {
    extra: [Requirement(each) for each in listed]
    for extra, listed in FORM["optional-dependencies"].items()
}
CONSTRAINTS = sorted((PROJECT / "docs/constraints").glob("*.txt"))
IN = {"airflow": {"airflow"}, "ui": {"airflow"}, "orchestration": {"airflow"}, "spark": {"spark"}}
"""The extras that a package needs as a whole."""
LATE = {
    "lake": {"s3", "duckdb"},
    "launch": {"kubernetes"},
    "broker": {"msk"},
}
"""The extras of what a package imports only when it is needed, in functions."""
OF_THE_USER = {"openlineage"}
"""What is used where the user's Airflow has it, and is no dependency."""
distributions = functools.cache(metadata.packages_distributions)
"""Returns the distributions that have a top name."""


def pinned(path: Path) -> dict[str, str]:
    """Return the versions in a lock or a file of constraints."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", path.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


GIVEN = BASE + [each for listed in EXTRAS.values() for each in listed]


def outside(versions: dict[str, str]) -> list[str]:
    """Return the requirements that do not admit the versions that are given."""
    return [
        str(each)
        for each in GIVEN
        if (version := versions.get(canonicalize_name(each.name))) and version not in each.specifier
    ]


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the top name of each package that a file imports, and whether a function does."""
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name.partition(".")[0], id(node) in late) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0], id(node) in late


def undeclared(path: Path, package: str) -> set[str]:
    """Return the imports of a file that neither `dependencies` nor an extra of its package has."""
    of = distributions()
    base = names(BASE).union(*(names(EXTRAS[extra]) for extra in IN.get(package, ())))
    more = base.union(*(names(EXTRAS[extra]) for extra in LATE.get(package, ())))
    return {
        name
        for name, is_late in imports(path)
        if name not in sys.stdlib_module_names | {"tidegate", "tidegate_local"} | OF_THE_USER
        and not {canonicalize_name(each) for each in of[name]} & (more if is_late else base)
    }


@each_of(sorted(INCLUDE.glob("tidegate/**/*.py")))
def test_what_a_file_imports_is_declared(path: Path) -> None:
    parts = path.relative_to(INCLUDE / "tidegate").parts
    assert undeclared(path, parts[0]) == set()


def test_what_the_local_stack_imports_is_declared() -> None:
    of = distributions()
    declared = names(GIVEN)
    for path in (INCLUDE / "tidegate_local").rglob("*.py"):
        for name, _ in imports(path):
            if name not in sys.stdlib_module_names | {"tidegate", "tidegate_local"}:
                assert {canonicalize_name(each) for each in of[name]} & declared, (path, name)


def test_an_undeclared_import_is_found(tmp_path: Path) -> None:
    """Of a package in another extra, and one of an extra at the top of a file."""
    planted = tmp_path / "planted.py"
    planted.write_text("import psutil, botocore, yaml\ndef f():\n    import botocore, numpy\n")
    assert undeclared(planted, "lake") == {"psutil", "botocore", "numpy"}
    planted.write_text("def f():\n    import botocore\n")
    assert undeclared(planted, "lake") == set()
    assert undeclared(planted, "cli") == {"botocore"}


def test_the_ranges_admit_what_is_locked_and_tested() -> None:
    """One that the lock lacks is not tested: it is named here."""
    locked = pinned(PROJECT / "requirements.txt")
    untested = {"apache-airflow-providers-apache-kafka"}
    assert names(GIVEN) - locked.keys() - {"tidegate"} == untested
    assert outside(locked) == []


def test_packages_that_share_files_have_one_version() -> None:
    """Ranges would not do: one of the two is released later than the other."""
    (pyspark,) = (each for each in GIVEN if each.name == "pyspark")
    (client,) = (each for each in GIVEN if each.name == "pyspark-client")
    assert str(pyspark.specifier) == str(client.specifier) == "==4.0.4"


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.name)
def test_the_constraints_of_an_airflow(path: Path) -> None:
    """They are of that Airflow, complete but for the local stack, and within the ranges."""
    found = pinned(path)
    assert f"airflow-{found['apache-airflow'].rpartition('.')[0]}.txt" == path.name
    of_local = names(EXTRAS["local"])
    assert (names(GIVEN) - {"tidegate"} - of_local) <= found.keys()
    assert outside(found) == []
    assert "://" not in path.read_text()


def test_each_supported_airflow_has_constraints() -> None:
    (airflow,) = (each for each in GIVEN if each.name == "apache-airflow")
    supported = [f"3.{n}" for n in range(9) if f"3.{n}" in airflow.specifier]
    assert [path.name for path in CONSTRAINTS] == [f"airflow-{each}.txt" for each in supported]


def test_the_version_is_written_once() -> None:
    assert FORM["dynamic"] == ["version"]
    assert "version" not in FORM
