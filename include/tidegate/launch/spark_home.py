"""The Spark that applications run on: the PySpark that is installed beside Tidegate."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.launch.environment import withheld

SPARK_SUBMIT = Path(__file__).with_name("spark-submit.sh")
_DRIVER_PYTHON = Path(__file__).with_name("driver-python.sh")


def find() -> Path | None:
    """Return Spark's directory, with `bin` and `jars`; None if PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def home() -> Path:
    """Return Spark's directory; ConfigurationError if PySpark is not installed."""
    if (found := find()) is None:
        raise ConfigurationError("PySpark is not installed: pip install 'tidegate[spark]'")
    return found


def environment() -> dict[str, str]:
    """Return the variables that make spark-submit use this environment's Python and Spark."""
    return {
        **withheld(),  # the job file has what an application needs
        "SPARK_HOME": str(home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": str(_DRIVER_PYTHON),
        "TIDEGATE_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        # For the small JVM that builds the command line.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
