"""Commands about windows of offsets: explain, backfill, replay, coverage."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tidegate import flows
from tidegate.cli.connections import kafka
from tidegate.cli.console import Json, MaxChunks, MaxRecords, Pipeline, answer, bold, note, out
from tidegate.cli.render import Document, each_partition, new_table
from tidegate.cli.runs import carry_out, explain, new_run
from tidegate.core.coverage import CoverageInterval, coverage_bar
from tidegate.core.requests import Backfill
from tidegate.errors import ConfigurationError
from tidegate.pipelines import files

app = typer.Typer()

Topic = Annotated[str | None, typer.Option(help="A topic; required if the pipeline has several.")]
Partitions = Annotated[str | None, typer.Option(help="Numbers with commas; by default all.")]
Start = Annotated[
    str | None, typer.Option(help="An offset, offsets in Spark's form, or a time with a zone.")
]
End = Annotated[str | None, typer.Option(help="In the same forms as start; exclusive.")]
RunId = Annotated[
    str | None, typer.Option(help="Continue the run of this id; by default a new run.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only explain.")]

_WIDTH = 40
_SYMBOLS = {
    "live": ("█", "green"),
    "backfill": ("▓", "cyan"),
    "replay": ("▒", "magenta"),
    "skipped": ("x", "yellow"),
    "expired": ("!", "red"),
    "unseen": ("·", "blue"),
    "before": ("_", "dim"),
}


@app.command("explain")
def explain_run(
    pipeline: Pipeline,
    max_records: MaxRecords = None,
    max_chunks: MaxChunks = None,
    as_json: Json = False,
) -> None:
    """Show what `run` would do now, without doing it."""
    spec = files.load_named(pipeline)
    options = flows.options(spec, max_records=max_records, max_chunks=max_chunks)
    explain(new_run(spec, "explain", **options), as_json=as_json)


@app.command("backfill")
def backfill_window(
    pipeline: Pipeline,
    topic: Topic = None,
    partitions: Partitions = None,
    start: Start = None,
    end: End = None,
    fill_gaps: Annotated[
        bool, typer.Option(help="In place of a window: all skipped offsets still in the log.")
    ] = False,
    chunk_size: Annotated[
        int | None, typer.Option(help="Offsets per commit; by default max_records.")
    ] = None,
    order: Annotated[
        str, typer.Option(help="`oldest` or `soonest-expiring` offsets first.")
    ] = "oldest",
    run_id: RunId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Ingest the offsets of a window that are not in the lake; live runs are not affected."""
    spec = files.load_ingest(pipeline)
    asked = Backfill(
        topic=spec.topic_named(topic),
        partitions=_numbers(partitions),
        start=start,
        end=end,
        fill_gaps=fill_gaps,
        chunk_size=chunk_size,
        order=order,
    )
    run = new_run(spec, run_id, dag_id="tidegate_backfill", asked=asked)
    carry_out(run, dry_run=dry_run, as_json=as_json)


@app.command("replay")
def replay_window(
    pipeline: Pipeline,
    replay_id: Annotated[
        str,
        typer.Option(
            help="Identifies the replay: the same id resumes it, or does nothing if it is done."
        ),
    ],
    topic: Topic = None,
    partitions: Partitions = None,
    start: Start = None,
    end: End = None,
    where: Annotated[
        str | None, typer.Option(help="Egress: send only rows that match this SQL condition.")
    ] = None,
    run_id: RunId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Ingest: read a window again and replace its files; egress: send a window again."""
    spec = files.load_named(pipeline)
    window = {
        "id": replay_id, "partitions": _numbers(partitions), "start": start, "end": end,
        "where": where,
    }  # fmt: skip
    settings = flows.of(spec).replay(spec, topic, kafka, window)
    run = new_run(spec, run_id, dag_id="tidegate_replay", **settings)
    carry_out(run, dry_run=dry_run, as_json=as_json)


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(sorted({int(number) for number in text.split(",")}))
    except ValueError:
        raise ConfigurationError(f"partitions {text!r}: numbers with commas, like 0,3") from None


@app.command("coverage")
def show_coverage(pipeline: Pipeline, as_json: Json = False) -> None:
    """Show the state of every offset: covered by lane, skipped, expired, unseen."""
    from tidegate.ingest.coverage import coverage

    spec = files.load_ingest(pipeline)
    answer(coverage(spec, kafka(spec.kafka)), _print_coverage, as_json=as_json)


def _print_coverage(document: Document) -> None:
    out.print(bold(document["pipeline"]))
    if document["broker"]:
        note(document["broker"], "yellow")
    table = new_table("topic", "partition", "", ">start", ">end", "state", "expires from")
    table.columns[2].no_wrap = True
    for topic, p, partition in each_partition(document):
        _add_partition(table, topic, p, partition)
    out.print(table)
    out.print(
        Text.assemble(*(part for kind in _SYMBOLS for part in (_cells(kind, 1), f" {kind}  ")))
    )


def _add_partition(table: Table, topic: str, p: str, partition: Document) -> None:
    """Add the bar, and a line per interval; the first unseen one shows when it expires."""
    intervals = [CoverageInterval.from_json(form) for form in partition["intervals"]]
    bar = Text.assemble(*(_cells(*run) for run in coverage_bar(intervals, _WIDTH)))
    expires = [partition["expires_at"] or ""]
    if not intervals:
        table.add_row(topic, p, "", "-", "-", "empty", "")
    for number, i in enumerate(intervals):
        first = (topic, p, bar) if number == 0 else ("", "", "")
        expiry = expires.pop() if expires and i.state == "unseen" else ""
        table.add_row(*first, f"{i.start:,}", f"{i.end:,}", _state(i), expiry)


def _cells(kind: str, count: int) -> tuple[str, str]:
    character, style = _SYMBOLS.get(kind, _SYMBOLS["live"])
    return character * count, style


def _state(i: CoverageInterval) -> Text:
    more = f" by {i.lane}" if i.lane else f": {i.reason} ({i.by})" if i.reason else ""
    return Text(i.state + more)
