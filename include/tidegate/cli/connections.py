"""Connections from a terminal, as a pipeline in Airflow would find them."""

from __future__ import annotations

import os

from tidegate.broker.settings import KafkaSettings, from_environment
from tidegate.cli import terminal
from tidegate.pipelines.spec import Spec


def kafka_settings(connection: str) -> KafkaSettings:
    """Return a Kafka connection: of the environment, else of the Airflow that it names."""
    if not _asks_airflow(connection):
        return from_environment(connection)
    from tidegate.orchestration import connections, database

    return connections.kafka(connection, database.connection)


def spark_master(spec: Spec) -> str:
    """Return the master of the pipeline's Spark connection, found in the same way."""
    if not _asks_airflow(spec.spark.connection):
        return terminal.spark_master(spec)
    from tidegate.orchestration import connections, database

    return connections.spark_master(spec.spark.connection, database.connection)


def _asks_airflow(connection: str) -> bool:
    from tidegate.orchestration.database import NAMED_BY

    in_environment = f"AIRFLOW_CONN_{connection.upper()}" in os.environ
    return not in_environment and any(os.environ.get(name) for name in NAMED_BY)
