"""Help, the version, and names that do not exist: the nearest one is offered."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import __version__
from tidegate.cli import main
from tools.command_reference import commands, whole


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


def test_a_file_in_a_directory_below_is_named(
    tidegate: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """It is not read: a pipeline has one place."""
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts/orders.yml").touch()
    code, _, err = tidegate("status", "orders")
    assert (code, "the one in drafts/ is not read" in err) == (2, True)
    assert "is not read" not in tidegate("status", "refunds")[2]


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
        (("run", "nowhere/flights.yaml"), "nowhere/flights.yaml is not in "),
        (("run", "flights", "--max-record", "5"), "--max-records"),
        (("run",), "name one pipeline or several, or give --all"),
        (("run", "--all", "--run-id", "r"), "are for one pipeline"),
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
    for names, command in commands(whole()):
        code, out, err = tidegate(*names, "--help")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert max(map(len, lines)) <= 80, names
        shown = " ".join(re.sub("[│╭╮╰╯─]", " ", out).split())
        assert " ".join(command.help.split()) in shown
        for each in command.params:
            assert all(f"{name} " in shown for name in (*each.opts, *each.secondary_opts)), names
        assert "…" not in shown.replace("--reason …", ""), names


def test_a_file_stands_for_its_pipeline(
    tidegate: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is in the directory of the pipeline files; `validate` takes names, too."""
    assert tidegate("validate", "flights") == tidegate("validate", str(tmp_path / "flights.yaml"))
    monkeypatch.chdir(tmp_path)
    no_lake = (2, "", f"ConfigurationError: there is no lake at file://{tmp_path}/flights: ")
    for given in ("flights", "flights.yaml", "./flights.yaml", str(tmp_path / "flights.yaml")):
        code, out, err = tidegate("files", given)
        assert (code, out, err[: len(no_lake[2])]) == no_lake, given
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.yaml").write_text("")
    code, _, err = tidegate("files", "other/x.yaml")
    assert (code, f"set TIDEGATE_PIPELINES to {tmp_path}/other" in err) == (2, True)


def test_both_endings_are_pipeline_files(
    tidegate: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    form = {"name": "other", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}
    (tmp_path / "other.yml").write_text(json.dumps(form))
    for command in (("validate",), ("validate", "other"), ("offsets", "show", "other")):
        assert tidegate(*command)[0] == 0, command
    (tmp_path / "other.yaml").write_text(json.dumps(form))
    code, _, err = tidegate("offsets", "show", "other")
    assert (code, err) == (
        2,
        "ConfigurationError: pipeline 'other' has two files, other.yaml and other.yml: remove "
        "one\n",
    )
