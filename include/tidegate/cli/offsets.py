"""`tidegate offsets`: the cursors, looked at and moved by hand."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tidegate.cli.telling import out
from tidegate.cli.terminal import Json, Pipeline
from tidegate.cli.variables import mirror, whoever
from tidegate.pipelines import files

app = typer.Typer(
    help="The cursors: look at them, move them forward, take up a recreated topic.",
    no_args_is_help=True,
)

Topic = Annotated[str, typer.Argument(help="A topic of the pipeline.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger for ever.")]


@app.command("show")
def show_offsets(pipeline: Pipeline, as_json: Json = False) -> None:
    """Show the ledger's cursors in Spark's form, origins, gaps, and earlier topic ids."""
    from tidegate.runs.offsets import show

    found = show(files.load_ingest(pipeline))
    if as_json:
        print(json.dumps(found))
        return
    out.print(f"[bold]{pipeline}[/], after entry {found['entry']}", highlight=False)
    for topic, each in found["topics"].items():
        out.print(f"{topic} {each['topic_id']}", highlight=False, markup=False)
        out.print(f"  origins  {json.dumps(each['origins'])}", highlight=False, soft_wrap=True)
        for earlier in each["earlier"]:
            out.print(f"  earlier  {earlier}", highlight=False)
    for gap in found["gaps"]:
        out.print(
            f"gap {gap['topic']}-{gap['partition']} [{gap['start']}, {gap['end']}): "
            f"{gap['reason']} ({gap['by']})",
            highlight=False, markup=False,
        )  # fmt: skip
    out.print(json.dumps(found["offsets"]), highlight=False, soft_wrap=True)


@app.command("set")
def set_offset(
    pipeline: Pipeline,
    topic: Topic,
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0, help="The next offset to read.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Move a cursor forward: what lies between is a gap with a reason. Backward is a replay."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.offsets import move

    spec = files.load_ingest(pipeline)
    moved = move(
        spec,
        from_environment(spec.kafka),
        mirror(),
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
        by=whoever(),
    )
    if as_json:
        print(json.dumps(moved))
    else:
        entries = ", ".join(f"#{n}" for n in moved["entries"]) or "nothing to skip"
        out.print(
            f"{topic}-{partition}: cursor {moved['was']:,} → {moved['cursor']:,} ({entries})",
            highlight=False, markup=False,
        )  # fmt: skip


@app.command("adopt")
def adopt_topic(pipeline: Pipeline, topic: Topic, reason: Reason, as_json: Json = False) -> None:
    """Take up a topic that was recreated, from its log start; what is in the lake stays."""
    from tidegate.broker.settings import from_environment
    from tidegate.runs.offsets import adopt

    spec = files.load_ingest(pipeline)
    adopted = adopt(
        spec, from_environment(spec.kafka), mirror(), topic=topic, reason=reason, by=whoever()
    )
    if as_json:
        print(json.dumps(adopted))
    elif adopted["entry"] is None:
        out.print(f"{topic}: {adopted['topic_id']} is followed already", markup=False)
    else:
        out.print(
            f"{topic}: {adopted['was']} → {adopted['topic_id']} (#{adopted['entry']}), from "
            f"{json.dumps(adopted['origins'])}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
