"""What commands share: their usual arguments, and the master of Spark."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import ConfigurationError
from tidegate.pipelines.spec import Spec

if TYPE_CHECKING:
    from tidegate.runs.submission import Submission

Pipeline = Annotated[str, typer.Argument(help="The name of a file in the pipelines' directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]


def new_run_id() -> str:
    return f"manual__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}__{secrets.token_hex(3)}"


def submitter(spec: Spec) -> Callable[[Submission], None]:
    """Return what runs a Spark application for this pipeline, its output on stderr."""
    from tidegate.runs import submission

    def submit(given: Submission) -> None:
        master = spark_master(spec)
        submission.submit(given, master=master, log=lambda line: print(line, file=sys.stderr))

    return submit


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
