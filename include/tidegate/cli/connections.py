"""Connections from a terminal: of the environment, else of the Airflow that it names."""

from __future__ import annotations

import contextlib
import json
import os

from tidegate.broker.settings import KafkaSettings, from_environment
from tidegate.errors import ConfigurationError
from tidegate.pipelines.spec import Spec

DEFAULT = "spark_default"


def kafka(connection: str) -> KafkaSettings:
    """Return a Kafka connection; ConfigurationError if it is nowhere."""
    if not _asks_airflow(connection):
        return from_environment(connection)
    from tidegate.orchestration import metadata_database

    with metadata_database.quiet_airflow():
        from tidegate.orchestration import connections

        return connections.kafka(connection, metadata_database.connection)


def spark_master(spec: Spec) -> str:
    """Return the master of the pipeline's Spark connection; local[*] where there is no default."""
    connection = spec.spark.connection
    if _asks_airflow(connection):
        return _master_in_airflow(connection)
    name = f"AIRFLOW_CONN_{connection.upper()}"
    text = os.environ.get(name)
    if text is None:
        if connection == DEFAULT:
            return "local[*]"
        raise ConfigurationError(
            f"Spark connection {connection!r} is not defined: set {name} to "
            '\'{"conn_type": "spark", "host": "local[2]"}\''
        )
    with contextlib.suppress(ValueError, KeyError, TypeError):
        form = json.loads(text)
        port = f":{form['port']}" if form.get("port") else ""
        return f"{form['host']}{port}"
    raise ConfigurationError(f"{name} is not a connection in JSON form with a host")


def _master_in_airflow(connection: str) -> str:
    from tidegate.orchestration import metadata_database

    with metadata_database.quiet_airflow():
        from tidegate.orchestration import connections

        try:
            return connections.spark_master(connection, metadata_database.connection)
        except ConfigurationError:
            if connection == DEFAULT:
                return "local[*]"
            raise


def _asks_airflow(connection: str) -> bool:
    from tidegate.orchestration.metadata_database import NAMED_BY

    in_environment = f"AIRFLOW_CONN_{connection.upper()}" in os.environ
    return not in_environment and any(os.environ.get(name) for name in NAMED_BY)
