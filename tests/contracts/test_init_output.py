"""What `tidegate init` and `tidegate schema` print and write."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.golden import Golden
from tidegate.cli import main
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.editor_schema import editor_schema
from tidegate.pipelines.spec import Egress, Ingest

Tidegate = Callable[..., tuple[int, str, str]]
INGEST = ("init", "--name", "orders", "--topic", "orders")
EGRESS = ("init", "--kind", "egress", "--name", "out", "--topic", "t")


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def tidegate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tidegate:
    """Run a command, with what is typed if there is a terminal; its code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_PIPELINES", "pipelines")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TIDEGATE_LAKE", raising=False)

    def run(*args: str, typed: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.usefixtures("place")
def test_a_first_pipeline(tidegate: Tidegate, golden: Golden) -> None:
    """By options alone: nothing is asked. The file says where its schema is."""
    golden("init", tidegate(*INGEST))
    text = Path("pipelines/orders.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=pipeline.schema.json\n")
    assert max(map(len, text.splitlines())) <= 100
    spec = pipeline_files.load_spec(Path("pipelines/orders.yaml"), {"TIDEGATE_LAKE": "/lake"})
    assert spec == Ingest(name="orders", kind="ingest", topics=("orders",), lake="/lake")
    assert json.loads(Path("pipelines/pipeline.schema.json").read_text()) == editor_schema()
    code, out, _ = tidegate("validate")
    assert (code, out.splitlines()[0]) == (0, "pipelines/orders.yaml: valid")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((*INGEST, "--topic", "refunds", "--lake", "s3://b/lake", "--kafka", "k"),
         {"topics": ("orders", "refunds"), "lake": "s3://b/lake", "kafka": "k"}),
        ((*EGRESS, "--source", "orders"), {"source.lake": "orders"}),
        ((*EGRESS, "--source", "/in/*.csv", "--format", "csv", "--kafka", "k"),
         {"source.path": "/in/*.csv", "source.format": "csv", "target.kafka": "k",
          "target.topic": "t"}),
        (("init", "--name", "out", "--topic", "t", "--source", "orders"),
         {"kind": "egress", "source.lake": "orders"}),
        ((*INGEST[:2], "on", "--topic", "010"), {"name": "on", "topics": ("010",)}),
    ],
)  # fmt: skip
def test_other_answers(tidegate: Tidegate, args: tuple[str, ...], expected: dict[str, str]) -> None:
    """As they are given, whatever YAML would make of them."""
    assert tidegate(*args)[0] == 0
    (file,) = Path("pipelines").glob("*.yaml")
    spec = pipeline_files.load_spec(file, {"TIDEGATE_LAKE": "/lake"})
    for path, value in expected.items():
        found: object = spec
        for key in path.split("."):
            found = getattr(found, key)
        assert found == value


@pytest.mark.parametrize("args", [INGEST, (*EGRESS, "--source", "orders")], ids=["in", "out"])
def test_the_comments_are_keys_too(tidegate: Tidegate, args: tuple[str, ...]) -> None:
    """Each line that only needs its `#` removed, all of them together."""
    tidegate(*args)
    (file,) = Path("pipelines").glob("*.yaml")
    text, given = re.subn(r"(?m)^( *)# (\w+: .*)$", r"\1\2", _without_prose(file.read_text()))
    file.write_text(text)
    spec = pipeline_files.load_spec(file, {"TIDEGATE_LAKE": "/lake"})
    assert given >= 5
    assert isinstance(spec, Egress) or spec.schedule == "*/10 * * * *"


def _without_prose(text: str) -> str:
    """Return a text without the comments that are sentences."""
    return "\n".join(line for line in text.splitlines() if not re.match(r" *# .*(\.|json)$", line))


def test_an_existing_file_stays(tidegate: Tidegate, golden: Golden) -> None:
    """And so does a schema that is there."""
    Path("pipelines").mkdir()
    Path("pipelines/orders.yaml").write_text("mine")
    Path("pipelines/pipeline.schema.json").write_text("mine")
    golden("init", tidegate(*INGEST))
    assert tidegate("init", "--name", "other", "--topic", "t")[0] == 0
    Path("pipelines/third.yaml").symlink_to("away.yaml")  # which a look does not see
    assert tidegate("init", "--name", "third", "--topic", "t")[0] == 2
    assert not Path("pipelines/away.yaml").exists()
    assert Path("pipelines/orders.yaml").read_text() == "mine"
    assert Path("pipelines/pipeline.schema.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "give --name, --topic, or run this in a terminal"),
        (("--name", "out", "--kind", "egress"), "give --topic, --source, --format, or run this"),
        ((*EGRESS[1:], "--source", "/in"), "give --format, or run this in a terminal"),
        ((*EGRESS[1:], "--source", "a", "--topic", "u"), "give one --topic: several need "),
        (("--name", "o", "--topic", "t", "--format", "csv"), "give --source, or run this"),
        (("--name", "o", "--kind", "ingest", "--topic", "t", "--source", "/in", "--format", "csv"),
         "--source, --format: of an egress; give --kind egress"),
        (("--name", "../x"), "nothing was written:\n  - name: '../x': a name"),
        (("--name", "../x", "--topic", "t"), "nothing was written:\n  - name: '../x': a name"),
        (("--name", "x", "--topic", "a/b", "--lake", "l"), "  - lake: 'l': neither an absolute"),
    ],
)  # fmt: skip
def test_what_cannot_be_written(tidegate: Tidegate, args: tuple[str, ...], says: str) -> None:
    """Nothing is asked where there is no terminal; no file is left behind."""
    code, out, err = tidegate("init", *args)
    assert (code, out, says in err) == (2, "", True), err
    assert not Path("pipelines").exists()


def test_a_place_that_cannot_be_written_to(tidegate: Tidegate) -> None:
    Path("pipelines").touch()
    code, _, err = tidegate(*INGEST)
    assert (code, err) == (
        2,
        "ConfigurationError: pipelines/orders.yaml was not written: File exists\n",
    )
    code, _, err = tidegate("schema", "--output", "away/s.json")
    assert (code, err) == (
        2,
        "ConfigurationError: away/s.json was not written: No such file or directory\n",
    )


def test_questions_on_a_terminal(tidegate: Tidegate) -> None:
    """What no option says; an empty answer takes the default."""
    typed = "orders\n\norders, refunds\n/lake\n\n"
    code, out, err = tidegate("init", typed=typed)
    assert (code, "wrote pipelines/orders.yaml\n" in out) == (0, True)
    for question in ("Name of the pipeline:", "Kind (ingest, egress) [ingest]:", "Topics, with"):
        assert question in err
    spec = pipeline_files.load_spec(Path("pipelines/orders.yaml"), {})
    assert spec == Ingest(name="orders", kind="ingest", topics=("orders", "refunds"), lake="/lake")


def test_questions_about_an_egress(tidegate: Tidegate) -> None:
    """A kind that does not exist is asked for again."""
    typed = "out\nboth\negress\nt\n/in\njson\n/lake\nkafka_b\n"
    code, _, err = tidegate("init", typed=typed)
    assert code == 0, err
    spec = pipeline_files.load_spec(Path("pipelines/out.yaml"), {})
    assert isinstance(spec, Egress)
    assert (spec.source.path, spec.source.format, spec.kafka) == ("/in", "json", "kafka_b")


def test_columns_are_proposed_for_json(tidegate: Tidegate, tmp_path: Path) -> None:
    """As a comment: a line of another type would be a bad row."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.json").write_text('{"id":1,"name":"x"}\n')
    options = ["--topic", "t", "--format", "json", "--lake", "/lake", "--kafka", "k"]
    assert tidegate("init", "--name", "out", "--source", str(source), *options)[0] == 0
    text = Path("pipelines/out.yaml").read_text()
    assert (
        "# For expressions that name keys of JSON; by the first lines of the files:\n"
        f"# source: {{columns: 'id BIGINT, name STRING', format: json, path: {source}}}\n"
    ) in text
    assert isinstance(pipeline_files.load_spec(Path("pipelines/out.yaml"), {}), Egress)


def test_a_terminal_is_not_asked_for_what_options_say(tidegate: Tidegate) -> None:
    assert tidegate(*INGEST, typed="")[0] == 0


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("orders\n", "ConfigurationError: pipelines/orders.yaml exists, and stays as it is: "),
        ("../x\n", "ConfigurationError: nothing was written:\n  - name: '../x': a name begins"),
    ],
)
def test_a_name_is_judged_before_the_next_question(
    tidegate: Tidegate, typed: str, says: str
) -> None:
    Path("pipelines").mkdir()
    Path("pipelines/orders.yaml").write_text("mine")
    code, _, err = tidegate("init", typed=typed)
    assert (code, says in err, "Kind (" in err) == (2, True, False)


def test_a_terminal_is_asked_for_what_an_egress_lacks(tidegate: Tidegate) -> None:
    """A source says that it is one."""
    args = ("init", "--name", "out", "--topic", "t", "--source", "/in")
    code, _, err = tidegate(*args, typed="csv\n\n\n")
    assert (code, "Kind (" in err) == (0, False)
    spec = pipeline_files.load_spec(Path("pipelines/out.yaml"), {"TIDEGATE_LAKE": "/lake"})
    assert isinstance(spec, Egress)
    assert (spec.source.path, spec.source.format) == ("/in", "csv")


def test_the_schema(tidegate: Tidegate, golden: Golden) -> None:
    code, out, err = tidegate("schema")
    assert (code, json.loads(out), err) == (0, editor_schema(), "")
    golden("schema", tidegate("schema", "--output", "s.json"))
    assert json.loads(Path("s.json").read_text()) == editor_schema()
