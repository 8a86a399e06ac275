"""The doctor's checks of this machine: PySpark, Java, jars, disk, clock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from tidegate.doctor.check import Check, Line, failure, ok, warning
from tidegate.doctor.provider import check_provider
from tidegate.launch import environment, jars

JAVAS = (17, 21)
_LOW, _TOO_LOW = 5 << 30, 500 << 20  # bytes free: for Spark's shuffle and logs; for a log alone
_RELEASED = 1_704_067_200  # 2024-01-01. An earlier clock was never set


def machine_checks() -> list[Check]:
    """Return the checks. None needs a network."""
    return [
        Check("pyspark", pyspark_pair),
        Check("java", java),
        Check("jars", spark_jars),
        Check("provider", lambda: check_provider({})),
        Check("disk", lambda: disk("disk", tempfile.gettempdir())),
        Check("clock", clock),
    ]


def pyspark_pair() -> Iterator[Line]:
    """Compare the versions of two packages that share files: if they differ, UDFs fail in Py4J.

    The second comes with Airflow's Spark provider alone.
    """
    versions = {}
    for package in ("pyspark", "pyspark-client"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    if "pyspark" not in versions:
        yield failure("pyspark", "pyspark is not installed", "pip install 'tidegate[spark]'")
        return
    says = ", ".join(f"{package} {number}" for package, number in versions.items())
    if len(set(versions.values())) > 1:
        fix = f"install pyspark-client=={versions['pyspark']}"
        yield failure("pyspark", f"{says}: must be equal, they share their files", fix)
    else:
        yield ok("pyspark", says)


def java() -> Iterator[Line]:
    """Check that Java is 17 or 21, which Spark 4 runs on."""
    path = jars.find_java()
    done = subprocess.run(
        [path, "-version"],
        env={**os.environ, **environment.withheld_variables()},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    fix = "install Java 17 or 21, or set JAVA_HOME to one"
    if match is None:
        yield failure("java", f"{path} does not run", fix)
    elif int(match[2]) not in JAVAS:
        yield failure("java", f"{path} is Java {match[1]}", fix)
    else:
        yield ok("java", f"{path} is Java {match[1]}")


def spark_jars() -> Iterator[Line]:
    """Compare the jars with the lock file, and the connector's version with Spark's."""
    locked = jars.read_lock("spark-kafka")
    directory = jars.cache_dir() / "jars"
    with jars.cache_errors():
        wrong = [jar.file for jar in locked if not jars.is_valid(directory / jar.file, jar)]
    if wrong:
        says = f"missing or not the pinned one: {', '.join(wrong)}"
        yield failure("jars", says, f"run `tidegate jars`; the cache is {jars.cache_dir()}")
        return
    versions = {jar.artifact: jar.version for jar in locked}
    connector = next(v for artifact, v in versions.items() if artifact.startswith("spark-sql-kaf"))
    says = f"connector {connector}, kafka-clients {versions['kafka-clients']}"
    try:
        spark = version("pyspark")
    except PackageNotFoundError:  # reported by `pyspark_pair`
        yield ok("jars", says)
        return
    says = f"{says}, Spark {spark}"
    if connector.split(".")[:2] != spark.split(".")[:2]:
        yield failure(
            "jars",
            f"{says}: their minor versions differ",
            "pin the connector of Spark's own version",
        )
    else:
        yield ok("jars", says)


def disk(check: str, directory: str) -> Iterator[Line]:
    """Check the free space of a directory that is written to."""
    free = shutil.disk_usage(directory).free
    says = f"{free / (1 << 30):.1f} GB free in {directory}"
    if free < _TOO_LOW:
        yield failure(check, says, "free some: a full disk fails runs, though nothing is lost")
    elif free < _LOW:
        yield warning(check, says, "free some before it is full")
    else:
        yield ok(check, says)


def clock() -> Iterator[Line]:
    """Check that the clock was set: paths, gaps and the age of swept files depend on it."""
    now = time.time()
    says = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _RELEASED:
        yield failure("clock", says, "set it (NTP): paths and gaps would bear a wrong date")
    else:
        yield ok("clock", says)
