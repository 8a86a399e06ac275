"""`tidegate demo`: the whole of it on this machine, with real data."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.local import require_packages
from tidegate.terminal.console import out
from tidegate_local.home import Store, default_home

app = typer.Typer()


@app.command()
def demo(
    store: Annotated[Store | None, typer.Option(help="Use a lake in a bucket.")] = None,
) -> None:
    """Start Kafka and Airflow locally, ingest a year of real flights, and verify the lake."""
    require_packages()
    from tidegate_local.demo import demo as show

    home = default_home(store or "")
    show(home, say=lambda line: out.print(line, markup=False, soft_wrap=True), store=store or "")
