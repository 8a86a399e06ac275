"""The doctor's check of a Spark connection whose master is YARN."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tidegate.doctor.check import Line, failure, ok
from tidegate.launch import application_state, cluster_mode, spark_home
from tidegate.launch.application_state import Ask
from tidegate.launch.spark_connection import SparkConnection

_TAG = "tidegate-doctor"  # of no application


def check_yarn(spark: SparkConnection, ask: Ask | None = None) -> Iterator[Line]:
    """Check that a cluster is named, and that its resource manager answers."""
    given = {name: os.environ.get(name) for name in cluster_mode.CONF_DIRS}
    named = [f"{name}={value}" for name, value in given.items() if value]
    if not named:
        says = f"master yarn: neither {' nor '.join(given)} is set"
        yield failure("spark", says, "set one to the directory with yarn-site.xml")
        return
    try:
        ask = ask or application_state.yarn_client(spark.home or spark_home.home())
        application_state.tagged(_TAG, ask)
    except OSError as error:
        fix = f"start it, or correct yarn-site.xml in {named[0]}"
        yield failure("spark", f"master yarn: the resource manager does not answer: {error}", fix)
        return
    where = f"deploy mode {spark.deploy_mode}, {named[0]}"
    yield ok("spark", f"master yarn: the resource manager answers ({where})")
