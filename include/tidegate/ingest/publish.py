"""Publish and verdict: commit the sealed chunks, place their files, report the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import faults
from tidegate.core.coverage import is_complete
from tidegate.core.fold import Fold
from tidegate.core.offsets import Offsets, Window, bounds
from tidegate.core.plan import Plan
from tidegate.errors import ChunksMissing, NotSealed, PartitionsLeftOut, PlanDead
from tidegate.ingest import consumer_group
from tidegate.ingest import report as reports
from tidegate.ingest.plan import chunks_to_commit
from tidegate.lake import committing, plans
from tidegate.runs import report_store, variables
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.steps import MOST_LISTED

_WAYS_OUT = {
    "expired": "set `on_expired: skip` to record the gap and go on",
    "truncated": "the broker lost records that the lake has; see `truncated` in docs/runbook.md",
    "unreadable": "a producer writes timestamps that are no milliseconds; set `on_unreadable: gap` "
    "to give up these offsets and go on behind them",
    "no such topic": "create it again, or, if it is gone for good, take it out of `topics` or add "
    "it to `exclude`; its rows stay in the lake",
    "no leader": "see the brokers' log; it is read again once it has one, or `on_expired` decides",
    "the partition vanished": "look at the broker: partitions are never removed by design",
    "the topic was recreated": "`tidegate offsets adopt {pipeline} TOPIC --reason …`, or give the "
    "topic a new pipeline",
}


@dataclass(frozen=True)
class Published:
    """The outcome of a run: `commits` by chunk, `offsets` the ledger's cursors afterwards.

    `complete_through` has, by topic, the time of the plan's survey if every record readable then is
    committed or in a gap. `missing` chunks were never sealed.
    """

    plan: Plan
    commits: Mapping[int, int]
    offsets: Offsets
    report: Mapping[str, Any]
    complete_through: Mapping[str, str]
    missing: tuple[int, ...] = ()

    def asset_event(self, topic: str) -> dict[str, Any]:
        """Return the extra of a topic's asset event (contract)."""
        starts, ends = bounds(self._windows())
        return {
            "ranges": {
                str(p): [starts[topic][p], end] for p, end in sorted(ends.get(topic, {}).items())
            },
            "rows": sum(
                account["rows"]
                for commit in self.report["commits"]
                for account in commit["topics"].get(topic, {}).values()
            ),
            "commit": max(self.commits.values(), default=None),
            "complete_through": self.complete_through.get(topic),
        }

    def _windows(self) -> list[Window]:
        """Return the committed windows, of each partition only up to its first missing chunk."""
        cut = set()
        windows = []
        for number, window in enumerate(self.plan.chunks):
            if number in self.missing:
                cut |= {(r.topic, r.partition) for r in window}
            windows.append(tuple(r for r in window if (r.topic, r.partition) not in cut))
        return windows


def publish(opened: OpenRun[Run]) -> Published:
    """Commit and finalise every sealed chunk of the run's plan. Needs no broker; idempotent.

    Chunks that were never sealed are `missing`, and `verdict` fails for them; NotSealed if there
    are no others. PlanDead if others have committed a part of a chunk.
    """
    run, store, ledger = opened.run, opened.store, opened.ledger
    frozen = opened.frozen_plan()
    plan = frozen.plan
    before = ledger.fold.n
    commits = {}
    if plan.chunks:
        commits = committing.publish_sealed(store, ledger, plan, run=run.run_id, known=opened.seals)
    missing = chunks_to_commit(ledger.fold, plan)
    if missing:  # another publisher of this run may have committed them
        missing = chunks_to_commit(ledger.refresh(), plan)
    for number in missing:
        window = plan.chunks[number]
        taken = ledger.fold.covered_part(window, plan.topics)
        if taken and plan.replay is None:
            raise PlanDead(
                f"plan {plan.id}, chunk {number}: others have committed {taken[0]} of it. Clear "
                "the stage task: it stages what is left",
                chunk=number,
            )
    if missing and len(missing) == len(plan.chunks):
        raise NotSealed(
            f"plan {plan.id}: no attempt of any of its {len(missing)} chunks is sealed, so nothing "
            "proves that one is complete; nothing was committed. Clear the stage task; its log "
            "says what failed",
            chunks=missing,
        )
    if plan.chunks and not missing:
        plans.finish(store, plan.id)
    entries = {number: (n, ledger.commit(n)) for number, n in commits.items()}
    offsets = variables.show(run.mirror, run.spec, ledger.fold)
    faults.point("caches.half")
    consumer_group.show(run.spec, run.kafka, offsets)
    report = reports.short(run, frozen, entries, missing, ledger.fold)
    note = opened.note(plan)
    if not missing:  # only the first report is kept
        report_store.keep(
            run, store, report, plan, note,
            lambda: reports.details(opened, report, entries, plan, note),
            is_new=any(n > before for n in commits.values()),
        )  # fmt: skip
    through = _complete_through(plan, note, ledger.fold)
    return Published(plan, commits, offsets, report, through, tuple(missing))


def _complete_through(plan: Plan, note: Mapping[str, Any], fold: Fold) -> dict[str, str]:
    """Return the time of the survey for each complete topic; notes of earlier releases lack it."""
    if "surveyed_at" not in note:
        return {}
    return {
        topic: note["surveyed_at"]
        for topic, marks in note["watermarks"].items()
        if is_complete(
            fold, plan, topic, note["topic_ids"].get(topic),
            {int(p): each["end"] for p, each in marks.items()},
        )
    }  # fmt: skip


def verdict(opened: OpenRun[Run]) -> None:
    """Raise ChunksMissing if a chunk of the run's plan is not in the lake.

    PartitionsLeftOut if the plan excludes partitions.
    """
    plan = opened.frozen_plan().plan
    refuse_incomplete(opened.run, plan, chunks_to_commit(opened.ledger.refresh(), plan))


def refuse_incomplete(run: Run, plan: Plan, missing: Sequence[int]) -> None:
    """Raise ChunksMissing for `missing` chunks, PartitionsLeftOut for what a plan excludes."""
    if missing:
        raise _chunks_missing(run, plan, missing)
    if plan.left_out:
        listed = "; ".join(map(str, plan.left_out))
        reasons = {each.reason: None for each in plan.left_out}
        ways_out = " ".join(
            f"{reason[0].upper()}{reason[1:]}: {_WAYS_OUT[reason].format(pipeline=run.spec.name)}."
            for reason in reasons
            if reason in _WAYS_OUT
        )
        raise PartitionsLeftOut(
            f"pipeline {run.spec.name!r}: the healthy partitions are published, these are not: "
            f"{listed}. {ways_out} Then start a new run: this one's plan is frozen",
            left_out=[each.to_json() for each in plan.left_out],
        )


def _chunks_missing(run: Run, plan: Plan, missing: Sequence[int]) -> ChunksMissing:
    """Return the error that names the offsets of a plan that are not in the lake."""
    starts, ends = bounds([plan.chunks[number] for number in missing])
    parts = [
        f"{topic}-{p} [{start}, {ends[topic][p]})"
        for topic in sorted(starts)
        for p, start in sorted(starts[topic].items())
    ]
    listed = ", ".join(parts[:MOST_LISTED])
    more = f" and {len(parts) - MOST_LISTED} more partitions" if parts[MOST_LISTED:] else ""
    excluded = "".join(f" Excluded: {each}." for each in plan.left_out)
    return ChunksMissing(
        f"pipeline {run.spec.name!r}, plan {plan.id}: {len(missing)} of {len(plan.chunks)} chunks "
        f"are not in the lake: {listed}{more}. What is sealed is published. The log of the stage "
        f"task says what failed; clear it, or let the next run read these offsets.{excluded}",
        chunks=list(missing),
    )
