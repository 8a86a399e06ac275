"""The Spark that applications run on: the installed PySpark, or that of a Spark connection."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.launch.environment import withheld_variables

SPARK_SUBMIT = Path(__file__).with_name("spark-submit.sh")
_DRIVER_PYTHON = Path(__file__).with_name("driver-python.sh")
_CORE = re.compile(r"spark-core_(\d+\.\d+)-(\d+\.\d+.*)\.jar")


def find_spark() -> Path | None:
    """Return Spark's directory, with `bin` and `jars`. None if PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def home() -> Path:
    """Return Spark's directory. ConfigurationError if PySpark is not installed."""
    if (found := find_spark()) is None:
        raise ConfigurationError(
            "PySpark is not installed: pip install 'tidegate[spark]', or give spark-home in the "
            "Spark connection"
        )
    return found


def is_spark(directory: Path) -> bool:
    """Return whether a directory is a Spark that can be started."""
    return (directory / "bin/spark-submit").is_file() and _core(directory) is not None


def spark_version(directory: Path) -> tuple[str, str]:
    """Return the versions of Scala and of Spark, by the name of a jar. No Java is started."""
    if (found := _core(directory)) is None:
        raise ConfigurationError(f"{directory} is no Spark: there is no jars/spark-core_*.jar")
    return found


def _core(directory: Path) -> tuple[str, str] | None:
    for jar in directory.glob("jars/spark-core_*.jar"):
        if match := _CORE.fullmatch(jar.name):
            return match[1], match[2]
    return None


def spark_environment(
    own_home: Path | None = None, own_python: str | None = None
) -> dict[str, str]:
    """Return the variables for spark-submit: the Spark and the Python, by default those here.

    With one of its own, the driver's Python takes PySpark from that Spark.
    """
    python = own_python or sys.executable
    driver = python if own_home or own_python else str(_DRIVER_PYTHON)
    return {
        **withheld_variables(),  # the job file has what an application needs
        "SPARK_HOME": str(own_home or home()),
        # Java reads the names of files by the locale: that of cron and systemd has ASCII alone.
        "LC_ALL": "C.UTF-8",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": driver,
        "TIDEGATE_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        # For the small JVM that builds the command line.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
