"""Commands about pipeline files and their settings, without a broker, a lake or Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import render_settings
from tidegate.cli.console import Json, answer
from tidegate.settings.table import TABLE, named

app = typer.Typer()


@app.command()
def settings(
    name: Annotated[
        str | None,
        typer.Argument(help="One setting, in any letter case, with or without `kafka.`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which settings of Kafka and Spark a pipeline file takes, and why others not."""
    if name is None:
        answer(render_settings.document(TABLE), render_settings.print_table, as_json=as_json)
    else:
        found = render_settings.document(named(name))
        answer(found, render_settings.print_named, as_json=as_json)
