"""The doctor's report of a pipeline's Kafka connections. It asks no broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from tidegate.broker.client_settings import described
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.doctor.check import Line, ok
from tidegate.errors import TidegateError
from tidegate.launch.spark_connection import SparkConnection

KafkaLookup = Callable[[], KafkaCluster]
"""Looks up a connection. Raises a TidegateError if it is not defined, or wrong."""
SparkLookup = Callable[[], SparkConnection]
"""The same of Spark."""
Found = TypeVar("Found")


def report_connections(kafka: KafkaLookup, source: KafkaLookup | None) -> Iterator[Line]:
    """Report cluster, protocol and login: of the pipeline's Kafka, and of its source's lake."""
    if settings := found(kafka):
        yield ok("connection", described(settings.to_json()))
    if source and (settings := found(source)):
        yield ok("connection", f"source: the lake of {described(settings.to_json())}")


def found(look_up: Callable[[], Found]) -> Found | None:
    """Return a connection, or None.

    The error is that of the check of the broker or of Spark; to send a lake, its source's is not
    needed.
    """
    try:
        return look_up()
    except TidegateError:
        return None
