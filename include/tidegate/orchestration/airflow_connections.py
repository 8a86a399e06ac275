"""Airflow's connections and Variables, as the use cases take them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook, Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from tidegate import connections
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.connections import Connection
from tidegate.errors import AirflowUnavailable, ConfigurationError, NotAuthorised
from tidegate.launch.spark_connection import SparkConnection
from tidegate.orchestration.airflow_versions import AirflowSecretsBackendAccessDenied
from tidegate.orchestration.metadata_database import DESCRIPTION
from tidegate.runs.spec_protocol import Spec


def kafka(spec: Spec) -> KafkaCluster:
    """Return a pipeline's Kafka connection, of the same type as Airflow's Kafka provider.

    Raises ConfigurationError if it does not exist, else as `of_task`.
    """

    def found() -> Connection:
        if (connection := look_up(spec.kafka)) is None:
            raise connections.not_defined("Kafka", spec.kafka, in_airflow=True)
        return connection

    return connections.kafka(spec, found)


def spark(spec: Spec) -> SparkConnection:
    """Return a pipeline's Spark connection, with the master that the Spark provider computes.

    Raises ConfigurationError if it does not exist (the provider would silently use YARN), else as
    `of_task`.
    """

    def found() -> Connection:
        if (connection := look_up(spec.spark.connection)) is None:
            raise connections.not_defined("Spark", spec.spark.connection, in_airflow=True)
        return connection

    return connections.spark(spec, found)


def task_connection(connection_id: str) -> Any:
    """Return a connection of Airflow, as tasks get it.

    Raises AirflowNotFoundException only if every secrets backend answered that it has none,
    AirflowUnavailable if one did not answer, NotAuthorised if access was denied, and
    ConfigurationError if the environment variable of the connection cannot be read.
    """
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowSecretsBackendAccessDenied:
        raise NotAuthorised(
            f"Airflow denies this task the connection {connection_id!r}: its API server or secrets "
            "backend refused; grant access to it"
        ) from None
    except AirflowNotFoundException:  # also if a backend failed
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

        for backend in ensure_secrets_backend_loaded():
            if failure := _failure(backend, connection_id):
                raise AirflowUnavailable(
                    f"connection {connection_id!r} cannot be read now: "
                    f"{type(backend).__name__} ({failure}); check Airflow's API server and "
                    "database, and its secrets backend"
                ) from None
        if os.environ.get(name := connections.variable(connection_id)):
            raise ConfigurationError(
                f"{name} is not a connection in JSON or URI form that Airflow can read: check its "
                "syntax, the names of its fields, and the port"
            ) from None
        raise


def _failure(backend: Any, connection_id: str) -> str | None:
    """Return what is wrong with a secrets backend, without its text. None if it has no such id."""
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    if isinstance(backend, EnvironmentVariablesBackend):
        return None
    is_api = isinstance(backend, ExecutionAPISecretsBackend)  # returns None for every error
    try:
        found = (_ask_connection if is_api else backend.get_connection)(conn_id=connection_id)
    except NotImplementedError:  # a backend of Variables only
        return None
    except AirflowRuntimeError as error:
        answer = error.error.error
        return None if answer is ErrorType.CONNECTION_NOT_FOUND else str(answer.value)
    except Exception as error:
        return type(error).__name__
    return "only the second request was answered" if found else None


def _ask_connection(conn_id: str) -> Any:
    from airflow.sdk.execution_time.comms import GetConnection

    return ask_api(GetConnection(conn_id=conn_id))


def ask_api(request: Any) -> Any:
    """Return the API server's answer to a task's request. AirflowRuntimeError if it is an error."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse

    answer = task_runner.SUPERVISOR_COMMS.send(request)
    if isinstance(answer, ErrorResponse):
        raise AirflowRuntimeError(answer)
    return answer


def look_up(connection_id: str, get: Callable[[str], Any] = task_connection) -> Connection | None:
    """Return a connection of Airflow, or None if it is not defined.

    `get` differs between a task and a terminal.
    Raises ConfigurationError if its extra is not JSON, which Airflow takes for an empty one.
    """
    try:
        found = get(connection_id)
    except AirflowNotFoundException:
        return None
    try:
        json.loads(found.extra or "{}")
    except (ValueError, RecursionError):
        raise ConfigurationError(
            f"connection {connection_id!r}: its extra is not valid JSON; correct it in Airflow, or "
            "where its secrets backend stores it"
        ) from None
    has_login = bool(found.login or found.password)
    return Connection(
        found.conn_type or "", found.host or "", found.port, found.extra_dejson, has_login
    )


class Variables:
    """Airflow's Variables, which mirror offsets."""

    def read(self, name: str) -> str | None:
        value = Variable.get(name, default=None)
        return None if value is None else str(value)

    def write(self, name: str, text: str) -> None:
        Variable.set(name, text, description=DESCRIPTION)
