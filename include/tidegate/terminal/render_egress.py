"""What commands print for people about egress pipelines: plans, runs, states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate.broker.client_settings import describe_connection
from tidegate.core.wording import counted, duration
from tidegate.terminal.console import bold, note, say
from tidegate.terminal.render_ingest import print_last_entry, print_reason, print_settings

if TYPE_CHECKING:
    from tidegate.egress.explain import EgressExplained
    from tidegate.egress.publish import Published
    from tidegate.egress.release import Released
    from tidegate.egress.status import EgressStatus, OpenClaim, Waiting
    from tidegate.lake.plans import Frozen

MOST = 20


def print_plan(frozen: Frozen, *, known: bool) -> None:
    """Print a run's plan, and the files that it excludes."""
    note(f"{'known ' if known else ''}{frozen}")
    for each in frozen.plan.left_out:
        note(f"  excluded: {each}")


def print_published(published: Published, *, seconds: str, waiting: Waiting | None) -> None:
    """Print what a run has sent. The last line has its rows by topic, and where to look.

    `waiting` is what the source has left.
    """
    report = published.report
    name, n = report.pipeline, report.commit
    if n is None:
        done = "already declared sent" if published.plan.has_work else "nothing to send"
        left = waiting_texts(waiting) if waiting and not published.plan.has_work else []
        say("; ".join([f"{done} in {seconds}", *left, f"next: tidegate status {name}"]))
        return
    rows = Counter[str]()
    for receipt in report.receipts:
        rows[receipt.topic] += receipt.sent
    topics = ", ".join(f"{topic} {count:,}" for topic, count in rows.most_common(MOST))
    if report.broken_order:
        note(f"  the order is broken in {', '.join(report.broken_order)}", "yellow")
    if report.quarantine:
        say(f"{counted(report.quarantined, 'row')} in quarantine: {report.quarantine}")
        say(f"  {quarantine_query(report.quarantine)}")
    waits = _waiting_now(waiting) if waiting else ""
    how = f"commit #{n}" if published.new else f"already done as #{n}"
    time = f" in {seconds}" if published.new else ""
    duplicates = f", {report.duplicates:,} duplicated" if report.duplicates else ""
    say(
        f"{how}: {counted(report.rows, 'row')} sent{time} ({topics}{duplicates}); "
        + (f"{waits}; next: tidegate run {name}" if waits else f"next: tidegate status {name}")
    )


def waiting_texts(waiting: Waiting) -> list[str]:
    """Return what of a source is not sent yet, and why."""
    texts = [text] if (text := _waiting_now(waiting)) else []
    if waiting.young:
        verb = "settles" if waiting.young == 1 else "settle"
        when = duration(waiting.settles_in or 0)
        texts.append(f"{counted(waiting.young, 'file')} {verb} in {when}")
    if waiting.ahead:
        texts.append(f"{counted(waiting.ahead, 'offset')} behind an unseen one")
    if waiting.unselected:
        texts.append(f"{counted(waiting.unselected, 'offset')} of topics not in source.topics")
    return texts


def _waiting_now(waiting: Waiting) -> str:
    """Return what the next run would send. Empty if that is nothing."""
    kinds = ((waiting.files, "file"), (waiting.offsets, "offset"))
    waits = [counted(n, noun) for n, noun in kinds if n]
    return f"waiting: {' and '.join(waits)}" if waits else ""


def quarantine_query(uri: str) -> str:
    """Return a query in DuckDB's SQL of the rows below a directory of a quarantine."""
    path = unquote(uri.removeprefix("file://"))
    return f"SELECT file, row, reason, text FROM read_parquet('{path}/**/*.parquet')"


def print_explained(explained: EgressExplained) -> None:
    """Print what a run would send, and what it would leave."""
    if first := explained.finishes_first:
        state = "dead" if first.sender_dead else "not proven dead"
        say(f"first: the open claim of plan {first.plan_id}, whose sender is {state}")
    say(bold(explained.pipeline, f" ({explained.lane}): would send {_work(explained)}"))
    if explained.source_kafka:
        say(f"  source: the lake of {describe_connection(explained.source_kafka)}")
    say(f"  target: {describe_connection(explained.kafka)}")
    for topic, each in explained.target.items():
        made = "" if each.topic_id else ", made by the run"
        say(f"  to {topic}: {counted(each.partitions, 'partition')}{made}")
    if replay := explained.replay:
        if replay.where is not None:
            say(f"  where {replay.where}")
        if replay.done:
            how = f"as #{replay.commit}" if replay.commit else "by a declaration"
            say(f"  already done {how}")
    if explained.unchecked:
        say(f"  not checked here, but by Spark in the run: {', '.join(explained.unchecked)}")
    for file in explained.files[:MOST]:
        say(f"  {file.name}  {counted(file.size, 'byte')}")
    if explained.files[MOST:]:
        say(f"  and {counted(len(explained.files) - MOST, 'more file')}")
    later = explained.later
    kinds = ((later.files, "file"), (later.offsets, "offset"))
    parts = [f"{counted(n, noun)} left to later runs" for n, noun in kinds if n]
    if later.young:
        parts.append(f"{counted(later.young, 'file')} not settled")
    if later.ahead:
        parts.append(f"{counted(later.ahead, 'offset')} behind an unseen one")
    if parts:
        say(f"  {'; '.join(parts)}")
    print_settings(explained)
    _print_left_out(explained.left_out)


def _work(explained: EgressExplained) -> str:
    if files := explained.files:
        known = f", {counted(explained.records, 'row')} known" if explained.records else ""
        return f"{counted(len(files), 'file')}, {counted(explained.bytes, 'byte')}{known}"
    if explained.offsets:
        return f"{counted(explained.records, 'offset')} of the lake"
    return "nothing"


def print_late(released: Released) -> None:
    """Print the offsets of a lake that now count as sent."""
    for r in released.late:
        say(f"{r.topic}-{r.partition} [{r.start:,}, {r.end:,}): counted as sent")


def print_status(state: EgressStatus) -> None:
    """Print what a pipeline has sent, what waits, and each problem."""
    sent, waiting, name = state.sent, state.waiting, state.pipeline
    text = f": {state.state}, {counted(state.commits, 'live commit')}"
    text += f", {counted(sent.rows, 'row')} sent"
    if sent.duplicates:
        text += f", {sent.duplicates:,} duplicated"
    say(bold(name, text))
    print_reason(state, [state.source_problem])
    print_last_entry(state.last_entry)
    if waiting:
        sent_all = "all is sent" + (" but what is excluded" if state.left_out else "")
        say(f"  {state.source}: {'; '.join(waiting_texts(waiting)) or sent_all}")
    else:
        say(state.source_problem or "", "yellow")
    if quarantine := state.quarantine:
        say(f"  {counted(quarantine.rows, 'row')} in quarantine: {quarantine.uri}")
        say(f"    {quarantine_query(quarantine.uri)}")
    _print_left_out(state.left_out)
    for each in state.broken_order:
        where = ", ".join(each.where)
        say(f"  commit #{each.commit}: the order is broken in {where}", "yellow")
    for claim in state.open_claims:
        _print_claim(name, claim)


def _print_claim(name: str, claim: OpenClaim) -> None:
    replay = f" (replay {claim.replay})" if claim.replay else ""
    say(f"  open claim of plan {claim.plan_id}{replay}", "yellow")
    life = ", which is dead" if claim.sender_dead else "; not proven dead"
    say(f"    by process {claim.sender['pid']} on {claim.sender['host']}{life}", "yellow")
    fix = f"wait, or: tidegate release {name} --how … --reason …"
    if claim.sender_dead:
        again = f"tidegate replay {name} --replay-id {claim.replay} …"
        fix = again if claim.replay else f"tidegate run {name}"
    say(f"    → {fix}", "yellow")


def _print_left_out(left_out: Sequence[object]) -> None:
    for each in left_out:
        say(f"  excluded: {each}")
