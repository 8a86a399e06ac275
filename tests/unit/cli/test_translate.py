"""`tidegate translate`: the file on stdout, notes on stderr, exit 0 or 2."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import main

JOB = 'spark.read.format("kafka").option("subscribe", "on").option("nonsense", "x").load()'


@pytest.fixture
def translate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Translate a text from stdin, or a file; return exit code, stdout and stderr."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "nowhere"))

    def run(text: bytes = b"", file: str = "-") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "translate", file])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_a_job(translate: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = translate(JOB.encode())
    assert code == 0
    assert "\nname: 'on'\nkind: ingest\n# subscribe\ntopics: ['on']\n" in out
    assert err == (
        "on: 2 settings mapped, 0 dropped, 1 refused; save it as on.yaml beside the other "
        "pipelines\n"
    )


def test_a_file(translate: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """Its name is the pipeline's, where nothing else gives one."""
    file = tmp_path / "Consumer A.properties"
    file.write_text("fetch.min.bytes=x\n")
    code, out, err = translate(file=str(file))
    assert code == 2
    assert "\nname: consumer_a\n" in out
    assert "# TO DO: topics: no topic is named" in out
    assert err.startswith("to do: topics: no topic is named: add `topics: [NAME]` to the file\n")


def test_what_is_none_of_these(translate: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = translate(b"Dear all")
    assert (code, out) == (2, "")
    assert err.startswith("ConfigurationError: stdin: neither the options of a Spark job")


@pytest.mark.parametrize("name", ["", "no\nsuch\x1b[0m"])
def test_a_file_that_cannot_be_read(
    name: str, translate: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """A directory, or none at all."""
    code, out, err = translate(file=str(tmp_path / name))
    assert (code, out) == (2, "")
    assert "cannot be read: " in err
    assert "\x1b" not in err
