"""Tables and lines for people: plans, runs, states. Results go to stdout, the rest to stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rich.table import Table

from tidegate.cli.console import bold, error_form, exit_code, note, out, say, worst
from tidegate.core.offsets import bounds
from tidegate.core.plan import Plan

Document = Mapping[str, Any]
Results = Iterable[tuple[str, dict[str, Any] | Exception]]
"""Names of pipelines, each with its document or its error."""


def new_table(*columns: str) -> Table:
    """Return an empty table; a column whose name begins with `>` is aligned to the right."""
    table = Table(box=None)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left")
    return table


def number(n: int | None) -> str:
    """Return a number with thousands separators; `-` for None."""
    return "-" if n is None else f"{n:,}"


def each_partition(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Yield topic, partition and the values of each partition in a document's `topics`."""
    for topic, each in document["topics"].items():
        for p, values in each["partitions"].items():
            yield topic, p, values


def _print_left_out(document: Document) -> None:
    for each in document["left_out"]:
        note(f"  left out: {each['file']}: {each['reason']}")


# Ingest


def _print_plan(plan: Plan, *, known: bool) -> None:
    note(
        f"{_plan_id(plan, known)}: {plan.records:,} offsets in {len(plan.chunks)} chunks"
        + ("" if plan.chunks else ": nothing new")
    )
    starts, ends = bounds(plan.chunks)
    for topic in sorted(starts):
        for p, start in sorted(starts[topic].items()):
            note(f"  {topic}-{p} [{start:,}, {ends[topic][p]:,})")


def _plan_id(plan: Plan, known: bool) -> str:
    return f"{'known plan' if known else 'plan'} {plan.id}"


def _print_published(report: Document) -> None:
    for commit in report["commits"]:
        say(f"commit #{commit['commit']}: {commit['rows']:,} rows")
    for chunk, commits in report["covered_by"].items():
        say(f"chunk {chunk}: in the lake already, by commits {commits}")
    if report["missing"]:
        note(f"chunks {report['missing']} are not in the lake", "yellow")
    elif not report["commits"] and not report["covered_by"]:
        say("nothing new")


def _print_reading(explained: Document) -> None:
    size = "" if explained["bytes"] is None else f", about {explained['bytes']:,} bytes"
    work = ""
    if explained["files"] is not None:
        work = f", {explained['splits']} tasks, {explained['files']} files"
    text = f" ({explained['lane']}): {explained['records']:,} records in "
    text += f"{len(explained['chunks'])} chunks{size}{work}"
    say(bold(explained["pipeline"], text + ("" if explained["chunks"] else ": nothing new")))
    if explained["later"]:
        say(f"{explained['later']:,} records are left to later runs")
    table = new_table("topic", ">partition", "ranges", ">records", ">log start", ">end", ">cursor",
                      ">then", "expires from")  # fmt: skip
    for topic, p, values in each_partition(explained):
        ranges = " ".join(f"[{start:,}, {end:,})" for start, end in values["ranges"])
        names = ("records", "log_start", "end", "cursor", "cursor_after")
        shown = (number(values[name]) for name in names)
        table.add_row(topic, p, ranges or "-", *shown, values["expires_at"] or "-")
    out.print(table)
    for gap in explained["gaps"]:
        where = f"{gap['topic']}-{gap['partition']} [{gap['start']:,}, {gap['end']:,})"
        say(f"gap: {where}: {gap['reason']}")
    for left in explained["left_out"]:
        say("left out: " + ", ".join(f"{k} {v}" for k, v in left.items()))


def _print_ingest_status(state: Document) -> None:
    last = f", the last is #{state['last_commit']}" if state["commits"] else ""
    say(bold(state["pipeline"], f": {state['commits']} commits{last}"))
    if state["broker"]:
        note(state["broker"], "yellow")
    for each in state["unfinished"]:
        say(
            f"  {each['lane']} plan {each['plan_id']} of run {each['run']}: {each['committed']} of "
            f"{each['chunks']} chunks committed, {each['sealed']} sealed"
        )
    names = ("origin", "cursor", "log start", "end", "high", "lag")
    table = new_table("topic", ">partition", *(f">{name}" for name in names))
    for topic, p, values in each_partition(state):
        table.add_row(topic, p, *(number(values[name.replace(" ", "_")]) for name in names))
    out.print(table)
    for topic, p, values in each_partition(state):
        if values["high"] is not None and values["high"] > values["end"]:
            note(
                f"{topic}-{p}: {values['high'] - values['end']:,} offsets are behind a "
                f"transaction that is open since {values['open_since'] or '(not known)'}",
                "yellow",
            )


# Egress


def _print_files(plan: Plan, *, known: bool) -> None:
    data = f"{plan.records:,} offsets"
    if plan.files:
        data = f"{len(plan.files)} files, {sum(file.size for file in plan.files):,} bytes"
    note(f"{_plan_id(plan, known)}: {data if plan.has_work else 'nothing new'}")
    for each in plan.left_out:
        note(f"  left out: {each}")


def _print_sent(report: Document) -> None:
    if report["commit"] is None:
        say("nothing new")
        return
    duplicates = f", {report['duplicates']:,} duplicated" if report["duplicates"] else ""
    quarantined = f", {report['quarantined']:,} in quarantine" if report["quarantined"] else ""
    say(f"commit #{report['commit']}: {report['rows']:,} rows sent{duplicates}{quarantined}")
    if report["broken_order"]:
        note(f"  the order is broken in {', '.join(report['broken_order'])}", "yellow")


def _print_sending(explained: Document) -> None:
    if first := explained["finishes_first"]:
        state = "which is dead" if first["sender_dead"] else "which is not proven dead"
        say(f"first: plan {first['plan_id']}, begun by a sender {state}")
    topics = ", ".join(
        f"{t} ({each['partitions']} partitions{'' if each['topic_id'] else ', to be made'})"
        for t, each in explained["target"].items()
    )
    data = f"{explained['records']:,} offsets of the lake"
    if explained["files"] or not explained["offsets"]:
        data = (
            f"{len(explained['files'])} files, {explained['bytes']:,} bytes, "
            f"{explained['records']:,} rows known"
        )
    say(bold(explained["pipeline"], f": would send {data}, to {topics}"))
    if replay := explained["replay"]:
        if replay["where"] is not None:
            say(f"  where {replay['where']}")
        if replay["done"]:
            how = f"as entry #{replay['commit']}" if replay["commit"] else "as was declared"
            say(f"  but did so before, {how}")
    for file in explained["files"][:20]:
        say(f"  {file['name']}  {file['size']:,} bytes")
    later = explained["later"]
    say(
        f"  later: {later['files']} files, {later['offsets']:,} offsets; "
        f"{later['young']} files have not settled"
    )
    _print_left_out(explained)


def print_late(document: Document) -> None:
    """Print the offsets of a lake that now count as sent."""
    for r in document["late"]:
        say(f"{r['topic']}-{r['partition']} [{r['start']:,}, {r['end']:,}): counted as sent")


def _print_egress_status(state: Document) -> None:
    sent, waiting = state["sent"], state["waiting"]
    text = f": {state['commits']} commits, {sent['rows']:,} rows sent, "
    say(bold(state["pipeline"], f"{text}{sent['duplicates']:,} duplicated"))
    if waiting:
        ahead = f"; {waiting['ahead']:,} offsets behind an unseen one" if waiting["ahead"] else ""
        say(
            f"  waiting: {waiting['files']:,} files, {waiting['offsets']:,} offsets; "
            f"{waiting['young']} files not settled yet{ahead}"
        )
    else:
        note(state["source_problem"], "yellow")
    _print_left_out(state)
    for each in state["broken_order"]:
        where = ", ".join(each["where"])
        note(f"  commit #{each['commit']}: the order is broken in {where}", "yellow")
    for claim in state["open_claims"]:
        sender = claim["sender"]
        replay = f" (replay {claim['replay']})" if claim["replay"] else ""
        dead = ", which is dead" if claim["sender_dead"] else ""
        note(
            f"  open claim of plan {claim['plan_id']}{replay}, by process {sender['pid']} on "
            f"{sender['host']}{dead}",
            "yellow",
        )


# Both


def print_each(results: Results, show: Callable[[Document], None], *, as_json: bool) -> int:
    """Print the document, or the error, of each pipeline; return the exit code of the errors."""
    code, documents = 0, []
    for pipeline, result in results:
        if isinstance(result, Exception):
            code = worst(code, exit_code(result))
            form = error_form(result)
            note(f"{pipeline}: {form['message']}", "red", soft_wrap=True)
            documents.append({"format": 1, "pipeline": pipeline, "error": form})
        else:
            documents.append(result)
            if not as_json:
                show(result)
    if as_json:
        print(json.dumps({"format": 1, "pipelines": documents}))
    return code


class Printers(NamedTuple):
    """The functions that print the plan and the documents of a kind of pipeline."""

    plan: Callable[..., None]
    published: Callable[[Document], None]
    explained: Callable[[Document], None]
    status: Callable[[Document], None]


PRINTERS = {
    "ingest": Printers(_print_plan, _print_published, _print_reading, _print_ingest_status),
    "egress": Printers(_print_files, _print_sent, _print_sending, _print_egress_status),
}


def print_status(state: Document) -> None:
    """Print the status of a pipeline."""
    PRINTERS[state.get("kind", "ingest")].status(state)


def print_lake_files(listed: Iterable[Document]) -> None:
    """Print the files of a lake."""
    table = new_table(">commit", ">rows", ">bytes")
    table.add_column("uri", overflow="fold")
    for each in listed:
        table.add_row(str(each["commit"]), f"{each['rows']:,}", f"{each['bytes']:,}", each["uri"])
    out.print(table)


def print_findings(findings: Document) -> None:
    """Print what `verify` has found."""
    compared = findings["against_kafka"]
    say(
        f"{findings['commits']} commits, {findings['files']} files, {findings['rows']:,} rows"
        + (f"; {compared['rows']:,} compared with Kafka" if compared else "")
        + f"; {findings['differences']} differences"
    )
    for each in findings["first"]:
        say("  - " + ", ".join(f"{k} {v}" for k, v in each.items()))
