"""Commands that show data: SQL over the lake, and records of a topic."""

from __future__ import annotations

import csv
import enum
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.highlighter import JSONHighlighter

from tidegate import flows
from tidegate.cli.arguments import Json, Pipeline, all_named, complete_name
from tidegate.cli.window_commands import Zone
from tidegate.core.printable import CONTROL, escape_text, printable_name
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest
from tidegate.runs.requested_windows import absolute_edge
from tidegate.terminal.console import answer, bold, note, out, say, say_columns

if TYPE_CHECKING:
    from tidegate.samples.peek import Content, Peeked

app = typer.Typer()
MOST = 1_000
"""Rows that a terminal shows. A pipe or a file gets all."""
LONG = 16
"""Bytes of a value that are printed for people. JSON and CSV have all."""


@app.command()
def sql(
    pipeline: Pipeline,
    query: Annotated[
        str | None,
        typer.Argument(
            help='SQL of DuckDB. The lake is a view named as the pipeline, or "lake". "latest" has '
            "the latest row of each key. - reads stdin. Without SQL: the columns."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file that has the SQL.")
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            callback=all_named,
            autocompletion=complete_name,
            help="Another pipeline, whose lake is a view, too. Repeat it for several.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Only this topic of PIPELINE. By default all of its lake.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="The lake as it was: after a ledger entry, by its number, or at a time."),
    ] = None,
    zone: Zone = "UTC",
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout, with a header.")] = False,
) -> None:
    """Ask the lake with SQL, by DuckDB: each committed row once. Nothing is written."""
    import tidegate

    if as_json and as_csv:
        raise ConfigurationError("give --json or --csv, not both")
    past = None if at is None else _entry_or_time(at, zone)
    if others and isinstance(past, int):
        raise ConfigurationError("--at: an entry is of one ledger; with --with, give a time")
    text = _query_text(query, file)
    lake = tidegate.open_lake(pipeline, topic, at=past)
    beside = [tidegate.open_lake(other, at=past) for other in others or ()]
    names, rows = lake.columns(*beside) if text is None else lake.query(text, *beside)
    if as_json:
        form = {"format": 1, "columns": names, "rows": [list(map(_plain, row)) for row in rows]}
        print(json.dumps(form))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if v is None else _text(v) for v in row] for row in rows])
    else:
        _print(names, rows)


def _query_text(query: str | None, file: Path | None) -> str | None:
    """Return the SQL of the argument, of stdin for `-`, or of a file. None if none is given."""
    if file is not None and query is not None:
        raise ConfigurationError("give SQL or --file, not both")
    try:
        if file is not None:
            return file.read_text()
        return sys.stdin.read() if query == "-" else query
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file or 'stdin'}: {error}") from None


def _entry_or_time(text: str, zone: str) -> int | datetime:
    """Return what `--at` says; ConfigurationError for anything else."""
    said = absolute_edge(text, zone) or ""
    try:
        if said.isdecimal():
            return int(said)
        return datetime.fromisoformat(said)
    except ValueError:
        raise ConfigurationError(
            f"--at {text}: neither the number of an entry nor a time, for example "
            "2026-03-14T06:00:00Z or -1d"
        ) from None


class SqlEngine(enum.StrEnum):
    """Who reads a view."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    TRINO = "trino"


@app.command()
def view(
    pipeline: Pipeline,
    engine: Annotated[SqlEngine, typer.Option(help="Whose SQL.")] = SqlEngine.DUCKDB,
    topic: Annotated[
        str | None, typer.Option(help="Only its columns, for Spark and Trino.")
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", help="Also NAME_latest: the latest row of each key.")
    ] = False,
) -> None:
    """Print the SQL of a view of the lake, with its typed columns, for another program."""
    import tidegate

    print(tidegate.open_lake(pipeline, topic, latest=latest).view(engine))


@app.command()
def peek(
    pipeline: Pipeline,
    topic: Annotated[
        str | None, typer.Option(help="Any topic of the pipeline's Kafka. By default its only one.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="By default all.")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="An offset, a time, a date, -1d or -6h. By default the newest records."),
    ] = None,
    most: Annotated[int, typer.Option("-n", min=1, max=MOST, help="So many records.")] = 10,
    zone: Zone = "UTC",
    decode: Annotated[
        bool, typer.Option("--decode", help="Also their typed columns, as a run decodes them.")
    ] = False,
    in_lake: Annotated[
        bool, typer.Option("--lake", help="Records of the lake, not Kafka's.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show some records of a topic, or of an egress' target, as people read them."""
    from tidegate.orchestration.command_connections import kafka, spark
    from tidegate.runs.topics import choose_topic
    from tidegate.samples.peek import peek_in_lake
    from tidegate.samples.peek import peek_records as records_of

    if decode and in_lake:
        raise ConfigurationError("give --decode or --lake, not both: the lake has its columns")
    spec = pipeline_files.load_named(pipeline)
    named = choose_topic(spec.name, flows.topics(spec), topic)
    begin = absolute_edge(start, zone)
    if (decode or in_lake) and not isinstance(spec, Ingest):
        raise ConfigurationError(
            f"pipeline {spec.name!r} is an egress: without --decode and --lake its target is shown"
        )
    if in_lake and isinstance(spec, Ingest):
        found = peek_in_lake(
            spec, flows.store(spec), named, partition=partition, start=begin, most=most
        )
    else:
        found = records_of(
            spec,
            kafka(spec),
            named,
            partition=partition,
            start=begin,
            most=most,
            decode_by=spark(spec) if decode else None,
        )
    answer(_plain(found.to_json()) if as_json else found, _print_records, as_json=as_json)


def _print_records(found: Peeked) -> None:
    for each in found.records:
        place = f"{found.topic}-{each.partition} @ {each.offset}"
        say(bold(place, f"  {each.timestamp} {each.timestamp_type}"))
        say(f"  key    {_of_record(each.key)}")
        for name, value in each.headers:
            say(f"  header {escape_text(name)}: {_of_record(value)}")
        if each.value and (lines := _indented(each.value.text or "")):
            out.print(JSONHighlighter()(lines), soft_wrap=True)
        else:
            say(f"  value  {_of_record(each.value)}")
        typed = each.columns or {}
        width = max(map(len, typed), default=0)
        for name, value in typed.items():
            say(f"  {printable_name(name).ljust(width)}  {_on_one_line(value)}", "cyan")
        if each.undecodable:
            say(f"  {escape_text(each.undecodable)}", "yellow")
    if not found.records:
        note("no records")


def _indented(text: str) -> str | None:
    """Return an object or an array of JSON in lines, with its control characters as escapes. None
    for any other text.
    """
    try:
        form = json.loads(text)
        if not isinstance(form, dict | list):
            return None
        lines = json.dumps(form, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)


def _of_record(value: Content | None) -> str:
    if value is None:
        return "null"
    return f"hex {value.hex}" if value.text is None else escape_text(value.text)


def _print(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    numbers = [
        bool(rows) and all(isinstance(row[n], int | float | Decimal | None) for row in rows)
        for n in range(len(names))
    ]
    say_columns(
        [f">{name}" if right else name for name, right in zip(names, numbers, strict=True)],
        [[_on_one_line(v) for v in row] for row in (rows[:MOST] if sys.stdout.isatty() else rows)],
    )
    if sys.stdout.isatty() and rows[MOST:]:
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
    if isinstance(value, bytes) and len(value) > LONG:
        return f"{value[:LONG].hex()}… {counted(len(value), 'byte')}"
    text = _text(value)
    for mark, name in (("\r", r"\r"), ("\n", r"\n"), ("\t", r"\t")):
        text = text.replace(mark, name)
    return escape_text(text)
