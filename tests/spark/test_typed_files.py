"""Typed columns of files: the table of texts decides, as for keys and values of records."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark.test_typed_texts import KINDS, expected, made, token
from support.rows_of_files import put, source
from tidegate.spark import formats

TWICE = "a key occurs twice in an object, or the line is too long for Spark's types"
TEXTS = 3_000
"""Of each type."""


def typed(session: SparkSession, format_: str, path: Path, ddl: str, **options: str) -> list[Row]:
    """Return the columns of a file, times as text, with `fault` last, in the order of its rows."""
    given = source(format_, path, ddl=ddl, **options)
    found = formats.format_of_files(format_).read(session, given, whole=False, line=False)
    shown = [
        f"cast(`{name}` AS STRING) AS `{name}`" if kind.startswith("timestamp") else f"`{name}`"
        for name, kind in found.frame.dtypes
        if name not in found.hidden
    ]
    rows = found.frame.select("*", found.fault.alias("fault"), found.row.alias("at"))
    return sorted(rows.selectExpr(*shown, "fault", "at").collect(), key=lambda row: int(row.at))


def columns(kinds: list[str]) -> str:
    return ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))


def test_json(session: SparkSession, tmp_path: Path) -> None:
    kinds = [*KINDS]
    texts = [[t for t in islice(made(kind), TEXTS) if token(kind, t) is not None] for kind in kinds]
    rows = [*zip(*texts, strict=False)]
    lines = [
        "{" + ",".join(f'"c{n}":{token(kinds[n], text)}' for n, text in enumerate(row)) + "}"
        for row in rows
    ]
    path = put(tmp_path / "a", "\n".join(lines))
    found = typed(session, "json", path, columns(kinds))
    assert len(found) == len(rows) > TEXTS // 30
    for given, row in zip(rows, found, strict=True):
        if any("\ufdd0" in text for text in given):
            assert row.fault == "U+FDD0 or U+FDD1, which is no character"
            continue
        right = [expected(kind, text) for kind, text in zip(kinds, given, strict=True)]
        assert [*row[: len(kinds)]] == right, given
        misses = [
            f"c{n}: no {kind}"
            for n, kind in enumerate(kinds)
            if right[n] is None and token(kind, given[n]) != "null"
        ]
        assert row.fault == (", ".join(misses) or None), given


def test_csv(session: SparkSession, tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind != "BINARY"]
    texts = [[t for t in islice(made(kind), TEXTS) if not {*t} & {*'\n\r\0"'}] for kind in kinds]
    rows = [*zip(*texts, strict=False)]
    path = put(tmp_path / "a", "\n".join(";".join(row) for row in rows) + "\n")
    found = typed(session, "csv", path, columns(kinds), sep=";", header="false")
    assert len(found) == len(rows) > TEXTS // 2
    for given, row in zip(rows, found, strict=True):
        right = [expected(kind, text) for kind, text in zip(kinds, given, strict=True)]
        assert [*row[: len(kinds)]] == right, given
        misses = [f"c{n}" for n, text in enumerate(given) if text and right[n] is None]
        assert (row.fault or "").rpartition(": see ")[2] == ", ".join(misses), given


OPTIONS: tuple[tuple[str, str, dict[str, str], dict[str, str | None]], ...] = (
    ("csv", "DECIMAL(10,2)", {}, {"12,50": None, "1.234,56": None, "12.50": "12.50"}),
    ("csv", "DECIMAL(10,2)", {"locale": "de-DE"},
     {"12,50": "12.50", "1.234,56": "1234.56", "12.50": None, "1.23.456,0": None, "1e9": None,
      "-7": "-7.00", "1234,5": "1234.50", "12,505": None, "0,": None}),
    ("csv", "DECIMAL(10,2)", {"locale": "en-US"},
     {"12,50": None, "1,234.56": "1234.56", "1234.5": "1234.50"}),
    ("json", "DECIMAL(10,2)", {"locale": "de-DE"}, {"12.50": "12.50", '"12,50"': None}),
    ("csv", "DATE", {"dateFormat": "dd.MM.yyyy"},
     {"14.03.2026": "2026-03-14", "2026-03-14": None, "14.03.2026x": None, "31.02.2026": None}),
    ("json", "DATE", {"dateFormat": "dd.MM.yyyy"},
     {'"14.03.2026"': "2026-03-14", '"2026-03-14"': None, '"45678"': None}),
    ("json", "DATE", {"dateFormat": "yyyy.M"},
     {'"2026.10"': "2026-10-01", "2026.10": None, "2026.1": None, "true": None}),
    ("csv", "TIMESTAMP", {"timestampFormat": "dd.MM.yyyy HH:mm", "timeZone": "Asia/Kathmandu"},
     {"14.03.2026 05:45": "2026-03-14 00:00:00", "2026-03-14T05:45:00": None}),
    ("csv", "TIMESTAMP", {"timeZone": "Asia/Kathmandu"},
     {"2026-03-14T05:45": "2026-03-14 00:00:00", "2026-03-14T05:45:00Z": "2026-03-14 05:45:00",
      "2026-03-14T05:45Z": "2026-03-14 05:45:00", "05:45": None, "2026-03-14": None}),
    ("json", "TIMESTAMP_NTZ", {"timestampNTZFormat": "yyyyMMdd HHmmss"},
     {'"20260314 054501"': "2026-03-14 05:45:01", '"2026-03-14T05:45:01"': None}),
    ("csv", "DOUBLE", {"nanValue": "NA", "positiveInf": "+"},
     {"NA": "nan", "+": "inf", "NaN": None, "1d": None, "1.5": "1.5"}),
)  # fmt: skip


@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_by_options(session: SparkSession, tmp_path: Path, case: tuple[Any, ...]) -> None:
    """What the pipeline says of its files; the table says the rest."""
    format_, kind, options, texts = case
    lines = [f'{{"a":{text}}}' if format_ == "json" else text for text in texts]
    head = ["a"] if format_ == "csv" else []
    path = put(tmp_path / "a", "\n".join([*head, *lines]) + "\n")
    sep = {"sep": ";"} if format_ == "csv" else {}
    found = typed(session, format_, path, f"a {kind}", **options, **sep)
    given = {text: None if row.a is None else str(row.a) for text, row in zip(texts, found)}  # noqa: B905
    assert given == texts
    assert [row.fault is None for row in found] == [each is not None for each in texts.values()]


def test_a_large_exponent(session: SparkSession, tmp_path: Path) -> None:
    """Sixteen bytes that kept a core busy for minutes."""
    lines = [
        json.dumps({"n": "1e10000000"}),
        '{"n":1e10000000}',
        '{"n":12e-1}',
        '{"n":1e-999999999}',
    ]
    found = typed(session, "json", put(tmp_path / "a", "\n".join(lines)), "n DECIMAL(10,2)")
    assert [row.fault for row in found] == [
        *["n: no DECIMAL(10,2)"] * 2,
        None,
        "n: no DECIMAL(10,2)",
    ]


def test_keys_within_objects(session: SparkSession, tmp_path: Path) -> None:
    """A key that occurs twice in an object that is wanted is a fault, and so is a wrong leaf."""
    lines = ['{"s":{"a":1,"a":2}}', '{"s":{"a":1,"d":"45678"}}', '{"s":{"a":1,"d":"2026-03-14"}}']
    found = typed(
        session, "json", put(tmp_path / "a", "\n".join(lines)), "s STRUCT<a: INT, d: DATE>"
    )
    assert [row.fault for row in found] == [TWICE, "s.d: no DATE", None]
