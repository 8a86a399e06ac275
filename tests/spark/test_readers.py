"""The readers that docs/how-to/analysts.md names, on a lake with hard names and any bytes."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from support.doc_pages import page
from tidegate.lake import footers

READERS = {
    reader: (expression, kind)
    for reader, expression, kind in re.findall(
        r"^\| ([^|`]+) \| `(.*)` \| (.+) \|$", page("docs/how-to/analysts.md"), re.MULTILINE
    )
}
TOPICS = ["_hidden", ".hidden", "a.b-C_d", "x" * 249, "123", "null"]
KEYS = [b"k", b"\xff\xfe", b"", None, "ä\0".encode()]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Make a lake of a row for each topic and key; return what `tidegate.files` would."""
    monkeypatch.chdir(tmp_path)
    made = []
    for topic in TOPICS:
        at = f".tidegate/lake/my_flights/data/topic={topic}/window_date=2026-03-14"
        place = tmp_path / at
        place.mkdir(parents=True)
        values = {
            "partition": 0, "timestamp": datetime(2026, 3, 14, tzinfo=UTC), "timestampType": 0,
            "headers": [("\0ü", b"\xff"), ("\0ü", None)],
        }  # fmt: skip
        rows = [{**values, "offset": n, "key": k, "value": k} for n, k in enumerate(KEYS)]
        table = pa.Table.from_pylist(rows, schema=pa.schema(list(footers.SCHEMA)))
        pq.write_table(table, place / "part-0.parquet")
        made.append({"path": str(place / "part-0.parquet")})
    return made


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    """Return topic (None if there is no such column), offset, key and day of each row."""
    if isinstance(found, DataFrame):
        dicts = [row.asDict() for row in found.collect()]
    elif isinstance(found, polars.DataFrame):
        dicts = found.to_dicts()
    elif isinstance(found, pd.DataFrame):
        dicts = found.to_dict("records")
    else:
        dicts = found.to_pylist()

    def of(row: dict[str, Any]) -> tuple[Any, ...]:
        key = row["key"]
        day = row.get("window_date")
        key = None if key is None else bytes(key)
        return str(row.get("topic")), row["offset"], key, day

    return sorted((of(row) for row in dicts), key=lambda row: row[:2])


@pytest.mark.parametrize("reader", READERS)
def test_each_reads_all_rows(
    spark: SparkSession, files: list[dict[str, str]], reader: str, tmp_path: Path
) -> None:
    expression, kind = READERS[reader]
    if reader.startswith("Spark"):  # whose working directory is that of the process's start
        expression = expression.replace('".tidegate', f'"{tmp_path}/.tidegate')
    names = {
        "spark": spark, "pandas": pd, "polars": polars, "pyarrow": pyarrow,
        "tidegate": SimpleNamespace(files=lambda _: files),
    }  # fmt: skip
    found = rows_of(eval(expression, names))
    by_ledger = kind.startswith("absent")
    day = {"a date": date(2026, 3, 14), "absent, as `topic` is": None}.get(kind, "2026-03-14")
    expected = [
        ("None" if by_ledger else topic, n, key, day)
        for topic in TOPICS
        for n, key in enumerate(KEYS)
    ]
    assert found == sorted(expected, key=lambda row: row[:2])


def test_the_page_names_readers() -> None:
    assert len(READERS) == 6
