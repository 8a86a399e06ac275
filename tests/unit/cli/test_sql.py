"""`tidegate sql`: lakes of several pipelines, SQL of a file or stdin, and what a lake has."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import staged_attempts
from tidegate.cli import main
from tidegate.core.offsets import OffsetRange
from tidegate.lake import committing
from tidegate.lake.dataset import Lake
from tidegate.lake.store import LocalStore

Tidegate = Callable[..., tuple[int, str, str]]
ROWS = 3


def make_lake(home: Path, name: str) -> None:
    """Make a pipeline whose lake has three rows."""
    form = {"name": name, "kind": "ingest", "topics": ["t"], "lake": str(home)}
    (home / f"{name}.yaml").write_text(json.dumps(form))
    store = LocalStore(home / name)
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, ROWS),), pipeline=name)
    staged_attempts.seal(store, plan)
    ledger = staged_attempts.ledger_of(store, name)
    committing.commit_sealed_chunks(store, ledger, plan, run="run")
    for file in Lake(name, store, ledger.refresh()).files:
        rows = [{"key": b"k%d" % n, "partition": 0, "offset": n} for n in range(ROWS)]
        path = file["uri"].removeprefix("file://").replace("%3D", "=")
        pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.fixture
def tidegate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tidegate:
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "refunds"):
        make_lake(tmp_path, name)

    def run(*args: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "sql", *args])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def joined() -> str:
    return "SELECT count(*) AS n FROM orders JOIN refunds USING (key)"


def test_lakes_of_several_pipelines_are_joined(tidegate: Tidegate) -> None:
    """By an argument, from a file, and from stdin."""
    Path("joined.sql").write_text(joined())
    expected = (0, f"n\n{ROWS}\n", "")
    both = ("orders", "--with", "refunds", "--csv")
    assert tidegate(*both, joined()) == expected
    assert tidegate(*both, "--file", "joined.sql") == expected
    assert tidegate(*both, "-", stdin=joined()) == expected
    assert tidegate("orders", "-", "--csv", stdin="SELECT count(*) n FROM lake") == expected


def test_without_sql_the_columns_are_listed(tidegate: Tidegate) -> None:
    _, out, _ = tidegate("orders", "--with", "refunds", "--json")
    found = json.loads(out)
    assert found["columns"] == ["view", "column", "type"]
    assert ["orders", "offset", "BIGINT"] in found["rows"]
    assert {row[0] for row in found["rows"]} == {"orders", "refunds"}
    assert "orders" in tidegate("orders")[1]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("orders", "SELECT 1 FROM ordrs"), "there is no ordrs; did you mean 'orders'?"),
        (("orders", "SELECT 1 FROM nothing"), 'the lake is the view lake, or "orders"'),
        (
            ("orders", "--with", "refunds", "SELECT 1 FROM x"),
            "the views lake, latest, orders, refunds",
        ),
        (("orders", "SELECT 1", "--file", "a.sql"), "give SQL or --file, not both"),
        (("orders", "--file", "a.sql"), "a.sql: [Errno 2]"),
        (("orders", "--with", "orders", "SELECT 1"), "two views would be named orders"),
        (("orders", "--with", "gone", "SELECT 1"), "there is no pipeline 'gone'"),
        (("orders", "--with", "refunds", "SELECT 1", "--at", "2"), "give a time"),
    ],
)
def test_what_is_wrong_is_said(tidegate: Tidegate, args: tuple[str, ...], says: str) -> None:
    code, out, err = tidegate(*args)
    assert (code, out, says in err) == (2, "", True), err
    assert "Did you mean" not in err  # of DuckDB's own tables
