"""What commands print for people, of both kinds of pipelines.

Results go to stdout, the rest to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from tidegate.core.wording import counted
from tidegate.runs.pipeline_state import EXIT_CODES, PipelineList, State
from tidegate.terminal import render_egress, render_ingest
from tidegate.terminal.console import (
    Document,
    Results,
    as_form,
    error_form,
    exit_code,
    fix_lines,
    note,
    out,
    say,
    say_columns,
    time_since,
    worst_exit_code,
)

if TYPE_CHECKING:
    from tidegate.egress.status import EgressStatus
    from tidegate.ingest.status import IngestStatus
    from tidegate.runs.findings import Verified


def print_each(results: Results, show: Callable[[Any], None], *, as_json: bool) -> int:
    """Print the document, or the error, of each pipeline. Return the exit code of the errors."""
    code, documents = 0, []
    for pipeline, result in results:
        if isinstance(result, Exception):
            code = worst_exit_code(code, exit_code(result))
            form = error_form(result)
            note(f"{pipeline}: {form['message']}", "red")
            documents.append({"format": 1, "pipeline": pipeline, "error": form})
        else:
            documents.append(as_form(result))
            if not as_json:
                show(result)
    if as_json:
        print(json.dumps({"format": 1, "pipelines": documents}))
    return code


def print_list(listed: PipelineList) -> None:
    """Print a line a pipeline, the worst state first, and the reasons of those that need action."""
    order = [*State]
    lines = sorted(listed.pipelines, key=lambda each: order.index(each.state))
    if lines:
        say_columns(
            ("pipeline", "kind", "schedule", "state", ">waiting", ">last run", ">last entry"),
            (
                (
                    each.pipeline,
                    each.kind or "",
                    each.schedule or "",
                    each.state,
                    "" if each.waiting is None else f"{each.waiting:,}",
                    f"{time_since(each.last_run.ended)} ago" if each.last_run else "",
                    f"{time_since(each.last)} ago" if each.last else "",
                )
                for each in lines
            ),
        )
    for each in lines:
        if EXIT_CODES[State(each.state)]:
            say(f"{each.pipeline}: {each.reason}", "yellow")
            if each.state == State.FAILING and each.last_run and each.last_run.error:
                say(f"  {each.last_run.error.message}", "yellow")
            for line in fix_lines(each.fix):
                say(line)


class Printers(NamedTuple):
    """The functions that print the plan and the documents of a kind of pipeline."""

    plan: Callable[..., None]
    published: Callable[..., None]
    explained: Callable[[Any], None]
    status: Callable[[Any], None]


PRINTERS = {
    "ingest": Printers(
        render_ingest.print_plan,
        render_ingest.print_published,
        render_ingest.print_explained,
        render_ingest.print_status,
    ),
    "egress": Printers(
        render_egress.print_plan,
        render_egress.print_published,
        render_egress.print_explained,
        render_egress.print_status,
    ),
}


def explained_lines(kind: str, explained: Any) -> list[str]:
    """Return what `tidegate explain` prints, for a log."""
    with out.capture() as captured:
        PRINTERS[kind].explained(explained)
    return Text.from_ansi(captured.get()).plain.splitlines()


def print_status(state: IngestStatus | EgressStatus) -> None:
    """Print the status of a pipeline."""
    PRINTERS[state.kind].status(state)


def print_lake_files(listed: Iterable[Document]) -> None:
    """Print the files of a lake, one a line."""
    rows = [
        (f"#{each['commit']:,}", f"{each['rows']:,}", f"{each['bytes']:,}", each["uri"])
        for each in listed
    ]
    say_columns((">commit", ">rows", ">bytes", "uri"), rows)


def print_findings(findings: Verified) -> None:
    """Print what `verify` has found."""
    compared = findings.against_kafka
    say(
        f"{counted(findings.commits, 'live commit')}, {counted(findings.files, 'file')}, "
        + counted(findings.rows, "row")
        + (f"; {compared.rows:,} compared with Kafka" if compared else "")
        + f"; {counted(findings.differences, 'difference')}"
    )
    for each in findings.first:
        where = ", ".join(f"{k} {v}" for k, v in each.where.items())
        say(f"  - {each.what}{f': {where}' if where else ''}")
    if more := findings.differences - len(findings.first):
        say(f"  and {counted(more, 'more difference')}")
