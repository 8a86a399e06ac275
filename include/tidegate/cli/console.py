"""What commands share: their usual arguments, and how they answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

Pipeline = Annotated[str, typer.Argument(help="The name of a file in the pipelines' directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]

# Done, try again, correct the configuration, refused: a script that retries on 4 must not hide a 3.
_SEVERITY = (0, 4, 2, 3)

out = Console()
err = Console(stderr=True)


def answer(told: Any, tell: Callable[[Any], None], *, as_json: bool) -> None:
    """Print a document, or tell people what it says."""
    if as_json:
        print(json.dumps(told))
    else:
        tell(told)


def worst(*codes: int) -> int:
    """Return the exit code of several pipelines: what needs action beats what may pass."""
    return max(codes, key=_SEVERITY.index)


def end_with(*codes: int) -> None:
    """End the command with the worst of these exit codes, unless all is done."""
    if code := worst(*codes):
        raise typer.Exit(code)
