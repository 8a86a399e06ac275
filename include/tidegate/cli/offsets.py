"""`tidegate offsets`: the cursors, looked at and moved by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidegate.cli.connections import kafka
from tidegate.cli.console import Json, Pipeline, answer, out
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
    from tidegate.maintenance.cursor import show

    answer(show(files.load_ingest(pipeline)), _tell_offsets, as_json=as_json)


def _tell_offsets(found: Mapping[str, Any]) -> None:
    out.print(f"[bold]{found['pipeline']}[/], after entry {found['entry']}", highlight=False)
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
    from tidegate.maintenance.cursor import move

    spec = files.load_ingest(pipeline)
    moved = move(
        spec,
        kafka(spec.kafka),
        mirror(),
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
        by=whoever(),
    )
    entries = ", ".join(f"#{n}" for n in moved["entries"]) or "nothing to skip"
    says = f"{topic}-{partition}: cursor {moved['was']:,} → {moved['cursor']:,} ({entries})"
    answer(moved, lambda _: out.print(says, highlight=False, markup=False), as_json=as_json)


@app.command("adopt")
def adopt_topic(pipeline: Pipeline, topic: Topic, reason: Reason, as_json: Json = False) -> None:
    """Take up a topic that was recreated, from its log start; what is in the lake stays."""
    from tidegate.maintenance.cursor import adopt

    spec = files.load_ingest(pipeline)
    adopted = adopt(spec, kafka(spec.kafka), mirror(), topic=topic, reason=reason, by=whoever())
    if adopted["entry"] is None:
        says = f"{topic}: {adopted['topic_id']} is followed already"
    else:
        says = (
            f"{topic}: {adopted['was']} → {adopted['topic_id']} (#{adopted['entry']}), from "
            f"{json.dumps(adopted['origins'])}"
        )
    answer(
        adopted,
        lambda _: out.print(says, highlight=False, markup=False, soft_wrap=True),
        as_json=as_json,
    )
