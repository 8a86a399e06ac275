"""What commands print for people about ingest pipelines: plans, runs, states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.broker.client_settings import describe_connection
from tidegate.core.offsets import window_bounds
from tidegate.core.wording import counted
from tidegate.runs.pipeline_state import EXIT_CODES, PipelineStatus, State
from tidegate.terminal.console import (
    bold,
    fix_lines,
    note,
    say,
    say_columns,
    time_since,
    time_until,
)

if TYPE_CHECKING:
    from tidegate.core.entries import Gap
    from tidegate.egress.explain import EgressExplained
    from tidegate.ingest.explain import IngestExplained
    from tidegate.ingest.publish import Published
    from tidegate.ingest.status import IngestStatus
    from tidegate.lake.ledger import LastEntry
    from tidegate.lake.plans import Frozen

MOST = 20
"""Lines of one kind that a run prints; of more it prints only the number."""


def format_number(n: int | None) -> str:
    """Return a number with thousands separators; `-` for None."""
    return "-" if n is None else f"{n:,}"


def print_plan(frozen: Frozen, *, known: bool) -> None:
    """Print a run's plan, and the offset ranges of its partitions."""
    note(f"{'known ' if known else ''}{frozen}")
    starts, ends = window_bounds(frozen.plan.chunks)
    parts = [
        f"  {topic}-{p} [{start:,}, {ends[topic][p]:,})"
        for topic in sorted(starts)
        for p, start in sorted(starts[topic].items())
    ]
    for part in parts[:MOST]:
        note(part)
    if parts[MOST:]:
        note(f"  and {counted(len(parts) - MOST, 'more partition')}")


def print_published(published: Published, *, lake: str, seconds: str) -> None:
    """Print a run's commits. The last line has its rows by topic, its lake, and where to look."""
    report = published.report
    commits = [each.commit for each in report.commits]
    if published.new:
        for each in report.commits[:MOST]:
            say(f"commit #{each.commit}: {counted(each.rows, 'row')}")
        if commits[MOST:]:
            say(f"and {counted(len(commits) - MOST, 'more commit')}, the last is #{commits[-1]}")
    for chunk, others in report.covered_by.items():
        by = ", ".join(f"#{n}" for n in others)
        say(f"chunk {chunk}: already in the lake, by {by}")
    if report.missing:
        note(f"not in the lake: {counted(len(report.missing), 'chunk')}", "yellow")
    for gap in published.gaps:
        lost = counted(gap.end - gap.start, "offset")
        say(f"gap: {_range(gap)}, {lost} skipped: {gap.reason}")
    rows = Counter[str]()
    for each in report.commits:
        for topic, partitions in each.topics.items():
            rows[topic] += sum(account.rows for account in partitions.values())
    unfit: dict[str, Counter[str]] = {}
    for each in report.commits:
        for topic, counts in each.undecodable.items():
            unfit.setdefault(topic, Counter()).update(counts)
    for line in _undecodable(unfit):
        note(line, "yellow")
    topics = ", ".join(f"{topic} {n:,}" for topic, n in rows.most_common(MOST))
    more = f" and {counted(len(rows) - MOST, 'more topic')}" if len(rows) > MOST else ""
    done = f"{counted(report.rows, 'row')} in {seconds}"
    if published.earlier:
        done += f", {published.earlier:,} of them staged before"
    if commits and not published.new:
        done = f"already done as {_span(commits)}: {counted(report.rows, 'row')}"
    elif not commits:
        done = f"nothing new in {seconds}"
    name = report.pipeline
    say(
        f"{done}{f' ({topics}{more})' if topics else ''}; lake: {lake}; "
        f"next: tidegate status {name}"
    )


def _span(commits: Sequence[int]) -> str:
    if len(commits) > 3 and [*commits] == list(range(commits[0], commits[-1] + 1)):
        return f"#{commits[0]} to #{commits[-1]}"
    return ", ".join(f"#{n}" for n in commits)


_ORIGINS = {
    "pipeline": "settings of the pipeline",
    "connection": "settings of its connections",
    "tidegate": "Tidegate's own settings",
}


def print_settings(explained: IngestExplained | EgressExplained) -> None:
    """Print the settings in effect by their origins, and the notices about the file.

    Those of Spark only if the pipeline has given them. A line has one setting, as names and values
    may be long. A value that may be secret is not shown.
    """
    for origin, heading in _ORIGINS.items():
        found = {n: each.value for n, each in explained.settings.items() if each.origin == origin}
        shown = [n for n in found if origin == "pipeline" or not n.startswith("spark.")]
        if shown:
            say(bold(heading))
        for name in shown:
            value = found[name]
            say(f"  {name}: {'not shown' if value is None else value}")
    for notice in explained.notices:
        say(f"note: {notice}", "yellow")


def print_explained(explained: IngestExplained) -> None:
    """Print what a run would read, and where that leaves each partition."""
    chunks, name, lane = explained.chunks, explained.pipeline, explained.lane
    if explained.done:
        say(bold(name, f" ({lane}): already done as {_span(explained.done)}"))
        return
    parts = ["nothing new"]
    if chunks:
        parts = [f"{counted(explained.records, 'record')} in {counted(len(chunks), 'chunk')}"]
        if explained.bytes is not None:
            parts.append(f"about {counted(explained.bytes, 'byte')}")
        if explained.splits is not None and explained.files is not None:
            parts.append(counted(explained.splits, "task"))
            parts.append(counted(explained.files, "file"))
    say(bold(name, f" ({lane}): {', '.join(parts)}"))
    say(f"from {describe_connection(explained.kafka)}")
    if explained.later:
        say(f"left to later runs: {counted(explained.later, 'record')}")
    for topic, of_topic in explained.topics.items():
        say(bold(topic))
        reads = [
            (
                str(p),
                f"{end - start:,}",
                f"{start:,}",
                f"{end:,}",
                time_until(each.expires_at) or "-",
            )
            for p, each in of_topic.partitions.items()
            for start, end in each.ranges
        ]
        if reads:
            say_columns((">partition", ">records", ">from", ">to", "first expires"), reads)
        say_columns(
            (">partition", ">cursor", ">then", ">log start", ">end"),
            [
                (
                    str(p),
                    *map(format_number, (each.cursor, each.cursor_after, each.log_start, each.end)),
                )
                for p, each in of_topic.partitions.items()
            ],
        )
    print_settings(explained)
    for gap in explained.gaps:
        say(f"gap: {_range(gap)}: {gap.reason}")
    for left in explained.left_out:
        say(f"excluded: {left.excluded}")
        for line in fix_lines(left.fix):
            say(line)


def print_status(state: IngestStatus) -> None:
    """Print where a pipeline stands, and each problem with its fix."""
    text = f": {state.state}, {counted(state.commits, 'live commit')}"
    if state.commits:
        text += f", the newest is #{state.last_commit}"
    say(bold(state.pipeline, text))
    print_reason(state, [state.broker, *(each.fix for each in state.problems)])
    print_last_entry(state.last_entry)
    if state.broker:
        say(state.broker, "yellow")
    for each in state.unfinished:
        say(f"  unfinished: {each.lane} plan {each.plan_id} of run {each.run}")
        chunks = counted(each.chunks, "chunk")
        say(f"    of {chunks}, {each.committed} committed and {each.sealed} sealed")
        for why in each.refused:
            say(f"    not committed: {why}", "yellow")
    if state.gaps:
        skipped = sum(gap.end - gap.start for gap in state.gaps)
        gaps = counted(len(state.gaps), "gap")
        say(f"  {gaps} of {counted(skipped, 'offset')}: tidegate offsets show {state.pipeline}")
    for topic, of_topic in state.topics.items():
        say(bold(topic, f"  {of_topic.topic_id or 'not read yet'}"))
        rows = [
            (str(p), *map(format_number, (at.origin, at.cursor, at.log_start, at.end, at.lag)))
            for p, at in of_topic.partitions.items()
        ]
        if rows:
            say_columns((">partition", ">origin", ">cursor", ">log start", ">end", ">lag"), rows)
    for line in (*_undecodable(state.undecodable), *_problems(state)):
        say(line, "yellow")


def _problems(state: IngestStatus) -> Iterator[str]:
    for topic, of_topic in state.topics.items():
        for p, at in of_topic.partitions.items():
            if at.high is not None and at.end is not None and at.high > at.end:
                hidden, since = counted(at.high - at.end, "offset"), at.open_since
                age = f"for {time_since(since)}" if since else "since an unknown time"
                yield f"{topic}-{p}: {hidden} behind a transaction that is open {age}"
    for each in state.problems:
        yield str(each.excluded)
        yield from fix_lines(each.fix)


def _undecodable(topics: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield for each topic how many rows do not fit their schema, and why."""
    for topic, counts in topics.items():
        rows = sum(counts.values())
        verb = "does" if rows == 1 else "do"
        yield f"{topic}: {counted(rows, 'row')} {verb} not fit the schema: see _undecodable"
        for reason, n in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MOST]:
            yield f"  {n:,}  {reason}"


def print_reason(state: PipelineStatus, shown: Collection[str | None]) -> None:
    """Print why a pipeline is in its state, and the way out, but what is `shown` elsewhere."""
    if state.state in (State.OK, State.IDLE):
        return
    if state.reason not in shown:
        say(f"  {state.reason}", "yellow" if EXIT_CODES[State(state.state)] else None)
    if state.state == State.FAILING and state.last_run and state.last_run.error:
        say(f"  {state.last_run.error.message}", "yellow")
    if state.fix not in shown:
        for line in fix_lines(state.fix):
            say(line)


def print_last_entry(entry: LastEntry | None) -> None:
    """Print which run has written to a ledger last, and when."""
    if entry:
        say(f"  last change: {entry.kind} #{entry.n}, {time_since(entry.at)} ago, by {entry.run}")


def _range(gap: Gap) -> str:
    return f"{gap.topic}-{gap.partition} [{gap.start:,}, {gap.end:,})"
