"""`tidegate demo`: the whole of it on this machine, with real data."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.local import require_packages
from tidegate.terminal.console import out

app = typer.Typer()


@app.command()
def demo(
    on_s3: Annotated[bool, typer.Option("--s3", help="Use a lake in an S3 bucket.")] = False,
) -> None:
    """Start Kafka and Airflow locally, ingest a year of real flights, and verify the lake."""
    require_packages()
    from tidegate_local.demo import demo as show
    from tidegate_local.home import default_home

    home = default_home(on_s3=on_s3)
    show(home, say=lambda line: out.print(line, markup=False, soft_wrap=True), on_s3=on_s3)
