"""The table of commands: what `--help` shows without importing a command."""

import inspect
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from tidegate.cli import commands, main
from tidegate.cli.commands import COMMANDS, GROUPS
from tools import command_reference


@pytest.mark.parametrize("module", COMMANDS)
def test_lines_are_those_of_the_docstrings(module: str) -> None:
    group = typer.main.get_group(import_module(f"tidegate.cli.{module}").app)
    name = module.replace("offset_commands", "offsets")
    own = {name: group} if name in ("offsets", "local") else group.commands
    said = {name: " ".join(str(each.help).split("\n\n")[0].split()) for name, each in own.items()}
    assert {name: line.says for name, line in COMMANDS[module].items()} == said
    assert [*COMMANDS[module]] == [*said]


def test_modules_with_commands_are_in_the_table() -> None:
    files = Path(inspect.getfile(commands)).parent.glob("*.py")
    assert {file.stem for file in files if "\n@app.command" in file.read_text()} == {*COMMANDS}


def test_examples_are_accepted() -> None:
    root = command_reference.whole()
    for name, line in ((n, line) for found in COMMANDS.values() for n, line in found.items()):
        for example in line.examples:
            words = shlex.split(example.partition(">")[0])
            command = root.commands[name]
            while hasattr(command, "commands"):
                command = command.commands[words.pop(0)]
            command.make_context(name, words)  # a usage error otherwise


def test_the_help_has_groups_and_each_command_its_examples() -> None:
    """By each of the three ways to ask for it."""
    asked = CliRunner().invoke(main.app, ["--help"]).output
    assert [group for group in GROUPS if group in asked] == [*GROUPS]
    ways = (["run", "--help"], ["run", "-h"], ["help", "run"])
    first, *others = (CliRunner().invoke(main.app, way).output for way in ways)
    assert "--all --jobs 2" in first
    assert others == [first, first]


def test_a_shell_completes_names_of_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "orders_out", "payments"):
        (tmp_path / f"{name}.yaml").touch()
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    environ = {"_TIDEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "tidegate run ord",
               "COMP_CWORD": "2"}  # fmt: skip
    done = CliRunner().invoke(main.app, [], env=environ, prog_name="tidegate")
    assert done.output.split() == ["orders", "orders_out"]
