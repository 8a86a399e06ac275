"""`tidegate offsets`: show, move and adopt cursors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.airflow_variables import signature, variables_if_any
from tidegate.cli.arguments import Json, Pipeline
from tidegate.orchestration.command_connections import kafka
from tidegate.pipelines import pipeline_files
from tidegate.terminal.console import answer, bold, say

if TYPE_CHECKING:
    from tidegate.maintenance.cursor_moves import Cursors

app = typer.Typer(
    help="Cursors: show them, move one forward, adopt a recreated topic.",
    no_args_is_help=True,
)

Topic = Annotated[str, typer.Argument(help="A topic of the pipeline.")]
Reason = Annotated[str, typer.Option(help="Why. Kept in the ledger.")]


@app.command("show")
def show_offsets(pipeline: Pipeline, as_json: Json = False) -> None:
    """Show the ledger's cursors in Spark's form, origins, gaps, and earlier topic ids."""
    from tidegate.maintenance.cursor_moves import show_cursors

    answer(show_cursors(pipeline_files.load_ingest(pipeline)), _print_offsets, as_json=as_json)


def _print_offsets(shown: Cursors) -> None:
    say(bold(shown.pipeline, f", after entry {shown.entry}"))
    for topic, each in shown.topics.items():
        say(f"{topic} {each.topic_id}")
        say(f"  origins  {json.dumps(each.origins)}")
        for earlier in each.earlier:
            say(f"  earlier  {earlier}")
    for gap in shown.gaps:
        where = f"{gap.topic}-{gap.partition} [{gap.start:,}, {gap.end:,})"
        say(f"gap {where}: {gap.reason} ({gap.by})")
    say(json.dumps(shown.offsets))


@app.command("set")
def set_offset(
    pipeline: Pipeline,
    topic: Topic,
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0, help="The next offset to read.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Move a cursor forward. Skipped offsets become a gap. To move back, replay."""
    from tidegate.maintenance.cursor_moves import move

    spec = pipeline_files.load_ingest(pipeline)
    moved = move(
        spec,
        kafka(spec),
        variables_if_any(),
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
        by=signature(),
    )
    entries = ", ".join(f"#{n}" for n in moved.entries) or "nothing to skip"
    text = f"{topic}-{partition}: cursor {moved.was:,} → {moved.cursor:,} ({entries})"
    answer(moved, lambda _: say(text), as_json=as_json)


@app.command("adopt")
def adopt_topic(pipeline: Pipeline, topic: Topic, reason: Reason, as_json: Json = False) -> None:
    """Adopt a recreated topic, from its log start. The lake keeps the old topic's rows."""
    from tidegate.maintenance.cursor_moves import adopt

    spec = pipeline_files.load_ingest(pipeline)
    adopted = adopt(
        spec, kafka(spec), variables_if_any(), topic=topic, reason=reason, by=signature()
    )
    text = f"{topic}: {adopted.topic_id} is followed already"
    if adopted.entry is not None:
        text = (
            f"{topic}: {adopted.was} → {adopted.topic_id} (#{adopted.entry}), from "
            f"{json.dumps(adopted.origins)}"
        )
    answer(adopted, lambda _: say(text), as_json=as_json)
