"""The docs say what is there: names, keys, options, links, files and examples."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import old_broker
from support.cases import each_of
from support.declared_packages import packages
from support.doc_pages import DOCS, FENCED, PROJECT, anchor, fenced, named, page
from tidegate import errors, faults
from tidegate.broker import delegation_token
from tidegate.core import canonical, columns, layout, value_texts
from tidegate.core.entries import KINDS, Commit, Reference
from tidegate.core.java_client import DelegationToken
from tidegate.core.plan import Plan
from tidegate.lake.attempts import Manifest
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore
from tidegate.launch import jars
from tidegate.pipelines.airflow_spec import AirflowSettings, Told
from tidegate.pipelines.spec import Columns, Egress, Ingest, Source, Spark, StartAt, Target
from tools import (
    benchmarks_page,
    command_reference,
    errors_reference,
    ports_reference,
    settings_reference,
    versions_page,
)

README, CONFIGURATION, STORAGE, JSON = map(
    page,
    (
        "README.md",
        "docs/configuration.md",
        "docs/internals/storage.md",
        "docs/json.md",
    ),
)
RUN_KEY = layout.run_key("tidegate__flights", "demo-1")


def ingest_keys() -> Iterator[str]:
    yield from Ingest.model_fields
    yield from (f"spark.{key}" for key in Spark.model_fields)
    yield from (f"start.{key}" for key in StartAt.model_fields)


def airflow_keys() -> Iterator[str]:
    yield from (f"airflow.{key}" for key in AirflowSettings.model_fields)
    yield from (f"airflow.on_failure.{key}" for key in Told.model_fields)


def egress_keys() -> Iterator[str]:
    shared = {"name", "kind", "schedule", "spark", "retries", "airflow"}
    yield from Egress.model_fields.keys() - shared
    for group, model in (("source", Source), ("target", Target), ("columns", Columns)):
        yield from (f"{group}.{key}" for key in model.model_fields)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code forges make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return set(map(anchor, headings))


def test_the_table_of_texts_is_that_of_the_code() -> None:
    assert value_texts.table_page() in CONFIGURATION


def test_the_page_of_errors_is_up_to_date() -> None:
    """It is generated: `.venv/bin/python tests/tools/errors_reference.py > docs/errors.md`."""
    assert page("docs/errors.md") == errors_reference.text()


@each_of(errors_reference.classes())
def test_every_error_has_its_way_out(cls: type[errors.TidegateError]) -> None:
    """Its own one: a class inherits none."""
    assert vars(cls).get("fix", "").endswith(".")


def test_the_page_of_delegation_tokens_names_every_setting() -> None:
    """Tidegate's, and each of Spark's that says how a token is obtained or used."""
    text = page("docs/how-to/delegation-tokens.md")
    token = DelegationToken(
        "k",
        "k",
        "b:9",
        "b:9",
        "SASL_SSL",
        "SCRAM-SHA-512",
        {"sasl.kerberos.service.name": "kafka"},
        "/ca",
    )
    prefix = "spark.kafka.clusters.k."
    named_ = {*delegation_token.NAMES, *(name.removeprefix(prefix) for name in token.conf())}
    named_ |= {f"ssl.{of}store.{part}" for of in ("key", "trust") for part in ("location", "type")}
    named_ |= {"spark.kafka.clusters.<id>.*", "spark.security.credentials.kafka.enabled"}
    assert {name for name in named_ if f"`{name}`" not in text} == set()


@pytest.mark.parametrize(
    ("heading", "keys", "model"),
    [
        ("## Pipeline file", ingest_keys, Ingest),
        ("## Egress pipeline", egress_keys, Egress),
        ("### Settings of the DAG", airflow_keys, None),
    ],
    ids=["ingest", "egress", "airflow"],
)
def test_the_tables_of_keys(heading: str, keys: Any, model: Any) -> None:
    """Every key is described, none that does not exist; the defaults are those of the spec."""
    table = re.split(r"^##+ ", CONFIGURATION.partition(f"\n{heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `([\w.]+)` \|[^|]*\|([^|]*)\|.*\|$", table, re.MULTILINE)
    assert {key for key, _ in rows} == set(keys())
    for key, cell in rows:
        stated, field = cell.strip(" `"), model and model.model_fields.get(key)
        if field is None or key in ("spark", "airflow", "columns", "tombstones"):
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(default, tuple):
            default = f"[{', '.join(default)}]"
        elif key == "file_size":
            default = f"{default >> 20}MB"
        default = "needed" if field.is_required() else str(default)
        assert stated == ("none" if default == "None" else default), key


def test_the_reference_of_commands_is_up_to_date() -> None:
    """It is generated: `.venv/bin/python tests/tools/command_reference.py > docs/commands.md`."""
    assert page("docs/commands.md") == command_reference.text()


def test_the_reference_of_settings_is_up_to_date() -> None:
    """It is generated: `.venv/bin/python tests/tools/settings_reference.py > docs/settings.md`."""
    assert page("docs/settings.md") == settings_reference.text()


def test_the_page_of_ports():
    """`tests/tools/ports_reference.py` prints it."""
    assert page("docs/internals/ports.md") == ports_reference.text()


def test_the_page_of_versions_is_up_to_date() -> None:
    """It is generated: `.venv/bin/python tests/tools/versions_page.py > docs/versions.md`."""
    assert page("docs/versions.md") == versions_page.text()


def test_the_page_of_benchmarks_is_up_to_date() -> None:
    """By `tests/tools/benchmarks_page.py`, and its figure with `--svg`."""
    assert page("docs/benchmarks.md") == benchmarks_page.text()
    assert (PROJECT / "docs/img/benchmarks.svg").read_text() == benchmarks_page.svg()


def test_the_table_of_tried_brokers() -> None:
    """Its versions are those of the locks, and those that the slow test starts."""
    table = page("docs/how-to/install.md").partition("## Kafka brokers")[2].partition("\n## ")[0]
    rows = [
        [c.strip() for c in row.split("|")[1:-1]] for row in re.findall(r"^\|.*\|$", table, re.M)
    ]
    tried = {row[0]: tuple(row[2:6]) for row in rows[2:]}
    spark = {jar.artifact: jar.version for jar in jars.read_lock("spark-kafka")}
    python = re.search(r"^kafka-python==(\S+)", (PROJECT / "requirements.txt").read_text(), re.M)
    assert python
    clients = (python[1], spark["kafka-clients"], spark["spark-sql-kafka-0-10_2.13"])
    refused, *works = (tried.pop(v) for v in (old_broker.TOO_OLD, *old_broker.LOCKED))
    assert refused == (python[1], "", "", "refused")
    assert set(works) == {(*clients, "works")}
    assert tried == {old_broker.LOCAL: (*clients, "works; that of the local stack")}
    for version in (old_broker.TOO_OLD, *old_broker.LOCKED):
        name = f"kafka-{version}.lock"
        locked = jars.parse_lock((PROJECT / "tests/support" / name).read_text(), source=name)
        assert {j.version for j in locked if j.group == "org.apache.kafka"} == {version}


@each_of(DOCS, named)
def test_links_lead_somewhere(path: Path) -> None:
    """Relative ones: the file is there, and so is the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", path.read_text())):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        assert not heading or heading in anchors(file.read_text()), target


@each_of(DOCS, named)
def test_files_that_are_named_exist(path: Path) -> None:
    """Tests above all: a guarantee whose test is gone is none."""
    for name in re.findall(r"`((?:tests|docs|include|dags|plugins|spark_jobs)/[^`\s]*\w)`",
                           path.read_text()):  # fmt: skip
        file, _, test = name.partition("::")
        assert list(PROJECT.glob(file)), name
        assert not test or f"\ndef {test}(" in page(file), name


def test_every_scenario_of_spark_has_its_test() -> None:
    """Each row of the page of conformance that has a result; and every test of the directory."""
    text = page("docs/internals/conformance.md")
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    scenarios = [row for row in rows if row[0] not in ("Scenario", "Behaviour", "---")]
    assert len(scenarios) > 40
    for scenario, tests, result in scenarios:
        assert "::test_" in tests, scenario
        assert re.match("as in Spark|differs: |refused", result), scenario
    for file in PROJECT.glob("tests/integration/conformance/test_*.py"):
        for test in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE):
            assert f"`{named(file)}::{test}`" in text, test


@each_of(DOCS, named)
def test_make_targets_exist(path: Path) -> None:
    """Whatever `make …` a page tells people to type."""
    known = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", path.read_text())) <= known


def test_the_readme_begins_with_two_commands() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", fenced(README, "")[0]))
    assert len(README.splitlines()) < 130


def test_fault_points_are_listed() -> None:
    """All that the code passes, and no other."""
    sources = [path.read_text() for path in (PROJECT / "include").rglob("*.py")]
    calls = [call for text in sources for call in re.findall(r"faults\.point\((.*)\)", text)]
    passed = {name for call in calls for name in re.findall(r'"([\w.]+)"', call)}
    chapter = page("docs/internals/fault-points.md")
    assert set(re.findall(r"^\| `([\w.]+)` \|", chapter, re.MULTILINE)) == passed
    assert faults.VARIABLE in chapter


def test_every_package_has_its_reason() -> None:
    adr = page("docs/internals/adr/0002-dependencies.md")
    assert set(re.findall(r"^\| `([\w-]+)` \|", adr, re.MULTILINE)) == packages()


@each_of(sorted(PROJECT.glob("docs/internals/adr/0*.md")), named)
def test_a_decision_says_when_it_is_violated(path: Path) -> None:
    *_, last = path.read_text().strip().splitlines()
    assert last.startswith("**A change violates this when")


# The examples of docs/internals/storage.md and docs/json.md, read by the code


def example(heading: str, number: int = 0, page: str = STORAGE) -> Any:
    chapter = re.split(rf"^##+ {heading}$", page, flags=re.MULTILINE)[1]
    return json.loads(fenced(re.split(r"^##", chapter, flags=re.MULTILINE)[0], "json")[number])


def entries() -> list[dict[str, Any]]:
    return [example("Ledger entries", number) for number in range(len(KINDS))]


def test_every_example_is_json() -> None:
    """With the number of the lake's documents, or that of the commands: reports have the latter."""
    for text, number in ((STORAGE, canonical.FORMAT), (JSON, 1)):
        for form in map(json.loads, fenced(text, "json")):
            assert isinstance(form, list) or form["format"] == (1 if "broker" in form else number)


def test_the_plan_has_its_own_name() -> None:
    """Its digest is the id that all the other examples use."""
    plan = Plan.from_json(example("Plan"))
    assert plan.to_json() == example("Plan")
    others = [example(heading) for heading in ("Generation", "_done.json", "Manifest")]
    others += [example("Report", page=JSON), example("Files", page=JSON)[0]]
    assert {form["plan_id"] for form in others} == {plan.id}
    assert RUN_KEY in STORAGE


def test_the_manifest_is_that_of_the_commit() -> None:
    manifest, plan = Manifest.from_json(example("Manifest")), Plan.from_json(example("Plan"))
    assert manifest.to_json() == example("Manifest")
    commit = Commit.from_json(entries()[1])
    assert commit.accounts == manifest.accounts
    assert commit.manifest == Reference(manifest.attempt.manifest_path, manifest.sha256)
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


def test_the_columns_of_data_files() -> None:
    """The page has the table of the code, row by row."""
    table = STORAGE.partition("## Data files")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == [
        f"| `{each.name}` | {each.type} | {each.since} | {each.meaning} |"
        for each in columns.COLUMNS
    ]
