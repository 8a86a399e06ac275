"""The rows of files as an egress selects them, with Spark and without a broker."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from tidegate.core import schema
from tidegate.spark import formats, source_files, source_rows
from tidegate.spark.egress_job import RowSource
from tidegate.spark.formats import csv_records, csv_rows


def source(format_: str, *paths: Path, ddl: str | None = None, **options: str) -> RowSource:
    files = tuple((path.name, str(path)) for path in paths)
    names = tuple(name for name, _ in files)
    return RowSource(format_, options, ddl, files, names, {}, (), {})


def select(
    session: SparkSession,
    format_: str,
    *paths: Path,
    columns: dict[str, str],
    ddl: str | None = None,
    **options: str,
) -> DataFrame:
    given = source(format_, *paths, ddl=ddl, **options)
    if format_ == "csv" and ddl is None:
        given = replace(given, columns=_columns_of_csv(given, paths[0]))
    found = source_rows.select_rows(session, given, columns)
    listed = formats.format_of_files(format_).listed(session, given, found)
    assert source_files.files_read(given, listed) == {path.name for path in paths}
    return found


def _columns_of_csv(given: RowSource, path: Path) -> str:
    """Return columns of text, as the first record of a file names them."""
    dialect = csv_rows.dialect_of(given)
    lines = path.read_bytes().split(dialect.line_end.encode())
    values = next(csv_records.split_records(lines, dialect)).values or ["none"]
    names = values if dialect.header else [f"_c{i}" for i in range(len(values))]
    return schema.render_ddl([schema.Field(name or "", schema.Type("string")) for name in names])


def rows(
    session: SparkSession, format_: str, *paths: Path, value: str | None = None, **how: Any
) -> list[Row]:
    """Return the rows with a value, by default that of the format, in the order of the files."""
    columns = {"value": value or formats.format_of_files(format_).value}
    found = select(session, format_, *paths, columns=columns, **how)
    return sorted(found.collect(), key=lambda row: (row.file, row.row))


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def values(found: Sequence[Row]) -> list[Any]:
    assert [row.row for row in found] == list(range(len(found)))
    assert {row.fault for row in found} <= {None}
    return [row.value for row in found]


TYPED = "to_json(struct(*))"
"""A value made of all columns of a row."""
