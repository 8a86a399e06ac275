"""Airflow's connections and Variables, as the use cases take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook, Variable

from tidegate.broker.client_settings import KafkaSettings
from tidegate.orchestration.metadata_database import DESCRIPTION
from tidegate.runs import connections
from tidegate.runs.connections import Connection


def kafka(connection_id: str) -> KafkaSettings:
    """Return the settings of a Kafka connection, of the same type as Airflow's Kafka provider.

    Raises ConfigurationError if it does not exist.
    """
    if (found := look_up(connection_id)) is None:
        raise connections.not_defined("Kafka", connection_id, in_airflow=True)
    return KafkaSettings(connection_id, found.extra)


def spark_master(connection_id: str) -> str:
    """Return a Spark connection's master, as the Spark provider computes it.

    Raises ConfigurationError if it does not exist: the provider would silently use YARN.
    """
    if (found := look_up(connection_id)) is None:
        raise connections.not_defined("Spark", connection_id, in_airflow=True)
    return connections.spark_master(connection_id, found)


def look_up(
    connection_id: str, get: Callable[[str], Any] = BaseHook.get_connection
) -> Connection | None:
    """Return a connection of Airflow, or None; `get` differs between a task and a terminal."""
    try:
        found = get(connection_id)
    except AirflowNotFoundException:
        return None
    return Connection(found.conn_type or "", found.host or "", found.port, found.extra_dejson)


class Variables:
    """Airflow's Variables, which mirror offsets."""

    def read(self, name: str) -> str | None:
        value = Variable.get(name, default=None)
        return None if value is None else str(value)

    def write(self, name: str, text: str) -> None:
        Variable.set(name, text, description=DESCRIPTION)
