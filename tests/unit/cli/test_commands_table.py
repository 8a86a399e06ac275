"""The table of commands: what `--help` shows without importing a command."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest
import typer.main

from tidegate.cli import commands
from tidegate.cli.commands import COMMANDS


@pytest.mark.parametrize("module", COMMANDS)
def test_lines_are_those_of_the_docstrings(module: str) -> None:
    group = typer.main.get_group(import_module(f"tidegate.cli.{module}").app)
    name = module.replace("offset_commands", "offsets")
    own = {name: group} if name in ("offsets", "local") else group.commands
    said = {name: " ".join(str(each.help).split("\n\n")[0].split()) for name, each in own.items()}
    assert list(COMMANDS[module].items()) == list(said.items())


def test_modules_with_commands_are_in_the_table() -> None:
    files = Path(inspect.getfile(commands)).parent.glob("*.py")
    assert {file.stem for file in files if "\n@app.command" in file.read_text()} == {*COMMANDS}
