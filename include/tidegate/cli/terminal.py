"""What commands share: their usual arguments, and how they answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

Pipeline = Annotated[str, typer.Argument(help="The name of a file in the pipelines' directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]

out = Console()
err = Console(stderr=True)


def answer(told: Any, tell: Callable[[Any], None], *, as_json: bool) -> None:
    """Print a document, or tell people what it says."""
    if as_json:
        print(json.dumps(told))
    else:
        tell(told)
