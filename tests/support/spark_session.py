"""The one Spark session of a test process."""

import os
from contextlib import chdir
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

from support.calls import staging
from tidegate.launch import spark_jars
from tidegate.launch.masters import for_master
from tidegate.launch.submission import CLASS_PATH
from tidegate.spark.session import STATIC, configure_session

_started: list[SparkSession] = []


def shared() -> SparkSession:
    """Return the session: two cores, and the settings of an application of half a million rows."""
    if not _started:
        given = staging(Path("none"), {}, 500_000, name="tests")
        settings = dict(for_master(given, "local[2]").conf)
        settings[CLASS_PATH] += f":{spark_jars.TIMESTAMPS}"  # which a job names for itself
        # Spark starts Python workers in its directory, and that of a test is deleted.
        here = chdir(Path(__file__).parent)
        with here, mock.patch.dict(os.environ, SPARK_LOCAL_IP="127.0.0.1"):
            builder = SparkSession.builder.master("local[2]").appName("tidegate tests")
            session = builder.config(map={**settings, **STATIC}).config("spark.log.level", "ERROR")
            _started.append(configure_session(session.getOrCreate()))
    return _started[0]


def stop() -> None:
    """Stop the session, if there is one."""
    while _started:
        _started.pop().stop()
