"""The Python API without Kafka and Spark: what is exported, what it returns, its snippets.

The snippets that run a pipeline are run by tests/integration/test_python_api.py.
"""

import ast
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest

import tidegate
from support import staged_attempts
from support.doc_pages import PROJECT, fenced, page
from support.kafka_answers import answer
from tidegate import api
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.entries import Adoption, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerUnreachable, ConfigurationError
from tidegate.lake import committing
from tidegate.lake.ledger import Appended, Ledger, written_at
from tidegate.lake.store import LocalStore
from tidegate.pipelines import pipeline_files


def test_the_package_is_typed() -> None:
    """A type checker reads the annotations of a package with this file alone."""
    assert (Path(tidegate.__file__).parent / "py.typed").is_file()


def test_names() -> None:
    """The module, its types and its documentation have the same names; `dir` shows them."""
    stub = ast.parse((PROJECT / "include/tidegate/__init__.pyi").read_text())
    typed = {each.names[0].asname for each in stub.body if isinstance(each, ast.ImportFrom)}
    assert set(tidegate.__all__) == set(api.__all__) == typed
    for name in tidegate.__all__:
        assert getattr(tidegate, name) is getattr(api, name)
        assert name in dir(tidegate)
        assert f"`tidegate.{name}(" in page("docs/python-api.md")
    with pytest.raises(AttributeError, match="module 'tidegate' has no attribute 'file'"):
        tidegate.file  # type: ignore[attr-defined] # noqa: B018


def test_an_import_of_tidegate_imports_nothing_else() -> None:
    """An executor has the package's `__init__` alone; no name is that of a module beside it."""
    code = (
        "import sys, tidegate, json; bare = [m for m in sys.modules if 'tidegate' in m];"
        "import tidegate.faults, tidegate.pipelines.pipeline_files as found;"
        "assert found.load_spec and not isinstance(tidegate.files, type(sys));"
        "print(json.dumps(bare))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == ["tidegate"]
    modules = {path.stem for path in (PROJECT / "include/tidegate").iterdir()}
    assert not modules & set(tidegate.__all__)


def test_a_pipeline_by_name_path_or_spec(store: LocalStore, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    (file,) = tidegate.files("p")
    assert tidegate.files(path) == tidegate.files(pipeline_files.load_spec(path)) == [file]
    assert file["parts"] == [{"partition": 0, "first": 0, "last": 9, "rows": 10}]
    assert (file["topic"], file["rows"]) == ("t", 10)
    with pytest.raises(ConfigurationError, match="there is no pipeline 'q'"):
        tidegate.files("q")
    egress = {"name": "back", "kind": "egress", "source": {"lake": "p"}, "lake": str(tmp_path)}
    path.with_name("back.yaml").write_text(json.dumps({**egress, "target": {"topic": "t"}}))
    for ask in (tidegate.files, tidegate.open_lake):
        with pytest.raises(ConfigurationError, match="'back' is an egress: only ingest pipelines"):
            ask("back")


def test_a_status_without_a_broker(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that is given is asked, else the one of the environment."""

    def down(kafka: KafkaCluster, *_: Any) -> None:
        raise BrokerUnreachable(kafka.cluster)

    answer(monkeypatch, survey=down)
    status = tidegate.status("p", {"bootstrap.servers": "given.invalid:1"})
    assert status["topics"]["t"]["partitions"]["0"]["cursor"] == 10
    assert "given.invalid" in status["broker"]
    assert "nowhere:1" in tidegate.status("p")["broker"]
    with pytest.raises(
        ConfigurationError, match=r"'kafka_default':\n .*bootstrap\.servers: missing"
    ):
        tidegate.status("p", {})


def test_a_lake_as_the_ledger_has_it(store: LocalStore) -> None:
    """A commit that is not placed is read where it is staged; uncommitted files are not in it."""
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    seal = staged_attempts.seal(store, plan)
    strange = store.root / "data/topic=t/window_date=2024-05-01/strange.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"offset": [1]}), strange)
    before = tidegate.open_lake("p")
    committing.commit(store, staged_attempts.ledger_of(store), plan, seal, run="r")
    lake = tidegate.open_lake("p")
    assert repr(lake) == "Lake('p', 2 files)"
    assert "/_tidegate/staging/" in lake.files[1]["uri"]
    assert before.dataset().count_rows() == 10
    table = lake.dataset().to_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert [*zip(*(table[c].to_pylist() for c in ("partition", "offset")), strict=True)] == [
        *((0, offset) for offset in range(10)), *((1, offset) for offset in range(5))
    ]  # fmt: skip
    assert set(table["topic_id"].to_pylist()) == {"id-t"}
    assert table.schema.field("window_date").type == pyarrow.date32()
    with duckdb.connect() as db:
        assert lake.duckdb(db) is db
        (row,) = db.execute("SELECT topic, max(window_date)::VARCHAR, count(*) FROM p GROUP BY 1"
                            ).fetchall()  # fmt: skip
    assert row == ("t", "2024-05-01", 15)


def test_a_lake_as_it_was(store: LocalStore) -> None:
    """After an entry, or at a time; what a replay has replaced since is refused by name once it is
    deleted.
    """
    first = Ledger(store, "p").fold.n
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    seal = staged_attempts.seal(store, plan)
    done = committing.commit(store, staged_attempts.ledger_of(store), plan, seal, run="r")
    assert isinstance(done, Appended)
    n = done.n
    past = tidegate.open_lake("p", at=first)
    assert (past.dataset().count_rows(), tidegate.open_lake("p", at=n).dataset().count_rows()) == (
        10, 15,
    )  # fmt: skip
    assert tidegate.open_lake("p", at=written_at(store, n)).dataset().count_rows() == 15
    before = datetime(2024, 1, 1, tzinfo=UTC)
    for at, said in (
        (n + 1, f"has no entry {n + 1}; the last is {n}"), (0, "has no entry 0"),
        (before, r"has no entry of 2024-01-01 00:00:00\+00:00 or earlier"),
        (datetime(2024, 1, 1), "has no zone"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=said):
            tidegate.open_lake("p", at=at)
    for file in past.files:
        Path(file["path"]).unlink()
    with pytest.raises(ConfigurationError, match=r"1 file of this state of the lake, file://"):
        tidegate.open_lake("p", at=first)


def test_the_latest_row_of_each_key(store: LocalStore) -> None:
    """As views only. A directory does not say which of two topics of a name a row is of."""
    lake, rows = tidegate.open_lake("p", latest=True), tidegate.open_lake("p")
    count = 'SELECT count(*), max("offset") FROM '
    for each, name in ((rows, "latest"), (lake, "latest"), (lake, "lake"), (lake, "p")):
        assert each.query(count + name)[1] == [(1, 9)]
    assert rows.query(count + "p")[1] == [(10, 9)]
    with lake.duckdb() as db, rows.duckdb(db):
        assert db.execute(count + "latest").fetchall() == [(1, 9)]
        assert db.execute(count + "p").fetchall() == [(10, 9)]
    with pytest.raises(ConfigurationError, match="a view of SQL"):
        lake.dataset()
    with duckdb.connect() as db:
        db.execute(lake.view("duckdb"))
        assert db.execute(count + "p_latest").fetchall() == [(1, 9)]
    entry, other = Ledger(store, "p"), Origin("t", "id-2", {0: 0}, Adoption("id-t", "new", "me"))
    entry.append(other, run="r")
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),), topic_ids={"t": "id-2"})
    seal = staged_attempts.seal(store, plan)
    committing.commit(store, staged_attempts.ledger_of(store), plan, seal, run="r")
    again = tidegate.open_lake("p", latest=True)
    assert again.query(count + "lake")[1] == [(1, 9)]
    with pytest.raises(ConfigurationError, match="was recreated"):
        again.view("spark")
    with rows.duckdb() as db:  # an earlier lake, on the connection of another
        tidegate.open_lake("p").duckdb(db)
        assert db.execute(count + "lake").fetchall() == [(10, 9)]
        assert db.execute(count + "p").fetchall() == [(20, 9)]


def test_a_lake_without_a_commit(tmp_path: Path) -> None:
    form: Any = {"name": "new", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}
    path = tmp_path / "new.yaml"
    path.write_text(json.dumps(form))
    for read in (tidegate.open_lake, tidegate.files):
        with pytest.raises(ConfigurationError, match=r"there is no lake at file://.*/new: no run"):
            read(path)
    origin = Origin("t", "id-t", {0: 0})
    Ledger(LocalStore(tmp_path / "new"), "new").append(origin, run="r")
    lake = tidegate.open_lake(path)
    assert (lake.files, lake.dataset().count_rows()) == ((), 0)
    with lake.duckdb() as db:
        assert db.execute('SELECT topic, "offset" FROM new').fetchall() == []


def test_the_snippet_of_the_page(store: LocalStore, capsys: pytest.CaptureFixture[str]) -> None:
    snippet, *_ = fenced(page("docs/python-api.md"), "python")
    exec(snippet.replace('"orders"', '"p"').replace("FROM orders", "FROM p"), {})
    first, rows, groups = capsys.readouterr().out.splitlines()
    assert first.rpartition(" ")[0] == "t-0 [0, 10) 10"
    assert (rows, groups) == ("10", "[('t', 0, 9)]")


def test_the_snippet_of_the_how_to(store: LocalStore, capsys: pytest.CaptureFixture[str]) -> None:
    snippet, _ = fenced(page("docs/how-to/analysts.md"), "python")
    exec(snippet.replace("my_flights", "p"), {})
    assert capsys.readouterr().out == "[('id-t', 10)]\n"
