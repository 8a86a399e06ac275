"""Commands about pipeline files and their settings, without a broker, a lake or Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import render_settings
from tidegate.cli.console import Json, answer
from tidegate.core.printable import printable
from tidegate.errors import ConfigurationError
from tidegate.pipelines import files as pipeline_files
from tidegate.pipelines.yaml_reader import BadFile
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


@app.command()
def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Pipeline files; by default all pipelines.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check pipeline files without network: all complaints at once; exit 2 if there are any."""
    paths = files or sorted(pipeline_files.directory().glob("*.yaml"))
    if not paths:
        raise ConfigurationError(f"there are no pipeline files in {pipeline_files.directory()}")
    checked = [_validated(path) for path in paths]
    found = {"format": 1, "files": checked}
    answer(found, render_settings.print_validated, as_json=as_json)
    raise typer.Exit(2 if any(each["complaints"] for each in checked) else 0)


def _validated(path: Path) -> dict[str, Any]:
    try:
        found = pipeline_files.examine(path)
    except BadFile as error:
        return {"file": printable(str(path)), "complaints": [str(error)], "notices": []}
    unset = (f"{each}: not checked" for each in found.unset)
    return {
        "file": printable(str(path)),
        "complaints": list(found.complaints),
        "notices": [*unset, *getattr(found.spec, "notices", ())],
    }
