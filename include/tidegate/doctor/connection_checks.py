"""The doctor's checks of a pipeline's connections: who logs in, tokens, the master of Spark."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import TypeVar

from tidegate.broker.client_settings import describe_connection
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.doctor.check import Line, failure, ok
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.launch import token_settings
from tidegate.launch.master_kinds import STANDALONE, master_kind
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.pipelines.spec import Spec

KafkaLookup = Callable[[], KafkaCluster]
"""Looks up a connection. Raises a TidegateError if it is not defined, or wrong."""
SparkLookup = Callable[[], SparkConnection]
"""The same of Spark."""
Found = TypeVar("Found")


def report_connections(kafka: KafkaLookup, source: KafkaLookup | None) -> Iterator[Line]:
    """Report cluster, protocol and login: of the pipeline's Kafka, and of its source's lake."""
    if settings := find_connection(kafka):
        yield ok("connection", describe_connection(settings.to_json()))
    if source and (settings := find_connection(source)):
        yield ok("connection", f"source: the lake of {describe_connection(settings.to_json())}")


def find_connection(look_up: Callable[[], Found]) -> Found | None:
    """Return a connection, or None.

    The error is that of the check of the broker or of Spark; to send a lake, its source's is not
    needed.
    """
    try:
        return look_up()
    except TidegateError:
        return None


def check_tokens(
    spec: Spec,
    kafka: KafkaLookup,
    look_up: SparkLookup,
    source: KafkaLookup | None,
) -> Iterator[Line]:
    """Check that Spark can use the tokens of a pipeline's connections. Nothing without tokens.

    The cluster of an egress's lake counts, too: its token must match no address of the target.
    """
    own, of_source = find_connection(kafka), find_connection(source) if source else None
    tokens = token_settings.tokens_of([each for each in (own, of_source) if each])
    spark = find_connection(look_up)
    conf = {**(spark.conf if spark else {}), **spec.spark.settings}
    wrong = token_settings.token_complaints(tokens, conf, home=spark.home if spark else None)
    for each in wrong:
        says, _, fix = each.rpartition("; ")
        yield failure("tokens", says, fix)
    if wrong or own is None or (token := own.delegation_token) is None:
        return
    itself = token_settings.tokens_for_master([token], look_up().master)
    by = "Spark itself, by Kerberos," if itself else "the driver"
    yield ok("tokens", f"{by} obtains the token {token.cluster!r} of {', '.join(token.addresses)}")


def check_master(spark: SparkConnection) -> Iterator[Line]:
    """Check that the master answers. One of a kind that is not asked is only named."""
    kind = master_kind(spark.master)
    if kind == STANDALONE:
        yield check_standalone(spark.master)
    elif kind and not kind.client_alone:
        yield check_cluster(spark)
    else:
        yield ok("spark", f"master {spark.master}")


def check_cluster(spark: SparkConnection) -> Line:
    """Check that a cluster is named, and that its resource manager answers."""
    named = f"master {spark.master}"
    try:
        return ok("spark", f"{named}: {SparkEngine(connection=spark).ask_master()}")
    except ConfigurationError as error:
        says, has_fix, fix = str(error).partition("; ")
        if not has_fix:
            raise
    except OSError as error:
        says, _, fix = str(error).rpartition("; ")
    return failure("spark", f"{named}: {says}", fix)


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
