"""Records on the page: the newest of a topic, and those that do not fit, for who may start runs."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import ingest_world
from support.ingest_steps import ingest
from support.status_page import Login, cells
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Decoded
from tidegate.lake import shown_records
from tidegate.ui import app as ui_app
from tidegate.ui.watch import PipelineWatch

PAGE = "/tidegate/pipeline/p/records?topic=t"


@pytest.fixture
def lake(
    pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ingest_world.World]:
    """The lake of pipeline `p`: offsets 0 to 50 of partition 0, 0 to 7 of partition 1."""
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra})
    )
    marks = {0: Watermarks(0, 50, 50), 1: Watermarks(0, 7, 7)}
    world = ingest_world.make(tmp_path, monkeypatch, marks)
    ingest(world.run("r"), world.submit())
    write(pipelines, world)
    monkeypatch.setattr("tidegate.ui.app.watch", PipelineWatch())
    monkeypatch.setattr("tidegate.ui.app.PATIENCE", 15.0)
    yield world
    ui_app.watch.stop()


def write(pipelines: Path, world: ingest_world.World, **more: Any) -> None:
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root), **more}
    (pipelines / "p.yaml").write_text(json.dumps(form))


def file_of(world: ingest_world.World, partition: int) -> Path:
    (found,) = (world.root / "p/data").rglob(f"*-{partition:05d}-*.parquet")
    return found


def test_the_newest_records(lake: ingest_world.World, login: Login) -> None:
    """Of all partitions by time, with bytes as text, or as digits; what looks like HTML is text."""
    table = pq.read_table(file_of(lake, 1))
    values = [*table["value"].to_pylist()[:4], b"\xff\x00", b"<b>x</b>", None]
    table = table.set_column(1, "value", pa.array(values, pa.binary()))
    stamps = pa.array(range(1, 8), table.schema.field("timestamp").type)
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", stamps)
    pq.write_table(table, file_of(lake, 1))
    html = login("OP").get(PAGE).text
    rows = cells(html)
    assert [row[:2] for row in rows] == [
        *(["1", str(offset)] for offset in range(6, -1, -1)),
        *(["0", str(offset)] for offset in range(49, 36, -1)),
    ]
    shown = [row[4].removeprefix("<code>").removesuffix("</code>") for row in rows[:4]]
    assert shown == ["NULL", "&lt;b&gt;x&lt;/b&gt;", "0xff00", "3"]


def test_those_that_do_not_fit(lake: ingest_world.World) -> None:
    """With their reason, from the commits that have any; another row group is not read."""
    store, fold = lake.run("any").store(), lake.ledger.fold
    assert shown_records.unfit_records(store, fold, "t") == []
    (n,) = fold.live
    table = pq.read_table(file_of(lake, 0))
    reasons = [None] * 48 + ["value: a: no <INT>", None]
    table = table.append_column("a", pa.array([*range(48), None, 49]))
    table = table.append_column("_undecodable", pa.array(reasons, pa.string()))
    pq.write_table(table, file_of(lake, 0), row_group_size=10)
    fold.live[n] = replace(fold.live[n], decoded={"t": Decoded("0" * 64, {"value: a": 1})})
    fold.undecodable["t"] = {"value: a": 1}
    (found,) = shown_records.unfit_records(store, fold, "t")
    assert (found.partition, found.offset, found.value) == (0, 48, b"48")
    assert (found.reason, found.typed) == ("value: a: no <INT>", {"a": None})
    newest = shown_records.newest_records(store, fold, "t")
    assert len(newest) == 17  # the last row group of the one file, all of the other
    assert newest[0].typed == {}


def test_a_time_that_python_has_not(lake: ingest_world.World, login: Login) -> None:
    """A producer may send microseconds for milliseconds."""
    table = pq.read_table(file_of(lake, 1))
    far = pa.array([2**62, *range(6)], pa.int64()).cast(table.schema.field("timestamp").type)
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", far)
    table = table.append_column("t", far)
    pq.write_table(table, file_of(lake, 1))
    html = login("OP").get(PAGE).text
    assert f"{2**62} µs since 1970" in html
    assert "or after 9999" in html


def test_bad_rows_behind_many_files(lake: ingest_world.World) -> None:
    """Files without any do not count."""
    store, fold = lake.run("any").store(), lake.ledger.fold
    (n,) = fold.live
    fold.live[n] = replace(fold.live[n], decoded={"t": Decoded("0" * 64, {"value: a": 1})})
    fold.undecodable["t"] = {"value: a": 1}
    table = pq.read_table(file_of(lake, 1))
    reasons = pa.array([None] * 6 + ["why"], pa.string())
    pq.write_table(table.append_column("_undecodable", reasons), file_of(lake, 1))
    real = shown_records.locate_files

    def many(*given: Any) -> Any:
        found = [*real(*given)]
        good = [each for each in found if each[1].parts[0].partition == 0]
        return [*good * 20, *found]

    with mock.patch.object(shown_records, "locate_files", many):
        (record,) = shown_records.unfit_records(store, fold, "t")
    assert (record.partition, record.offset, record.reason) == (1, 6, "why")


def test_large_values_cost_little(lake: ingest_world.World, login: Login) -> None:
    """They are cut before they are looked at, and within no character."""
    table = pq.read_table(file_of(lake, 1))
    values = [bytes(1_000_000)] * 6 + ["é".encode() * 500_000]
    table = table.set_column(1, "value", pa.array(values, pa.binary()))
    pq.write_table(table, file_of(lake, 1))
    began = time.monotonic()
    html = login("OP").get(PAGE).text
    assert time.monotonic() - began < 10
    assert f"{'é' * 200}…" in html


def test_a_large_row_group_is_not_read(
    lake: ingest_world.World, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_records, "LARGEST", 10)
    assert "above 64 MiB" in login("OP").get(PAGE).text
    assert shown_records.newest_records(lake.run("any").store(), lake.ledger.fold, "t") == []


def test_who_sees_records(lake: ingest_world.World, pipelines: Path, login: Login) -> None:
    """Who may start runs, unless the pipeline shows none; others find the command."""
    page = "/tidegate/pipeline/p"
    for role, sees in ((None, False), ("VIEWER", False), ("OP", True)):
        browser = login(role)
        assert browser.get(PAGE).status_code == (200 if sees else 404), role
        assert ("records?topic=t" in browser.get(page).text) == sees, role
    assert "tidegate sql p" in login("VIEWER").get(page).text
    assert login("OP").get(f"{page}/records?topic=u").status_code == 404
    write(pipelines, lake, airflow={"show_records": False})
    ui_app.watch.stop()
    ui_app.watch = PipelineWatch()
    browser = login("OP")
    assert browser.get(PAGE).status_code == 404
    assert "records?topic=t" not in browser.get(page).text


def test_a_damaged_file_is_named(lake: ingest_world.World, login: Login) -> None:
    file_of(lake, 0).write_bytes(b"PAR1")
    answer = login("OP").get(PAGE)
    assert answer.status_code == 503
    assert "LakeDamaged" in answer.text
