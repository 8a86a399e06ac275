"""The doctor's checks of the master of a Spark connection, by its kind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from tidegate.doctor.check import Line, failure, ok
from tidegate.launch import application_state, cluster_mode, master_kinds, spark_home
from tidegate.launch.application_state import Ask
from tidegate.launch.master_kinds import master_kind
from tidegate.launch.spark_connection import SparkConnection

_TAG = "tidegate-doctor"  # of no application


def check_master(spark: SparkConnection) -> Iterator[Line]:
    """Check that the master answers. One of a kind that is not asked is only named."""
    match master_kind(spark.master):
        case master_kinds.YARN:
            yield from check_yarn(spark)
        case master_kinds.STANDALONE:
            yield check_standalone(spark.master)
        case _:
            yield ok("spark", f"master {spark.master}")


def check_yarn(spark: SparkConnection, ask: Ask | None = None) -> Iterator[Line]:
    """Check that a cluster is named, and that its resource manager answers."""
    given = {name: os.environ.get(name) for name in cluster_mode.CONF_DIRS}
    named = [f"{name}={value}" for name, value in given.items() if value]
    if not named:
        says = f"master yarn: neither {' nor '.join(given)} is set"
        yield failure("spark", says, "set one to the directory with yarn-site.xml")
        return
    try:
        ask = ask or application_state.application_client(spark.home or spark_home.home())
        application_state.tagged(_TAG, ask)
    except OSError as error:
        fix = f"start it, or correct yarn-site.xml in {named[0]}"
        yield failure("spark", f"master yarn: the resource manager does not answer: {error}", fix)
        return
    where = f"deploy mode {spark.deploy_mode}, {named[0]}"
    yield ok("spark", f"master yarn: the resource manager answers ({where})")


def check_standalone(master: str) -> Line:
    """Return whether one of the addresses of a standalone master answers."""
    failed = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except (OSError, ValueError) as error:
            failed.append(f"{address} ({error})")
        else:
            return ok("spark", f"master {address} answers")
    fix = "start it, or correct host and port of the Spark connection"
    return failure("spark", f"no master answers: {', '.join(failed)}", fix)
