"""Commands about what a run would do, and what the lake has of the topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidegate.cli.telling import (
    err,
    out,
    tell_files,
    tell_plan,
    tell_published,
    tell_sending,
    tell_sent,
)
from tidegate.cli.terminal import Json, Pipeline, new_run_id, spark_master, submitter
from tidegate.core.coverage import Interval, drawn
from tidegate.core.windows import Asked, Replay
from tidegate.errors import ConfigurationError
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest

app = typer.Typer()

EDGE_HELP = "An offset, offsets in Spark's form, or a time with a zone."
Topic = Annotated[str | None, typer.Option(help="One of the pipeline's; needed if it has more.")]
Partitions = Annotated[str | None, typer.Option(help="Their numbers, with commas; else all.")]
RunId = Annotated[str | None, typer.Option(help="The same id again continues; else a new one.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Explain, and do nothing.")]

_WIDTH = 40
_DRAWN = {
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
    max_records: Annotated[int | None, typer.Option(min=1, help="Offsets per commit.")] = None,
    max_chunks: Annotated[
        int | None, typer.Option(min=1, help="The most commits; what expires soonest goes first.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what `run` would do now; nothing is done, nothing is written."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.explain import explain
    from tidegate.runs.run import Run

    spec = files.load_named(pipeline)
    if isinstance(spec, Egress):
        _explain_egress(spec, max_records, as_json=as_json)
        return
    run = Run(
        spec=spec,
        kafka=from_environment(spec.kafka),
        dag_id=f"tidegate__{spec.name}",
        run_id="explain",
        window_date=datetime.now(UTC).date(),
        max_records=max_records,
        max_chunks=max_chunks,
    )
    told = explain(run, master=spark_master(spec))
    if as_json:
        print(json.dumps(told))
    else:
        tell(told)


def _explain_egress(spec: Egress, max_records: int | None, *, as_json: bool) -> None:
    from tidegate.broker.settings import from_environment
    from tidegate.runs.egress.explain import explain
    from tidegate.runs.run import EgressRun

    told = explain(
        EgressRun(
            spec=spec,
            kafka=from_environment(spec.target.kafka),
            dag_id=f"tidegate__{spec.name}",
            run_id="explain",
            window_date=datetime.now(UTC).date(),
            max_records=max_records,
        )
    )
    if as_json:
        print(json.dumps(told))
    else:
        tell_sending(told)


@app.command("backfill")
def backfill_window(
    pipeline: Pipeline,
    topic: Topic = None,
    partitions: Partitions = None,
    start: Annotated[str | None, typer.Option(help=EDGE_HELP)] = None,
    end: Annotated[str | None, typer.Option(help="Likewise; exclusive.")] = None,
    fill_gaps: Annotated[
        bool, typer.Option(help="Instead: what was skipped and is still in the log.")
    ] = False,
    chunk_size: Annotated[
        int | None, typer.Option(help="Offsets per commit; else the pipeline's max_records.")
    ] = None,
    order: Annotated[str, typer.Option(help="oldest, or soonest-expiring, first.")] = "oldest",
    run_id: RunId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Take any window into the lake, unless it is there; the live cursor is not disturbed."""
    from tidegate.core.windows import Backfill

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
    carry_out(spec, asked, "tidegate_backfill", run_id, dry_run=dry_run, as_json=as_json)


@app.command("replay")
def replay_window(
    pipeline: Pipeline,
    replay_id: Annotated[
        str, typer.Option(help="The same id again does nothing; a new one does it once more.")
    ],
    topic: Topic = None,
    partitions: Partitions = None,
    start: Annotated[str | None, typer.Option(help=EDGE_HELP)] = None,
    end: Annotated[str | None, typer.Option(help="Likewise; exclusive.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Egress: send only rows of which this SQL is true.")
    ] = None,
    run_id: RunId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Read a window of the lake again and replace its files; of an egress, send it again."""
    from tidegate.runs.egress import again

    spec = files.load_named(pipeline)
    asked = Replay(
        topic=again.topic_named(spec, topic)
        if isinstance(spec, Egress)
        else spec.topic_named(topic),
        id=replay_id,
        partitions=_numbers(partitions),
        start=start,
        end=end,
        where=where,
    )
    if isinstance(spec, Egress):
        _send_again(spec, asked, run_id, dry_run=dry_run, as_json=as_json)
    else:
        carry_out(spec, asked, "tidegate_replay", run_id, dry_run=dry_run, as_json=as_json)


def _send_again(
    spec: Egress, asked: Replay, run_id: str | None, *, dry_run: bool, as_json: bool
) -> None:
    from tidegate.broker.settings import from_environment
    from tidegate.runs.egress import again, egress
    from tidegate.runs.egress.explain import explain
    from tidegate.runs.run import EgressRun

    run_id = run_id or new_run_id()
    run = EgressRun(
        spec=spec,
        kafka=from_environment(spec.target.kafka),
        dag_id="tidegate_replay",
        run_id=run_id,
        window_date=datetime.now(UTC).date(),
        asked=asked,
        source_kafka=from_environment(files.load_ingest(again.lake_name(spec)).kafka),
    )
    if dry_run:
        told = explain(run)
        print(json.dumps(told)) if as_json else tell_sending(told)
        return
    err.print(f"run id: {run_id}", highlight=False)
    sent = egress(
        run,
        submitter(spec),
        lambda _: False,  # only Airflow knows of its tasks
        on_planned=lambda planned: tell_files(planned.plan, known=planned.known),
        on_published=lambda sent: None if as_json else tell_sent(sent.report),
    )
    if as_json:
        print(json.dumps(sent.report))


def carry_out(
    spec: Ingest, asked: Asked, dag_id: str, run_id: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Run what was asked for, or tell what it would be."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.explain import explain
    from tidegate.runs.ingest import ingest
    from tidegate.runs.run import Run

    run_id = run_id or new_run_id()
    run = Run(
        spec=spec,
        kafka=from_environment(spec.kafka),
        dag_id=dag_id,
        run_id=run_id,
        window_date=datetime.now(UTC).date(),
        asked=asked,
    )
    if dry_run:
        told = explain(run, master=spark_master(spec))
        print(json.dumps(told)) if as_json else tell(told)
        return
    err.print(f"run id: {run_id}", highlight=False)
    done = ingest(
        run,
        submitter(spec),
        on_planned=lambda planned: tell_plan(planned.plan, known=planned.known),
        on_published=lambda done: None if as_json else tell_published(done.report),
    )
    if as_json:
        print(json.dumps(done.report))


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(sorted({int(number) for number in text.split(",")}))
    except ValueError:
        raise ConfigurationError(f"partitions {text!r}: numbers with commas, like 0,3") from None


@app.command("coverage")
def show_coverage(pipeline: Pipeline, as_json: Json = False) -> None:
    """Draw what became of every offset: covered by lane, skipped, expired, still to come."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.coverage import coverage

    spec = files.load_ingest(pipeline)
    found = coverage(spec, from_environment(spec.kafka))
    if as_json:
        print(json.dumps(found))
        return
    out.print(f"[bold]{found['pipeline']}[/]", highlight=False)
    if found["broker"]:
        err.print(found["broker"], style="yellow", markup=False)
    table = Table(box=None)
    for column in ("topic", "partition"):
        table.add_column(column)
    table.add_column("", no_wrap=True)
    for column in ("start", "end"):
        table.add_column(column, justify="right")
    for column in ("state", "expires from"):
        table.add_column(column)
    for topic, each in found["topics"].items():
        for p, partition in each["partitions"].items():
            _add_partition(table, topic, p, partition)
    out.print(table)
    out.print(Text.assemble(*(part for kind in _DRAWN for part in (_cells(kind, 1), f" {kind}  "))))


def _add_partition(table: Table, topic: str, p: str, partition: Mapping[str, Any]) -> None:
    """Add the bar, and a line for each interval; the moment stands beside the first unseen one."""
    intervals = [Interval(**form) for form in partition["intervals"]]
    bar = Text.assemble(*(_cells(*run) for run in drawn(intervals, _WIDTH)))
    expires = [partition["expires_at"] or ""]
    if not intervals:
        table.add_row(topic, p, "", "-", "-", "empty", "")
    for number, i in enumerate(intervals):
        first = (topic, p, bar) if number == 0 else ("", "", "")
        moment = expires.pop() if expires and i.state == "unseen" else ""
        table.add_row(*first, f"{i.start:,}", f"{i.end:,}", _state(i), moment)


def _cells(kind: str, count: int) -> tuple[str, str]:
    character, style = _DRAWN.get(kind, _DRAWN["live"])
    return character * count, style


def _state(i: Interval) -> Text:
    more = f" by {i.lane}" if i.lane else f": {i.reason} ({i.by})" if i.reason else ""
    return Text(i.state + more)


def tell(told: Mapping[str, Any]) -> None:
    """Print what a run would do."""
    size = "" if told["bytes"] is None else f", about {told['bytes']:,} bytes"
    work = "" if told["files"] is None else f", {told['splits']} tasks, {told['files']} files"
    out.print(
        f"[bold]{told['pipeline']}[/] ({told['lane']}): {told['records']:,} records in "
        f"{len(told['chunks'])} chunks{size}{work}" + ("" if told["chunks"] else ": nothing new"),
        highlight=False,
    )
    if told["later"]:
        out.print(f"{told['later']:,} records are left to later runs", highlight=False)
    table = Table(box=None)
    table.add_column("topic")
    table.add_column("partition", justify="right")
    table.add_column("ranges")
    for column in ("records", "log start", "end", "cursor", "then"):
        table.add_column(column, justify="right")
    table.add_column("expires from")
    for topic, each in told["topics"].items():
        for p, numbers in each["partitions"].items():
            table.add_row(
                topic,
                p,
                " ".join(f"[{start:,}, {end:,})" for start, end in numbers["ranges"]) or "-",
                *(_number(numbers[name])
                  for name in ("records", "log_start", "end", "cursor", "cursor_after")),
                numbers["expires_at"] or "-",
            )  # fmt: skip
    out.print(table)
    for gap in told["gaps"]:
        out.print(
            f"gap: {gap['topic']}-{gap['partition']} [{gap['start']:,}, {gap['end']:,}): "
            f"{gap['reason']}",
            highlight=False,
            markup=False,
        )
    for left in told["left_out"]:
        out.print("left out: " + ", ".join(f"{k} {v}" for k, v in left.items()), markup=False)


def _number(n: int | None) -> str:
    return "-" if n is None else f"{n:,}"
