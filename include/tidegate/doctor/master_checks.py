"""The doctor's checks of the master of a Spark connection, by its kind."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from tidegate.doctor.check import Line, failure, ok
from tidegate.errors import ConfigurationError
from tidegate.launch import application_state, cluster_mode, spark_home
from tidegate.launch.application_state import Ask
from tidegate.launch.master_kinds import STANDALONE, master_kind
from tidegate.launch.spark_connection import SparkConnection


def check_master(spark: SparkConnection) -> Iterator[Line]:
    """Check that the master answers. One of a kind that is not asked is only named."""
    kind = master_kind(spark.master)
    if kind == STANDALONE:
        yield check_standalone(spark.master)
    elif kind and not kind.client_alone:
        yield check_cluster(spark)
    else:
        yield ok("spark", f"master {spark.master}")


def check_cluster(spark: SparkConnection, ask: Ask | None = None) -> Line:
    """Check that a cluster is named, and that its resource manager answers."""
    try:
        directory = cluster_mode.configuration_directory()
    except ConfigurationError as error:
        says, _, fix = str(error).partition("; ")
        return failure("spark", f"master {spark.master}: {says}", fix)
    named = f"master {spark.master}: the resource manager"
    try:
        ask = ask or application_state.application_client(spark.home or spark_home.home())
        cluster_mode.ask_cluster(ask)
    except OSError as error:
        fix = f"start it, or correct its configuration in {directory}"
        return failure("spark", f"{named} does not answer: {error}", fix)
    return ok("spark", f"{named} answers (deploy mode {spark.deploy_mode}, {directory})")


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
