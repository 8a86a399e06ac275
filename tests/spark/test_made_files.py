"""Files with the traps of the world's writers: two independent readers have the same rows."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from support import made_files
from support.made_files import BAD, COLUMNS, JSON_COLUMNS, Made
from support.rows_of_files import select
from tidegate.spark.egress_job import LINE, WHOLE

FILES = pytest.mark.parametrize(
    "files", [40, pytest.param(2_500, marks=pytest.mark.slow)], ids=lambda n: f"{n} files"
)
_AT_ONCE = 250


def compare(
    session: SparkSession,
    home: Path,
    format_: str,
    files: Sequence[tuple[str, Made]],
    value_of: Callable[[Row], Any],
    **how: Any,
) -> None:
    """Assert that each file has the rows of its judge."""
    by_name: dict[str, list[Row]] = {name: [] for name, _ in files}
    found = select(session, format_, *(home / name for name, _ in files), **how)
    for row in found.collect():
        by_name[row.file].append(row)
    for name, made in files:
        rows = sorted(by_name[name], key=lambda row: int(row.row))
        assert [row.row for row in rows] == list(range(len(rows))), (name, made.content)
        there = [BAD if row.fault is not None else value_of(row) for row in rows]
        if made.is_open:
            assert BAD in there[len(made.rows) :], (name, made.content, there)
            there = there[: len(made.rows)]
        assert there == made.rows, (name, made.content)


def written(home: Path, rng: random.Random, made: Made, number: int) -> tuple[str, Made]:
    name, content = made_files.packed(rng, f"f{number:04d}", made.content)
    (home / name).write_bytes(content)
    return name, made


def batches(files: int) -> list[range]:
    return [range(i, min(i + _AT_ONCE, files)) for i in range(0, files, _AT_ONCE)]


@FILES
def test_csv(session: SparkSession, tmp_path: Path, files: int) -> None:
    """Judged by Python's strict reader; null and empty text are the same to it."""
    rng = random.Random(files)
    for batch in batches(files):
        made = [written(tmp_path, rng, made_files.csv_file(rng), i) for i in batch]
        ddl = ", ".join(f"{name} STRING" for name in COLUMNS)
        compare(
            session, tmp_path, "csv", made, lambda row: [row.a or "", row.b or "", row.c or ""],
            columns={name: name for name in COLUMNS}, ddl=ddl,
        )  # fmt: skip


@FILES
def test_json(session: SparkSession, tmp_path: Path, files: int) -> None:
    """Judged by Python's reader, with numbers as they are written."""
    rng = random.Random(files)
    for batch in batches(files):
        made = [written(tmp_path, rng, made_files.json_file(rng), i) for i in batch]
        compare(
            session, tmp_path, "json", made,
            lambda row: [row.value.encode(), row.s, row.n, row.d, row.t],
            columns={"value": LINE, **{name: name for name in "sndt"}}, ddl=JSON_COLUMNS,
        )  # fmt: skip


@FILES
def test_text(session: SparkSession, tmp_path: Path, files: int) -> None:
    """A line is its bytes."""
    rng = random.Random(files)
    for batch in batches(files):
        made = [written(tmp_path, rng, made_files.text_file(rng), i) for i in batch]
        compare(
            session, tmp_path, "text", made, lambda row: bytes(row.value),
            columns={"value": "cast(value as binary)"},
        )  # fmt: skip


@FILES
def test_parquet(session: SparkSession, tmp_path: Path, files: int) -> None:
    """Judged by PyArrow; the files of a source have the same columns."""
    rng = random.Random(files)
    for n, batch in enumerate(batches(files)):
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            kinds = made_files.kinds(rng)
            home = tmp_path / f"{n}-{half[0]}"
            home.mkdir()
            made = []
            for i in half:
                each = made_files.parquet_file(rng, kinds)
                (home / f"f{i:04d}").write_bytes(each.content)
                made.append((f"f{i:04d}", each))
            compare(
                session, home, "parquet", made, lambda row: json.loads(row.value),
                columns={"value": WHOLE},
            )  # fmt: skip
