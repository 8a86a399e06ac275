"""The command that asks the lake: SQL by DuckDB, over what the ledger has committed."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from tidegate.cli.console import Json, Pipeline, note, say_columns
from tidegate.core.printable import printable
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError

app = typer.Typer()
MOST = 1_000
"""Rows that are printed for people; JSON and CSV have all."""


@app.command()
def sql(
    pipeline: Pipeline,
    query: Annotated[
        str,
        typer.Argument(help='SQL of DuckDB; the lake is a view named as the pipeline, or "lake".'),
    ],
    topic: Annotated[
        str | None, typer.Option(help="Only this topic; by default all of the lake.")
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout, with a header.")] = False,
) -> None:
    """Ask the lake with SQL, by DuckDB: each committed row once; nothing is written."""
    import tidegate

    if as_json and as_csv:
        raise ConfigurationError("give --json or --csv, not both")
    lake = tidegate.open_lake(pipeline, topic)
    import duckdb

    # Neither files nor variables of this process can be read, and nothing be written.
    options = {"enable_external_access": "false", "python_enable_replacements": "false"}
    with duckdb.connect(config=options) as connection:
        lake.duckdb(connection)
        connection.register("lake", lake.dataset())
        try:
            result = connection.execute(query)
            names = [each[0] for each in result.description or ()]
            rows = result.fetchall()
        except duckdb.Error as error:
            raise ConfigurationError(f"{type(error).__name__}: {error}") from None
    if as_json:
        form = {"format": 1, "columns": names, "rows": [list(map(_plain, row)) for row in rows]}
        print(json.dumps(form))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if v is None else _text(v) for v in row] for row in rows])
    else:
        _print(names, rows)


def _print(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    numbers = [
        bool(rows) and all(isinstance(row[n], int | float | Decimal | None) for row in rows)
        for n in range(len(names))
    ]
    say_columns(
        [f">{name}" if right else name for name, right in zip(names, numbers, strict=True)],
        [[_on_one_line(v) for v in row] for row in rows[:MOST]],
    )
    if rows[MOST:]:
        note(f"the first {MOST:,} of {counted(len(rows), 'row')}; --csv and --json print all")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes as hex digits, times and decimals as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
    return _text(value)


def _text(value: Any) -> str:
    match value:
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case list() | tuple() | dict():
            return json.dumps(_plain(value), ensure_ascii=False)
        case bool():
            return str(value).lower()
    return str(value)


def _on_one_line(value: Any) -> str:
    if value is None:
        return "NULL"
    text = _text(value)
    for mark, name in (("\r", r"\r"), ("\n", r"\n"), ("\t", r"\t")):
        text = text.replace(mark, name)
    return printable(text)
