"""Commands about windows of offsets: explain, backfill, replay, coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidegate import flows
from tidegate.cli.arguments import Json, MaxChunks, MaxRecords, Pipeline
from tidegate.cli.runs import carry_out, explain, new_run
from tidegate.core.coverage import CoverageInterval, coverage_bar
from tidegate.core.requests import Backfill
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError
from tidegate.orchestration.command_connections import kafka, spark
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest
from tidegate.terminal.console import answer, bold, note, say, time_until

if TYPE_CHECKING:
    from tidegate.ingest.topic_coverage import Coverage
    from tidegate.samples.proposed_decoder import CheckedSamples

app = typer.Typer()

Topic = Annotated[str | None, typer.Option(help="A topic. Required if the pipeline has several.")]
Partitions = Annotated[str | None, typer.Option(help="Numbers with commas. By default all.")]
Start = Annotated[
    str | None,
    typer.Option(help="An offset, offsets in Spark's form, a date, a time, or -1d, -6h, -30m."),
]
End = Annotated[
    str | None,
    typer.Option(help="In the same forms as start, exclusive. By default all up to now."),
]
Zone = Annotated[
    str, typer.Option(help="Of dates, and of times without one. Schedules are in UTC.")
]
RunId = Annotated[
    str | None, typer.Option(help="Continue the run of this id. By default a new run.")
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
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="In its place: what of so many records does not fit `decode`, and what would.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what `run` would do now, without doing it."""
    if sample is not None:
        _explain_sample(pipeline_files.load_ingest(pipeline), sample, as_json=as_json)
        return
    spec = pipeline_files.load_named(pipeline)
    options = flows.given_options(spec, max_records=max_records, max_chunks=max_chunks)
    explain(new_run(spec, "explain", **options), as_json=as_json)


def _explain_sample(spec: Ingest, most: int, *, as_json: bool) -> None:
    from tidegate.samples.proposed_decoder import check_sample

    found = check_sample(spec, kafka(spec), spark(spec), most)
    answer(found, _print_sample, as_json=as_json)


def _print_sample(found: CheckedSamples) -> None:
    for topic, each in found.topics.items():
        say(bold(topic, f": {counted(each.records, 'record')} sampled"))
        for reason, n in each.unfit.items():
            place = each.examples[reason]
            say(f"  {n:,}  {reason} ({topic}-{place.partition} @ {place.offset})", "yellow")
        if not each.unfit:
            say("  all fit")
        if value := each.value:
            could = "columns that fit more" if each.unfit else "columns that could be declared"
            prefix = f", prefix {value.prefix}" if value.prefix else ""
            say(f"  {could}: {value.schema} ({value.format}{prefix})")
    if not found.topics:
        note("no records")


@app.command("backfill")
def backfill_window(
    pipeline: Pipeline,
    topic: Topic = None,
    partitions: Partitions = None,
    start: Start = None,
    end: End = None,
    zone: Zone = "UTC",
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="In place of a window: exact offsets, `orders:0:120-340`. May be repeated.",
        ),
    ] = None,
    fill_gaps: Annotated[
        bool, typer.Option(help="In place of a window: all skipped offsets still in the log.")
    ] = False,
    chunk_size: Annotated[
        int | None, typer.Option(help="Offsets per commit. By default max_records.")
    ] = None,
    run_id: RunId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Ingest the offsets of a window that are not in the lake. Live runs are not affected."""
    from tidegate.runs.requested_windows import absolute_edge, parse_ranges
    from tidegate.runs.topics import choose_topic

    spec = pipeline_files.load_ingest(pipeline)
    asked = Backfill(
        topic=(topic or "") if ranges else choose_topic(spec.name, spec.topics, topic),
        partitions=_numbers(partitions),
        start=absolute_edge(start, zone),
        end=absolute_edge(end, zone),
        ranges=parse_ranges(ranges or ()),
        fill_gaps=fill_gaps,
        chunk_size=chunk_size,
    )
    run = new_run(spec, run_id, dag_id="tidegate_backfill", asked=asked)
    carry_out(run, run_id=run_id, dry_run=dry_run, as_json=as_json)


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
    zone: Zone = "UTC",
    where: Annotated[
        str | None, typer.Option(help="Egress: send only rows that match this SQL condition.")
    ] = None,
    sent: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            help="Egress of files: a name or glob of what was sent. May be repeated. start and "
            "end are then when it was sent.",
        ),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Its name in reports. The replay id alone continues it.")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Ingest: read a window again and replace its files. Egress: send a window or files again."""
    from tidegate.runs.requested_windows import absolute_edge

    spec = pipeline_files.load_named(pipeline)
    given = {
        "id": replay_id, "partitions": _numbers(partitions), "where": where,
        "start": absolute_edge(start, zone), "end": absolute_edge(end, zone),
        "files": tuple(sent or ()),
    }  # fmt: skip
    settings = flows.flow_of(spec).replay(spec, topic, kafka, given)
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
    """Show every offset: covered (live, backfill, replay), skipped, expired or unseen."""
    from tidegate.ingest.topic_coverage import read_coverage

    spec = pipeline_files.load_ingest(pipeline)
    answer(read_coverage(spec, flows.store(spec), kafka(spec)), _print_coverage, as_json=as_json)


def _print_coverage(coverage: Coverage) -> None:
    """Print a line with a bar for each partition, and its intervals below."""
    say(bold(coverage.pipeline))
    if coverage.broker:
        say(coverage.broker, "yellow")
    for topic, each in coverage.topics.items():
        for p, partition in each.partitions.items():
            bar = (_cells(*run) for run in coverage_bar(partition.intervals, _WIDTH))
            say(Text.assemble(f"{topic}-{p}  ", *bar, "" if partition.intervals else "empty"))
            _print_intervals(partition.intervals, partition.expires_at)
    legend = (Text.assemble(_cells(kind, 1), f" {kind}") for kind in _SYMBOLS)
    say(Text("  ").join(legend))


def _print_intervals(intervals: Sequence[CoverageInterval], expires_at: str | None) -> None:
    """Print each interval with its state. The first unseen one with the time of its expiry."""
    ranges = [f"[{i.start:,}, {i.end:,})" for i in intervals]
    width = max(map(len, ranges), default=0)
    for text, i in zip(ranges, intervals, strict=True):
        expiry = ""
        if i.state == "unseen" and expires_at:
            expiry, expires_at = f", expires {time_until(expires_at)}", None
        say(f"  {text:{width}}  {_state(i)}{expiry}")


def _cells(kind: str, count: int) -> tuple[str, str]:
    character, style = _SYMBOLS.get(kind, _SYMBOLS["live"])
    return character * count, style


def _state(i: CoverageInterval) -> str:
    if i.state == "before":
        return "before the origin"
    if i.state == "expired":
        return "expired unread"
    return i.state + (f" by {i.lane}" if i.lane else f": {i.reason}, by {i.by}" if i.reason else "")
