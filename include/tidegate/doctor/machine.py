"""What the doctor asks of this machine: Spark's parts, Java, jars, disk, clock."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from tidegate.doctor.checks import Check, Line, failure, ok, warning
from tidegate.launch import jars

JAVAS = (17, 21)
_LOW, _TOO_LOW = 5 << 30, 500 << 20  # bytes free: Spark's shuffle and logs, then not even a log
_RELEASED = 1_704_067_200  # 2024: a clock that is before it was never set


def checks() -> list[Check]:
    """Return the questions; none needs a network."""
    return [
        Check("pyspark", pyspark_pair),
        Check("java", java),
        Check("jars", spark_jars),
        Check("disk", lambda: disk("disk", tempfile.gettempdir())),
        Check("clock", clock),
    ]


def pyspark_pair() -> Iterator[Line]:
    """The two packages write the same directory: other versions make UDFs die in Py4J."""
    found = {}
    for package in ("pyspark", "pyspark-client"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            yield failure("pyspark", f"{package} is not installed", "run `make setup`")
            return
    says = ", ".join(f"{package} {number}" for package, number in found.items())
    if len(set(found.values())) > 1:
        fix = f"install pyspark-client=={found['pyspark']}, or run `make setup` again"
        yield failure("pyspark", f"{says}: must be equal, they share their files", fix)
    else:
        yield ok("pyspark", says)


def java() -> Iterator[Line]:
    """Spark 4 runs on 17 and 21."""
    path = jars.java()
    told = subprocess.run(
        [path, "-version"], capture_output=True, text=True, timeout=20, check=False
    )
    found = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', told.stderr + told.stdout)
    fix = "install Java 17 or 21, or set JAVA_HOME to one"
    if found is None:
        yield failure("java", f"{path} does not run", fix)
    elif int(found[2]) not in JAVAS:
        yield failure("java", f"{path} is Java {found[1]}", fix)
    else:
        yield ok("java", f"{path} is Java {found[1]}")


def spark_jars() -> Iterator[Line]:
    """The connector must be of Spark's own line; every jar the one that the lock names."""
    known = jars.read("spark-kafka")
    wrong = [
        jar.file for jar in known if not jars.is_valid(jars.cache_dir() / "jars" / jar.file, jar)
    ]
    if wrong:
        says = f"missing or not the pinned one: {', '.join(wrong)}"
        yield failure("jars", says, f"run `make setup`; the cache is {jars.cache_dir()}")
        return
    versions = {jar.artifact: jar.version for jar in known}
    connector = next(v for artifact, v in versions.items() if artifact.startswith("spark-sql-kaf"))
    spark = version("pyspark")
    says = f"connector {connector}, kafka-clients {versions['kafka-clients']}, Spark {spark}"
    if connector.split(".")[:2] != spark.split(".")[:2]:
        yield failure("jars", f"{says}: not one line", "pin the connector of Spark's own version")
    else:
        yield ok("jars", says)


def disk(check: str, directory: str) -> Iterator[Line]:
    """Free space where something will be written."""
    free = shutil.disk_usage(directory).free
    says = f"{free / (1 << 30):.1f} GB free in {directory}"
    if free < _TOO_LOW:
        yield failure(check, says, "free some: a full disk fails runs, though nothing is lost")
    elif free < _LOW:
        yield warning(check, says, "free some before it is full")
    else:
        yield ok(check, says)


def clock() -> Iterator[Line]:
    """A clock decides nothing about rows, but when rubbish is collected and what a day is."""
    now = time.time()
    says = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _RELEASED:
        yield failure("clock", says, "set it (NTP): paths and gaps would bear a wrong date")
    else:
        yield ok("clock", says)
