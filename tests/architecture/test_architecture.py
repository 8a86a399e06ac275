"""The packages of docs/internals/architecture.md: who may import whom, size and names of files."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mutants import MUTANTS
from mutants.mutant import PRODUCT
from tools.import_graph import circles, import_graph, package
from tools.requirements_page import suites

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "include/tidegate"
LINT = Path(sys.executable).with_name("lint-imports")


def lint(project):
    """Run import-linter over a project's own `include/`; return its result."""
    return subprocess.run(
        [LINT, "--no-cache", "--no-logo"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "include")},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the package and of its contracts, to break."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE.parent, tmp_path / "include", ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_flow_one_way():
    """All contracts of pyproject.toml hold."""
    done = lint(PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "planted", "contract", "chain"),
    [
        (
            "core/intervals.py",
            "import kafka",
            "The core knows no library",
            "tidegate.core.intervals -> kafka",
        ),
        (
            "core/plan.py",
            "from tidegate.lake import store",
            "Imports flow one way",
            "tidegate.core.plan -> tidegate.lake.store",
        ),
        (
            "lake/store.py",
            "from kafka import KafkaConsumer",
            "Only the broker package imports kafka",
            "tidegate.lake.store -> kafka",
        ),
        (
            "ingest/planning.py",
            "import airflow",
            "Only orchestration imports airflow",
            "tidegate.ingest.planning -> airflow",
        ),
        (
            "spark/task_size.py",
            "import obstore",
            "A zip of core, errors, faults, settings and spark is all that a cluster needs",
            "tidegate.spark.task_size -> obstore",
        ),
    ],
)
def test_a_planted_import_breaks_its_contract(copy, module, planted, contract, chain):
    """The lint is proven: it fails, and for this very import in the copy."""
    path = copy / "include/tidegate" / module
    path.write_text(f"{path.read_text()}\n{planted}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout
    assert chain in re.sub(r"\s+", " ", done.stdout)


def imported(path):
    """Return the top two names of whatever a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {".".join(alias.name.split(".")[:2]) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module] if "." in module else [f"{module}.{a.name}" for a in node.names]
            found |= {".".join(name.split(".")[:2]) for name in names}
    return found


def lines(path):
    return len(path.read_text().splitlines())


@pytest.mark.parametrize(
    ("directory", "most_lines", "allowed"),
    [
        ("dags", 29, {"tidegate.orchestration"}),
        ("spark_jobs", 8, {"tidegate.spark", "sys"}),
        ("plugins", 9, {"tidegate.ui", "importlib.metadata"}),
    ],
)
def test_the_rim_is_thin(directory, most_lines, allowed):
    """A DAG file wires, a job file calls, a plugin mounts; none is named like a library."""
    files = sorted((PROJECT / directory).glob("*.py"))
    assert files
    for path in files:
        assert lines(path) <= most_lines, path
        assert imported(path) <= allowed, path
        assert path.stem not in sys.stdlib_module_names | {"kafka", "airflow", "pyspark"}, path


def test_no_module_is_named_after_nothing():
    """A module is named by the noun that it owns."""
    nothing = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
    assert [path for path in PACKAGE.rglob("*") if path.stem in nothing] == []


def test_no_module_is_two_nouns():
    """None passes 450 lines, but for the checker: one file on purpose, of at most 690."""
    checker = PACKAGE.parent / "tidegate_check/lake.py"
    assert lines(checker) <= 690
    assert [path for path in PACKAGE.parent.rglob("*.py") if lines(path) > 450] == [checker]


def test_messages_of_a_step_name_no_task():
    """A step is a task of the pipeline's own DAG, a part of an operator's, or a command's."""
    named = re.compile(r"task `(?:plan|stage|send|publish|verdict)`")
    steps = [p for name in ("ingest", "egress", "runs", "lake") for p in (PACKAGE / name).glob("*")]
    assert [p.name for p in steps if p.suffix == ".py" and named.search(p.read_text())] == []


def test_test_files_have_one_subject():
    """None passes 500 lines, and no two have one name."""
    files = [path for path in (PROJECT / "tests").rglob("*.py") if path.stem[:2] != "__"]
    assert {path.name for path in files if lines(path) > 500} == set()
    names = Counter(path.name for path in files if path.name != "conftest.py")
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="not a clone: no list of its files")
def test_no_file_knows_a_developers_machine():
    """Neither this clone's own directory nor anyone's home stands in what is committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True, timeout=30
    ).stdout
    machine = re.compile(rb"/(?:home|Users)/[a-z]|" + re.escape(os.fsencode(PROJECT)) + rb"\b")
    telling = {}
    for name in filter(None, listed.split(b"\0")):
        path = PROJECT / os.fsdecode(name)
        if path.is_file() and (found := machine.search(path.read_bytes())):
            telling[path.name] = found.group()
    assert telling == {}


def test_no_circle_of_files():
    """No file imports itself, however many files lie between; a planted circle is found."""
    assert circles(import_graph(PROJECT / "include")) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


SHARED = {"planning", "publish", "replay", "explain", "status", "verify", "report"}
"""Modules that both flows have."""


def test_ingest_and_egress_import_nothing_of_each_other():
    """They have the same shape, and what both need is in `tidegate.runs`."""
    graph = import_graph(PROJECT / "include")
    flows = ("tidegate.ingest", "tidegate.egress")
    crossing = [
        (name, other)
        for name, others in graph.items()
        for other in others
        if {package(name), package(other)} == set(flows)
    ]
    assert crossing == []
    ours, theirs = ({p.stem for p in (PACKAGE / f[9:]).glob("*.py")} for f in flows)
    assert ours >= SHARED
    assert theirs >= SHARED


ONLY_SLOW = {
    "what compaction took has left a hole",
    "create-if-absent, in a whole run",
    "a partition without a leader is not asked for its end",
    "the JVM's death signal",
}
"""Mutants that `make test` does not find: they need compaction, several brokers or several runs."""


def test_every_mutant_can_be_planted():
    """Each guard stands once in its place, and its test exists and is run on every change."""
    for mutant in MUTANTS:
        file, text = mutant.applied()
        assert text != (PRODUCT / file).read_text(), mutant.name
        test = mutant.test.partition("[")[0]
        is_often = "::" not in test or "test" in suites(test)
        assert is_often == (mutant.name not in ONLY_SLOW), mutant.name


def test_black_box_scenarios_know_only_commands():
    """At least twenty, of kills, races, replays, backfills, sends, recreated and expired topics.
    Their files import nothing of `tidegate` when they are read.
    """
    scenarios = 0
    for path in (PROJECT / "tests/integration").glob("test_*.py"):
        if number := path.read_text().count("@pytest.mark.blackbox\n"):
            scenarios += number
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ImportFrom):
                    assert (node.module or "").partition(".")[0] != "tidegate", path
    assert scenarios >= 20
