"""Arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.errors import TidegateError


def _named(text: str | None) -> str | None:
    from tidegate.pipelines import pipeline_files

    return text and pipeline_files.name_of(text)


def all_named(texts: list[str] | None) -> list[str]:
    """Return the names of pipelines that are given by name or file."""
    return [name for text in texts or () if (name := _named(text))]


def complete_name(incomplete: str) -> list[str]:
    """Return the pipelines that a shell may complete a word to."""
    from tidegate.pipelines import pipeline_files

    try:
        return [name for name in pipeline_files.pipeline_names() if name.startswith(incomplete)]
    except TidegateError:  # there is no directory of pipelines
        return []


Pipeline = Annotated[
    str,
    typer.Argument(
        callback=_named,
        autocompletion=complete_name,
        help="The name of a file in the pipelines' directory.",
    ),
]
OneOrAll = Annotated[
    str | None,
    typer.Argument(
        callback=_named, autocompletion=complete_name, help="One pipeline. By default all."
    ),
]
Several = Annotated[
    list[str] | None,
    typer.Argument(
        callback=all_named, autocompletion=complete_name, help="Names of pipelines to run."
    ),
]
MaxRecords = Annotated[int | None, typer.Option(min=1, help="Offsets per commit.")]
MaxChunks = Annotated[
    int | None, typer.Option(min=1, help="At most this many commits, soonest-expiring first.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, logs on stderr.")]
