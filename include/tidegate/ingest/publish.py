"""Publish and verdict: commit the sealed chunks, place their files, report the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import faults
from tidegate.core.entries import Gap
from tidegate.core.offsets import Offsets, Window, window_bounds
from tidegate.core.partition import LeftOut, fix_for
from tidegate.core.plan import Plan
from tidegate.core.wording import counted
from tidegate.core.work import Standing, chunks_to_commit
from tidegate.errors import ChunksMissing, NotSealed, PartitionsLeftOut, PlanDead
from tidegate.ingest import complete_through, consumer_group
from tidegate.ingest import report as reports
from tidegate.lake import checkpointing, committing, plans
from tidegate.lake.attempts import Attempt
from tidegate.runs import report_store, variables
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.steps import MOST_LISTED


@dataclass(frozen=True)
class Published:
    """The outcome of a run: `commits` by chunk, `offsets` the ledger's cursors afterwards.

    `complete_through` has, by topic, the time of the plan's survey if every record readable then is
    committed or in a gap. `missing` chunks are not in the lake. `new` are the commits that this
    call made: none of a run that was done before. `gaps` are those that the run recorded. `earlier`
    are the rows that this process has not staged.
    """

    plan: Plan
    commits: Mapping[int, int]
    offsets: Offsets
    report: reports.IngestReport
    complete_through: Mapping[str, str]
    missing: tuple[int, ...] = ()
    new: tuple[int, ...] = ()
    gaps: tuple[Gap, ...] = ()
    earlier: int = 0

    def asset_event(self, topic: str) -> dict[str, Any]:
        """Return the extra of a topic's asset event (contract)."""
        starts, ends = window_bounds(self._windows())
        return {
            "ranges": {
                str(p): [starts[topic][p], end] for p, end in sorted(ends.get(topic, {}).items())
            },
            "rows": self.report.rows_of(topic),
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

    Chunks that are not in the lake afterwards are `missing`, and `verdict` fails for them.
    NotSealed if all are missing. PlanDead if other plans have committed a part of a chunk.
    """
    run, store, ledger = opened.run, opened.store, opened.ledger
    frozen = opened.frozen_plan()
    plan = frozen.plan
    before = ledger.fold.n
    commits = {}
    if plan.chunks:
        commits = committing.commit_sealed_chunks(
            store, ledger, plan, run=run.run_id, known=opened.manifests
        )
    left = chunks_to_commit(ledger.fold, plan)
    if left:  # another publisher of this run may have committed them
        left = chunks_to_commit(ledger.refresh(), plan)
    for chunk in left:
        if chunk.standing is Standing.DEAD and plan.replay is None:
            raise PlanDead(
                f"plan {plan.id}, chunk {chunk.number}: others have committed "
                f"{chunk.contested[0]} of it. Clear the task that runs Spark, or repeat the "
                "command with this run id: it stages what is left",
                chunk=chunk.number,
            )
    missing = [chunk.number for chunk in left]
    if missing and len(missing) == len(plan.chunks):
        raise NotSealed(
            f"plan {plan.id}: no attempt of its {counted(len(missing), 'chunk')} is sealed, so "
            "nothing proves that one is complete; nothing was committed. What failed is above, "
            "or in the log of the task that runs Spark. Clear that task, or repeat the command "
            "with this run id",
            chunks=missing,
        )
    if plan.chunks and not missing:
        plans.finish_plan(store, plan.id)
    entries = {number: (n, ledger.commit(n)) for number, n in commits.items()}
    offsets = variables.write_variables(run.mirror, run.spec, ledger.fold)
    faults.point("caches.half")
    consumer_group.commit_cursors(run.spec, run.kafka, offsets)
    report = reports.summarize(run, frozen, entries, missing, ledger.fold)
    new = tuple(n for n in commits.values() if n > before)
    note = opened.note(plan)
    through = complete_through.survey_times(run.spec, plan, note, ledger.fold)
    if not missing:  # only the first report is kept
        report_store.keep_report(
            run, store, report, plan, note,
            lambda: reports.describe(opened, report, entries, plan, note, through),
            is_new=bool(new),
        )  # fmt: skip
    checkpointing.make_if_due(store, run.spec.name, ledger)
    gaps = tuple(gap for gap in ledger.fold.gaps if gap.by == run.run_id)
    earlier = sum(
        commit.rows for _, commit in entries.values() if Attempt.of(commit) not in opened.staged
    )
    return Published(plan, commits, offsets, report, through, tuple(missing), new, gaps, earlier)


def verdict(opened: OpenRun[Run]) -> None:
    """Raise ChunksMissing if a chunk of the run's plan is not in the lake.

    PartitionsLeftOut if the plan excludes partitions.
    """
    plan = opened.frozen_plan().plan
    left = chunks_to_commit(opened.ledger.refresh(), plan)
    refuse_incomplete(opened.run, plan, [chunk.number for chunk in left])


def refuse_incomplete(run: Run, plan: Plan, missing: Sequence[int]) -> None:
    """Raise ChunksMissing for `missing` chunks, PartitionsLeftOut for what a plan excludes."""
    if missing:
        raise _chunks_missing(run, plan, missing)
    if plan.left_out:
        listed = "; ".join(map(str, plan.left_out))
        excluded = [each for each in plan.left_out if isinstance(each, LeftOut)]
        fixes = {each.reason: fix_for(run.spec, each, plan.lane) for each in reversed(excluded)}
        advice = " ".join(f"{reason.capitalize()}: {fix}." for reason, fix in fixes.items())
        raise PartitionsLeftOut(
            f"pipeline {run.spec.name!r}: the healthy partitions are published, these are not: "
            f"{listed}. {advice} Then start a new run: this one's plan is frozen",
            left_out=[each.to_json() for each in plan.left_out],
        )


def _chunks_missing(run: Run, plan: Plan, missing: Sequence[int]) -> ChunksMissing:
    """Return the error that names the offsets of a plan that are not in the lake."""
    starts, ends = window_bounds([plan.chunks[number] for number in missing])
    parts = [
        f"{topic}-{p} [{start}, {ends[topic][p]})"
        for topic in sorted(starts)
        for p, start in sorted(starts[topic].items())
    ]
    listed = ", ".join(parts[:MOST_LISTED])
    rest = len(parts) - MOST_LISTED
    more = f" and {counted(rest, 'more partition')}" if rest > 0 else ""
    excluded = "".join(f" Excluded: {each}." for each in plan.left_out)
    return ChunksMissing(
        f"pipeline {run.spec.name!r}, plan {plan.id}: not in the lake are {len(missing)} of "
        f"{counted(len(plan.chunks), 'chunk')}: {listed}{more}. What is sealed is published. "
        "What failed is above, or in the log of the task that runs Spark. Clear that task, repeat "
        f"the command with this run id, or let the next run read these offsets.{excluded}",
        chunks=list(missing),
    )
