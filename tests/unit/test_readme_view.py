"""The view of the README on rows of any bytes."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.doc_pages import fenced, page
from tidegate.lake import footers

FLIGHT = b'{"carrier": "UA", "flight": 5, "dep_delay": 2, "time_hour": "2013-01-01T05:00:00"}'


def test_one_row_that_is_not_utf_8_or_no_json_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns are null."""
    rows = [(b"a", FLIGHT), (b"\xff", b"\xff\xfe"), (None, b"no json"), (None, None)]
    place = tmp_path / ".tidegate/lake/my_flights/data/topic=flights/window_date=2026-03-14"
    place.mkdir(parents=True)
    values = {
        "partition": 0, "timestamp": datetime(2026, 3, 14, tzinfo=UTC), "timestampType": 0,
        "headers": [("source", b"\xff")],
    }  # fmt: skip
    made = [
        {**values, "offset": n, "key": key, "value": value} for n, (key, value) in enumerate(rows)
    ]
    schema = pa.schema(list(footers.SCHEMA))
    pq.write_table(pa.Table.from_pylist(made, schema=schema), place / "part-0.parquet")
    monkeypatch.chdir(tmp_path)
    (sql,) = (each for each in fenced(page("README.md"), "sql") if "CREATE VIEW" in each)
    connection = duckdb.connect()
    connection.execute(sql)
    found = connection.execute(
        'SELECT key, source, carrier, flight FROM my_flights ORDER BY "offset"'
    )
    nothing = (None, None, None, None)
    assert found.fetchall() == [("a", None, "UA", 5), nothing, nothing, nothing]
