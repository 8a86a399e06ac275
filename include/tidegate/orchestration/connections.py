"""Connections and Variables of Airflow, in the form that the use cases take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook, Variable

from tidegate.broker.settings import KafkaSettings
from tidegate.errors import ConfigurationError
from tidegate.orchestration.metadata_database import DESCRIPTION

LookUp = Callable[[str], Any]
"""From an id to the connection; AirflowNotFoundException. A terminal has another than a task."""


def kafka(connection: str, look_up: LookUp = BaseHook.get_connection) -> KafkaSettings:
    """Return a Kafka connection, of the type that Airflow's own Kafka provider uses."""
    try:
        extra = look_up(connection).extra_dejson
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"Airflow has no connection {connection!r}: add it, of type Kafka, with "
            '{"bootstrap.servers": "host:9092"} as extra'
        ) from None
    return KafkaSettings(connection, extra)


def spark_master(connection: str, look_up: LookUp = BaseHook.get_connection) -> str:
    """Return a Spark connection's master, as the Spark provider reads it.

    One that does not exist is refused: the provider would quietly turn it into YARN.
    """
    try:
        found = look_up(connection)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"Airflow has no connection {connection!r}: add it, of type Spark, with the master as "
            "host (local[2], spark://host:7077, yarn, k8s://…)"
        ) from None
    whole = found.conn_type == "spark" and found.host and ("://" in found.host or not found.port)
    master = found.host if whole else f"{found.conn_type}://{found.host or ''}"
    return f"{master}:{found.port}" if found.port else str(master)


class Variables:
    """Airflow's Variables as the place where offsets are shown."""

    def read(self, name: str) -> str | None:
        value = Variable.get(name, default=None)
        return None if value is None else str(value)

    def write(self, name: str, text: str) -> None:
        Variable.set(name, text, description=DESCRIPTION)
