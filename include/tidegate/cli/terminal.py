"""What commands share: their usual arguments, and the master of Spark."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Annotated

import typer

from tidegate.errors import ConfigurationError
from tidegate.pipelines.spec import Spec

Pipeline = Annotated[str, typer.Argument(help="The name of a file in the pipelines' directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]


def spark_master(spec: Spec) -> str:
    """Return the master of AIRFLOW_CONN_<ID> in JSON form; local[*] where it is not set."""
    name = f"AIRFLOW_CONN_{spec.spark.connection.upper()}"
    text = os.environ.get(name)
    if text is None:
        if spec.spark.connection == "spark_default":
            return "local[*]"
        raise ConfigurationError(
            f"Spark connection {spec.spark.connection!r} is not defined: set {name} to "
            '\'{"conn_type": "spark", "host": "local[2]"}\''
        )
    with contextlib.suppress(ValueError, KeyError, TypeError):
        form = json.loads(text)
        port = f":{form['port']}" if form.get("port") else ""
        return f"{form['host']}{port}"
    raise ConfigurationError(f"{name} is not a connection in JSON form with a host")
