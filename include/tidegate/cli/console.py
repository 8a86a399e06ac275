"""Common arguments, output and exit codes of the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tidegate.errors import TidegateError

Pipeline = Annotated[str, typer.Argument(help="The name of a file in the pipelines' directory.")]
OneOrAll = Annotated[str | None, typer.Argument(help="One pipeline; by default all.")]
MaxRecords = Annotated[int | None, typer.Option(min=1, help="Offsets per commit.")]
MaxChunks = Annotated[
    int | None, typer.Option(min=1, help="At most this many commits, soonest-expiring first.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]

# In rising severity: a script that retries on 4 must not hide a 1, 2 or 3.
_SEVERITY = (0, 4, 1, 2, 3)

out = Console()
err = Console(stderr=True)


def say(text: str | Text, *, soft_wrap: bool = False) -> None:
    """Print a line of the result on stdout."""
    out.print(text, markup=False, highlight=False, soft_wrap=soft_wrap)


def note(text: str, style: str | None = None, *, soft_wrap: bool = False) -> None:
    """Print a progress line or a warning on stderr."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=soft_wrap)


def bold(name: str, text: str = "") -> Text:
    """Return a name in bold, and the text that follows it."""
    return Text.assemble((name, "bold"), text)


def answer(document: Any, show: Callable[[Any], None], *, as_json: bool) -> None:
    """Print a document as JSON, or show it to a person."""
    if as_json:
        print(json.dumps(document))
    else:
        show(document)


def error_form(error: Exception) -> dict[str, Any]:
    """Return the public form of an error; one that is not Tidegate's own is `Internal`."""
    if isinstance(error, TidegateError):
        return error.to_json()
    message = f"{type(error).__name__}: {error}"
    return {"name": "Internal", "kind": "terminal", "message": message, "numbers": {}}


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that ends with this error."""
    return error.exit_code if isinstance(error, TidegateError) else 1


def worst(*codes: int) -> int:
    """Return the most severe of the exit codes of several pipelines."""
    return max(codes, key=_SEVERITY.index)
