"""Commands about what a run would do, and what the lake has of the topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidegate.cli.telling import err, out
from tidegate.cli.terminal import Json, Pipeline, spark_master
from tidegate.core.coverage import Interval, drawn
from tidegate.pipelines import files

app = typer.Typer()

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
    as_json: Json = False,
) -> None:
    """Tell what `run` would do now; nothing is done, nothing is written."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.explain import explain
    from tidegate.runs.run import Run

    spec = files.load_ingest(pipeline)
    run = Run(
        spec=spec,
        kafka=from_environment(spec.kafka),
        dag_id=f"tidegate__{spec.name}",
        run_id="explain",
        window_date=datetime.now(UTC).date(),
        max_records=max_records,
    )
    told = explain(run, master=spark_master(spec))
    if as_json:
        print(json.dumps(told))
    else:
        tell(told)


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
