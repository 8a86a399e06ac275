"""What people are told: plans, runs and states, on stdout what they asked for, else on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table

from tidegate.cli.console import err, out
from tidegate.core.offsets import bounds
from tidegate.core.plan import Plan


def tell_plan(plan: Plan, *, known: bool) -> None:
    state = "known plan" if known else "plan"
    err.print(
        f"{state} {plan.id}: {plan.records:,} offsets in {len(plan.chunks)} chunks"
        + ("" if plan.chunks else ": nothing new"),
        highlight=False,
    )
    for topic, (starts, ends) in _by_topic(plan):
        for p in sorted(starts):
            err.print(f"  {topic}-{p} [{starts[p]:,}, {ends[p]:,})", highlight=False, markup=False)


def _by_topic(plan: Plan) -> Iterator[tuple[str, tuple[Mapping[int, int], Mapping[int, int]]]]:
    starts, ends = bounds(plan.chunks)
    for topic in sorted(starts):
        yield topic, (starts[topic], ends[topic])


def tell_published(report: Mapping[str, Any]) -> None:
    for commit in report["commits"]:
        out.print(f"commit #{commit['commit']}: {commit['rows']:,} rows", highlight=False)
    for chunk, commits in report["covered_by"].items():
        out.print(f"chunk {chunk}: in the lake already, by commits {commits}", highlight=False)
    if report["missing"]:
        err.print(f"chunks {report['missing']} are not in the lake", style="yellow", markup=False)
    elif not report["commits"] and not report["covered_by"]:
        out.print("nothing new", highlight=False)


def tell_files(plan: Plan, *, known: bool) -> None:
    state = "known plan" if known else "plan"
    size = sum(file.size for file in plan.files)
    what = f"{len(plan.files)} files, {size:,} bytes" if plan.files else f"{plan.records:,} offsets"
    err.print(f"{state} {plan.id}: " + (what if plan.has_work else "nothing new"), highlight=False)
    for each in plan.left_out:
        err.print(f"  left out: {each}", highlight=False, markup=False)


def tell_sent(report: Mapping[str, Any]) -> None:
    if report["commit"] is None:
        out.print("nothing new", highlight=False)
        return
    doubled = f", {report['duplicates']:,} doubled" if report["duplicates"] else ""
    kept = f", {report['quarantined']:,} in quarantine" if report["quarantined"] else ""
    out.print(f"commit #{report['commit']}: {report['rows']:,} rows sent{doubled}{kept}",
              highlight=False)  # fmt: skip
    if report["broken_order"]:
        err.print(f"  the order is broken in {', '.join(report['broken_order'])}", style="yellow",
                  markup=False, highlight=False)  # fmt: skip


def tell_sending(told: Mapping[str, Any]) -> None:
    """Tell what an egress run would send."""
    if first := told["finishes_first"]:
        state = "which is dead" if first["sender_dead"] else "which is not proven dead"
        out.print(f"first: plan {first['plan_id']}, begun by a sender {state}", highlight=False)
    where = ", ".join(
        f"{t} ({each['partitions']} partitions{'' if each['topic_id'] else ', to be made'})"
        for t, each in told["target"].items()
    )
    what = (
        f"{len(told['files'])} files, {told['bytes']:,} bytes, {told['records']:,} rows known"
        if told["files"] or not told["offsets"]
        else f"{told['records']:,} offsets of the lake"
    )
    out.print(f"[bold]{told['pipeline']}[/]: would send {what}, to {where}", highlight=False)
    if replay := told["replay"]:
        if replay["where"] is not None:
            out.print(f"  where {replay['where']}", markup=False, highlight=False)
        if replay["done"]:
            how = f"as entry #{replay['commit']}" if replay["commit"] else "as was declared"
            out.print(f"  but did so before, {how}", highlight=False)
    for file in told["files"][:20]:
        out.print(f"  {file['name']}  {file['size']:,} bytes", markup=False, highlight=False)
    later = told["later"]
    out.print(
        f"  later: {later['files']} files, {later['offsets']:,} offsets; "
        f"{later['young']} files have not settled",
        highlight=False,
    )
    for each in told["left_out"]:
        err.print(f"  left out: {each['file']}: {each['reason']}", markup=False, highlight=False)


def tell_late(done: Mapping[str, Any]) -> None:
    """Tell which offsets of a lake are counted as sent from now on."""
    for r in done["late"]:
        out.print(
            f"{r['topic']}-{r['partition']} [{r['start']:,}, {r['end']:,}): counted as sent",
            highlight=False, markup=False,
        )  # fmt: skip


def tell_reading(told: Mapping[str, Any]) -> None:
    """Tell what an ingest run would read."""
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


def tell_lake_files(listed: Iterable[Mapping[str, Any]]) -> None:
    """List the files of a lake."""
    table = Table(box=None)
    for column in ("commit", "rows", "bytes"):
        table.add_column(column, justify="right")
    table.add_column("uri", overflow="fold")
    for each in listed:
        table.add_row(str(each["commit"]), f"{each['rows']:,}", f"{each['bytes']:,}", each["uri"])
    out.print(table)


def tell_findings(findings: Mapping[str, Any]) -> None:
    """Tell what `verify` has found."""
    compared = findings["against_kafka"]
    out.print(
        f"{findings['commits']} commits, {findings['files']} files, {findings['rows']:,} rows"
        + (f"; {compared['rows']:,} compared with Kafka" if compared else "")
        + f"; {findings['differences']} differences"
    )
    for each in findings["first"]:
        out.print("  - " + ", ".join(f"{k} {v}" for k, v in each.items()), markup=False)


def tell_egress_status(state: Mapping[str, Any]) -> None:
    sent, waiting = state["sent"], state["waiting"]
    out.print(
        f"[bold]{state['pipeline']}[/]: {state['commits']} commits, {sent['rows']:,} rows sent, "
        f"{sent['duplicates']:,} doubled",
        highlight=False,
    )
    if waiting:
        out.print(
            f"  waiting: {waiting['files']:,} files, {waiting['offsets']:,} offsets; "
            f"{waiting['young']} files not settled yet"
            + (f"; {waiting['ahead']:,} offsets behind an unseen one" if waiting["ahead"] else ""),
            highlight=False,
        )
    else:
        err.print(state["source_problem"], style="yellow", markup=False)
    for each in state["left_out"]:
        err.print(f"  left out: {each['file']}: {each['reason']}", markup=False, highlight=False)
    for each in state["broken_order"]:
        err.print(
            f"  commit #{each['commit']}: the order is broken in {', '.join(each['where'])}",
            style="yellow", markup=False, highlight=False,
        )  # fmt: skip
    for claim in state["open_claims"]:
        sender = claim["sender"]
        replay = f" (replay {claim['replay']})" if claim["replay"] else ""
        err.print(
            f"  open claim of plan {claim['plan_id']}{replay}, by process {sender['pid']} on "
            f"{sender['host']}" + (", which is dead" if claim["sender_dead"] else ""),
            style="yellow", markup=False, highlight=False,
        )  # fmt: skip


def tell_status(state: Mapping[str, Any]) -> None:
    if error := state.get("error"):
        err.print(f"{state['pipeline']}: {error['message']}", style="red", markup=False)
        return
    if state.get("kind") == "egress":
        tell_egress_status(state)
        return
    last = f", the last is #{state['last_commit']}" if state["commits"] else ""
    out.print(f"[bold]{state['pipeline']}[/]: {state['commits']} commits{last}", highlight=False)
    if state["broker"]:
        err.print(state["broker"], style="yellow", markup=False)
    for each in state["unfinished"]:
        out.print(
            f"  {each['lane']} plan {each['plan_id']} of run {each['run']}: {each['committed']} of "
            f"{each['chunks']} chunks committed, {each['sealed']} sealed",
            highlight=False, markup=False,
        )  # fmt: skip
    table = Table(box=None)
    table.add_column("topic")
    columns = ("partition", "origin", "cursor", "log start", "end", "high", "lag")
    for column in columns:
        table.add_column(column, justify="right")
    for topic, each in state["topics"].items():
        for p, numbers in each["partitions"].items():
            keys = (column.replace(" ", "_") for column in columns[1:])
            shown = ("-" if (n := numbers[key]) is None else f"{n:,}" for key in keys)
            table.add_row(topic, p, *shown)
    out.print(table)
    for topic, each in state["topics"].items():
        for p, numbers in each["partitions"].items():
            if numbers["high"] is not None and numbers["high"] > numbers["end"]:
                err.print(
                    f"{topic}-{p}: {numbers['high'] - numbers['end']:,} offsets are behind a "
                    f"transaction that is open since {numbers['open_since'] or '(not known)'}",
                    style="yellow", markup=False, highlight=False,
                )  # fmt: skip
