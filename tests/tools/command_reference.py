"""Print the reference of all commands and options; docs/commands.md is what it prints."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click

from tidegate.cli.commands import GROUPS
from tidegate.cli.main import app

_INTRODUCTION = """\
# Commands

A command with `-h` shows the same in a terminal. \
`tidegate --install-completion` lets your shell complete commands and names of pipelines. \
`tidegate --version` prints the version. Exit codes: [errors](errors.md#exit-codes).
"""


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
    """Return the reference in Markdown, by groups of commands."""
    listed = typer.main.get_command(app)
    panels = {name: each.rich_help_panel for name, each in listed.commands.items()}  # type: ignore[attr-defined]
    root = whole()
    for _, command in commands(root):
        command.short_help = command.help  # in lists of commands it would be cut
    parts = [_INTRODUCTION]
    for group in GROUPS:
        parts.append(f"## {group}\n")
        parts += [_section(root.commands[name]) for name, of in panels.items() if of == group]
    return "\n".join(parts)


def _section(command: Any) -> str:
    """Return what the reference says of a command, without the option that all have."""
    context: Any = typer.Context(command)
    found = get_docs_for_click(
        obj=command, ctx=context, indent=2, name=command.name, call_prefix="tidegate"
    )
    found = re.sub(
        r"\* `-?-?h?,? ?--help`: Show this message and exit.\n", "", html.unescape(found)
    )
    found = re.sub(r"^(tidegate .*)$", r"`\1`", found, flags=re.MULTILINE)
    return found.replace("**Options**:\n\n\n", "").rstrip() + "\n"


if __name__ == "__main__":
    print(text(), end="")
