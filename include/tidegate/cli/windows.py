"""Commands about what a run would do, and what the lake has of the topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from tidegate.cli.telling import out
from tidegate.cli.terminal import Json, Pipeline, spark_master
from tidegate.pipelines import files

app = typer.Typer()


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
