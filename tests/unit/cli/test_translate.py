"""`tidegate translate`: the file on stdout, notes on stderr, exit 0 or 2."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import main
from tidegate.pipelines import files

JOB = '{"subscribe": "on", "nonsense": "x"}'


@pytest.fixture
def translate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Translate a text from stdin, or a file; return exit code, stdout and stderr."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "nowhere"))

    def run(text: bytes = b"", file: str = "-", *more: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "translate", file, *more])
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


def test_a_new_file(translate: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """Its name is the pipeline's, so `tidegate validate` takes it; it is never written over."""
    file = tmp_path / "orders.yaml"
    code, out, err = translate(JOB.encode(), "-", "--output", str(file))
    written = file.read_text()
    assert (code, out) == (0, "")
    assert err.startswith("orders: 2 settings mapped")
    assert err.endswith(f"refused; wrote {file}\n")
    assert "\nname: orders\nkind: ingest\n" in written
    assert "include/pipelines/orders.yaml" in written.splitlines()[0]
    assert files.load(file, {"TIDEGATE_LAKE": "/lake"}).name == "orders"
    code, out, err = translate(JOB.encode(), "-", "-o", str(file))
    assert (code, out, file.read_text()) == (2, "", written)
    assert "was not written: File exists" in err


def test_no_file_of_what_cannot_be_translated(
    translate: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "orders.yaml"
    code, out, _ = translate(b"Dear all", "-", "--output", str(file))
    assert (code, out, file.exists()) == (2, "", False)


def test_a_new_file_with_a_to_do(
    translate: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "orders.yaml"
    code, out, err = translate(b"fetch.min.bytes=1\n", "-", "--output", str(file))
    assert (code, out) == (2, "")
    assert err.startswith("to do: topics: ")
    assert "# TO DO: topics: " in file.read_text()


def test_a_name(translate: Callable[..., tuple[int, str, str]]) -> None:
    """Also in the commands of a backfill that the file has."""
    text = b'{"subscribe": "t", "startingTimestamp": "0", "endingTimestamp": "1000"}'
    code, out, err = translate(text, "-", "--name", "orders")
    assert code == 0
    assert "\nname: orders\n" in out
    assert "# tidegate backfill orders --topic t" in out
    assert "save it as orders.yaml" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--name", "Orders"), "'Orders' is no name of a pipeline"),
        (("--output", "Orders.yaml"), "'Orders' is no name of a pipeline"),
        (("--output", "orders.yml"), "--output: orders.yml: the file is NAME.yaml"),
        (("--output", "a.yaml", "--name", "b"), "--output: a.yaml: the file is b.yaml"),
    ],
)
def test_names_that_no_pipeline_has(
    options: tuple[str, ...],
    says: str,
    translate: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = translate(JOB.encode(), "-", *options)
    assert (code, out, list(tmp_path.glob("*.y*ml"))) == (2, "", [])
    assert says in err
