"""Connections outside Airflow's tasks: from environment variables, else from the environment's
Airflow. Commands and the Python API use them.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from tidegate import connections
from tidegate.connections import Connection
from tidegate.launch.spark_connection import SparkConnection
from tidegate.orchestration import metadata_database
from tidegate.runs.spec_protocol import Spec

if TYPE_CHECKING:
    from tidegate.broker.kafka_cluster import KafkaCluster
    from tidegate.pipelines.spec import Spec as AnySpec

DEFAULT = "spark_default"
_LOCAL = Connection("spark", "local[*]")


def kafka(spec: Spec) -> KafkaCluster:
    """Return a pipeline's Kafka connection. ConfigurationError if it is not defined."""
    return connections.kafka(spec, lambda: _find("Kafka", spec.kafka))


def spark(spec: Spec) -> SparkConnection:
    """Return a pipeline's Spark connection. Local[*] without a spark_default."""
    return connections.spark(spec, lambda: _find("Spark", spec.spark.connection))


def check_alert(spec: AnySpec) -> None:
    """Try to make the notifier of a pipeline's file. ConfigurationError if that fails.

    Nothing is checked in an environment without Airflow.
    """
    if spec.airflow.on_failure and find_spec("airflow"):
        with metadata_database.quiet_airflow():
            from tidegate.orchestration import dag_options

            dag_options.failure_argument(spec)
            dag_options.deadline_argument(spec)


def _find(kind: Literal["Kafka", "Spark"], connection_id: str) -> Connection:
    found = connections.read_environment_connection(connection_id)
    in_airflow = any(os.environ.get(name) for name in metadata_database.NAMED_BY)
    if found is None and in_airflow:
        with metadata_database.quiet_airflow():
            from tidegate.orchestration.airflow_connections import look_up

            found = look_up(connection_id, metadata_database.find_stored_connection)
    if found is None and kind == "Spark" and connection_id == DEFAULT:
        return _LOCAL
    if found is None:
        raise connections.not_defined(kind, connection_id, in_airflow=in_airflow)
    return found
