"""Print the reference of all commands and options; docs/commands.md is what it prints."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click

from tidegate.cli.main import app


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group below a group, with its words on the command line."""
    for name, command in group.commands.items():
        yield (*names, name), command
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)


def whole() -> Any:
    """Return the command `tidegate` with every command loaded."""
    root: Any = typer.main.get_command(app)
    for name in [*root.commands]:
        root.load(name)
    return root


def text() -> str:
    """Return the reference in Markdown."""
    root = whole()
    for _, command in commands(root):
        command.short_help = command.help  # in lists of commands it would be cut
    context: Any = typer.Context(root)
    docs = get_docs_for_click(obj=root, ctx=context, name="tidegate", title="Command line")
    return html.unescape(docs).rstrip() + "\n"


if __name__ == "__main__":
    print(text(), end="")
