"""Help, the version, and names that do not exist: the nearest one is offered."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tidegate import __version__
from tidegate.cli import main
from tools.command_reference import commands


@pytest.fixture
def tidegate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command beside one pipeline, `flights`; return its exit code, stdout and stderr."""
    form = {"name": "flights", "kind": "ingest", "topics": ["flights"], "lake": str(tmp_path)}
    (tmp_path / "flights.yaml").write_text(json.dumps(form))
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_the_version(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    assert tidegate("--version") == (0, f"tidegate {__version__}\n", "")


def test_airflow_is_imported_silently(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    """Its notes about its own configuration are no output of a command."""
    tidegate("--version")
    assert not logging.getLogger("airflow.settings").isEnabledFor(logging.INFO)


def test_no_command(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    """The help, and nothing else."""
    code, out, err = tidegate()
    assert (code, "--version" in out, err) == (2, True, "")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("statsu",), "No such command 'statsu'. Did you mean 'status'?"),
        (("offsets", "shwo"), "No such command 'shwo'. Did you mean 'show'?"),
        (("status", "fligths"), "; there are: flights; did you mean 'flights'?"),
        (("run", "include/pipelines/flights.yaml"), "; did you mean 'flights'?"),
        (("run", "flights", "--max-record", "5"), "--max-records"),
    ],
)
def test_the_nearest_name(
    tidegate: Callable[..., tuple[int, str, str]], args: tuple[str, ...], says: str
) -> None:
    code, out, err = tidegate(*args)
    assert (code, out, says in err) == (2, "", True), err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("run",), "Missing argument 'pipeline'."),
        (("replay", "flights"), "Missing option '--replay-id'."),
        (("quarantine",), "No such command 'quarantine'."),
        (("release", "flights", "--how", "x", "--reason", "y"), None),
    ],
)
def test_wrong_use(
    tidegate: Callable[..., tuple[int, str, str]], args: tuple[str, ...], says: str | None
) -> None:
    """One line, however long it is."""
    code, out, err = tidegate(*args)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    # Of an argument's name, an older typer makes capitals.
    assert says is None or err.lower() == f"Usage: {says}\n".lower()


def test_help_at_80_columns(
    tidegate: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer, and none of a command's texts, options and arguments is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    for names, command in commands(typer.main.get_command(main.app)):
        code, out, err = tidegate(*names, "--help")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert max(map(len, lines)) <= 80, names
        shown = " ".join(re.sub("[│╭╮╰╯─]", " ", out).split())
        assert command.help in shown
        for each in command.params:
            assert all(f"{name} " in shown for name in (*each.opts, *each.secondary_opts)), names
        assert "…" not in shown.replace("--reason …", ""), names
