"""The Spark provider's hook, for a connection that Tidegate has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection

from tidegate.launch.spark_connection import SparkConnection


class ConnectedHook(SparkSubmitHook):  # type: ignore[misc]  # Airflow is not read by mypy
    """Gets of a connection only the master: the submission has the rest.

    The provider would add the keys of the connection a second time, and refuses `spark-home`. For a
    master on Kubernetes, also in client mode, it needs another provider, and takes a run without a
    line of output for a failed one: therefore it first gets a local master. `env` is the
    environment of spark-submit, on every master: the provider's own `env_vars` are in the command
    line on YARN and Kubernetes, and on the latter nowhere else.
    """

    def __init__(self, spark: SparkConnection, env: Mapping[str, str], **kwargs: Any) -> None:
        # In cluster mode the submission's settings say so. The provider would log a line for each
        # line of the output, and call the program `yarn`.
        mode = None if spark.is_cluster else "client"
        super().__init__(conn_id=spark.id, deploy_mode=mode, **kwargs)
        self._env = dict(env)
        self._connection["master"] = spark.master

    def get_connection(self, conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, conn_type="spark", host="local")
