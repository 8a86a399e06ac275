"""Sealing: the proof of what Spark has finished, by the process that staged it or a later one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tidegate
from tidegate import faults
from tidegate.broker.cluster import Survey, probe, survey
from tidegate.core.entries import Abandon, Gap
from tidegate.core.judge import Lost
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import (
    AttemptWrong,
    BrokerError,
    IdentityChanged,
    LakeDamaged,
    RowsMissing,
    TidegateError,
)
from tidegate.ingest import truncation
from tidegate.lake import attempts, plans
from tidegate.lake.attempts import Attempt
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import Store
from tidegate.runs.run import OpenRun, Run

MOST_PROBES = 200  # holes looked into per chunk; the seal says how many of how many
WRONG = (AttemptWrong, RowsMissing, IdentityChanged)  # other errors say nothing of an attempt

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unproven:
    """A chunk of which a finished attempt is kept, because it cannot be sealed now."""

    plan: Plan
    chunk: int
    error: TidegateError


def seal_kept(
    opened: OpenRun[Run], living: Iterable[Plan]
) -> tuple[set[tuple[str, int]], list[Unproven]]:
    """Seal the attempts of these plans that Spark has finished and no process has sealed.

    Returns the chunks that are sealed now, by plan id and number, and those that cannot be sealed
    now: their attempts are kept. An attempt that is wrong is abandoned and deleted.
    """
    sealed: set[tuple[str, int]] = set()
    unproven: list[Unproven] = []
    run, store, ledger = opened.run, opened.store, opened.ledger
    for plan in living:
        try:
            kept = _kept(store, ledger.fold, plan)
            noted = plans.epochs(store, plan.id) if kept else {}
        except LakeDamaged as error:  # it must not stop other work
            logger.warning("plan %s: its finished chunks were not sealed: %s", plan.id, error)
            continue
        if not kept:
            continue
        chunks: list[int] = []
        try:
            failures = seal_finished(run, store, plan, kept, noted, chunks)
        except IdentityChanged as error:  # the connection may name another cluster by mistake
            failures = dict.fromkeys(kept, error)
            unproven += [Unproven(plan, attempt.chunk, error) for attempt in kept]
        else:
            for attempt, failure in failures.items():
                if isinstance(failure, WRONG):
                    discard(run, store, ledger, attempt, failure)
                elif attempt.chunk not in chunks:
                    unproven.append(Unproven(plan, attempt.chunk, failure))
        for text in dict.fromkeys(str(failure) for failure in failures.values()):
            logger.warning("plan %s: a finished chunk was not sealed: %s", plan.id, text)
        sealed |= {(plan.id, chunk) for chunk in chunks}
    return sealed, unproven


def _kept(store: Store, fold: Fold, plan: Plan) -> list[Attempt]:
    """Return the finished attempts of chunks that can be committed and have no seal."""
    found = [
        attempt
        for attempt in attempts.finished(store, plan, fold)
        if attempt.chunk < len(plan.chunks)
        and (plan.id, attempt.chunk) not in fold.committed
        and (plan.replay or not fold.covered_part(plan.chunks[attempt.chunk], plan.topics))
    ]
    seals = attempts.sealed(store, plan, fold) if found else {}
    return [attempt for attempt in found if attempt.chunk not in seals]


def refuse_gaps(unproven: Sequence[Unproven], gaps: Iterable[Gap]) -> None:
    """Raise BrokerError if a gap would be recorded over rows that a kept attempt holds."""
    for gap in gaps:
        for each in unproven:
            for r in each.plan.chunks[each.chunk]:
                same = (each.plan.topics[r.topic], r.partition) == (gap.topic_id, gap.partition)
                if same and max(r.start, gap.start) < min(r.end, gap.end):
                    raise BrokerError(
                        f"{gap.topic}-{gap.partition} [{gap.start}, {gap.end}) has {gap.reason}, "
                        f"but plan {each.plan.id}, chunk {each.chunk}, has read {r}, and cannot be "
                        f"sealed now: {each.error}. No gap was recorded; try again. To give these "
                        "rows up, use `tidegate offsets set`",
                        plan_id=each.plan.id,
                        chunk=each.chunk,
                    ) from each.error


def seal_finished(
    run: Run,
    store: Store,
    plan: Plan,
    mine: Sequence[Attempt],
    epochs: Mapping[tuple[str, int], int],
    sealed: list[int],
) -> dict[Attempt, TidegateError]:
    """Seal what Spark has finished, and add its chunks to `sealed`; return why others are not.

    `epochs` are leader epochs from before Spark read. An attempt that is wrong, or of a partition
    without a leader, never keeps another from its seal. IdentityChanged on another cluster.
    """
    done: dict[Attempt, Mapping[str, Any]] = {}
    failures: dict[Attempt, TidegateError] = {}
    for attempt in mine:
        try:
            if (form := attempts.read_done(store, attempt)) is not None:
                done[attempt] = form
        except TidegateError as error:
            failures[attempt] = error
    if not done:
        return failures
    try:
        seen = survey(run.kafka, sorted(plan.topics), plan.isolation)
    except TidegateError as error:
        return failures | dict.fromkeys(done, error)
    refuse_another_cluster(plan, seen)
    for attempt in done:
        try:
            refuse_changed(plan, [attempt], seen)
            _refuse_leaderless(plan, attempt, seen)
        except TidegateError as error:
            failures[attempt] = error
    finished = [attempt for attempt in done if attempt not in failures]
    try:
        ranges = [r for attempt in finished for r in plan.chunks[attempt.chunk]]
        cut = truncation.since(run.kafka, epochs, seen, ranges)
    except TidegateError as error:
        return failures | dict.fromkeys(finished, error)
    log_starts = {
        topic: {p: m.start for p, m in marks.items()} for topic, marks in seen.watermarks.items()
    }
    for attempt in finished:
        if attempt.chunk in sealed:
            continue
        try:
            _refuse_cut_off(plan, attempt, cut)
            proven = attempts.check(
                store,
                attempt,
                plan.chunks[attempt.chunk],
                done[attempt],
                probe=lambda holes: _probed(run, plan, holes),
                log_starts=log_starts,
                bound=MOST_PROBES,
                seen={
                    "topic_ids": dict(seen.topic_ids),
                    "log_starts": {
                        topic: {str(p): start for p, start in starts.items()}
                        for topic, starts in log_starts.items()
                    },
                    "epochs": {
                        topic: {str(p): epoch for p, epoch in each.epochs.items()}
                        for topic, each in seen.identities.items()
                    },
                },
                versions={**done[attempt].get("versions", {}), "tidegate": tidegate.__version__},
            )
            attempts.seal(store, proven)
        except TidegateError as error:
            failures[attempt] = error
            continue
        sealed.append(attempt.chunk)
        rows = f"{sum(f.rows for f in proven.files):,}"
        logger.info(
            "plan %s: chunk %d, %s rows, is sealed; it has %d chunks",
            plan.id, attempt.chunk, rows, len(plan.chunks),
        )  # fmt: skip
        faults.point("seal.written")
    return failures


def refuse_another_cluster(plan: Plan, seen: Survey) -> None:
    """Raise IdentityChanged if a survey is of another cluster than the plan."""
    if seen.cluster_id != plan.cluster_id:
        raise IdentityChanged(
            f"plan {plan.id} is of the cluster {plan.cluster_id}, but Kafka is now the cluster "
            f"{seen.cluster_id}. Nothing was committed; point the connection back",
            planned=plan.cluster_id,
            now=seen.cluster_id,
        )


def refuse_changed(plan: Plan, mine: Iterable[Attempt], seen: Survey) -> None:
    """Raise IdentityChanged if a topic of these attempts is not the one that was planned."""
    topics = sorted({r.topic for attempt in mine for r in plan.chunks[attempt.chunk]})
    changed = {
        topic: {"planned": plan.topics[topic], "now": seen.topic_ids.get(topic)}
        for topic in topics
        if seen.topic_ids.get(topic) != plan.topics[topic]
    }
    if changed:
        raise IdentityChanged(
            f"plan {plan.id}: a topic became another one after it was planned: {changed}. Nothing "
            "of it was committed; the next run plans again",
            changed=changed,
        )


def _refuse_leaderless(plan: Plan, attempt: Attempt, seen: Survey) -> None:
    """Raise BrokerError for a partition without a leader: nobody can say if its log was cut off.

    A seal without its epoch would hide a log that is cut off later, too.
    """
    for r in plan.chunks[attempt.chunk]:
        if r.partition not in seen.watermarks.get(r.topic, {}):
            raise BrokerError(
                f"plan {plan.id}, chunk {attempt.chunk}: {r.topic}-{r.partition} has no leader "
                "now, so what was read of it cannot be proven; its files are kept, and are sealed "
                "when it has one",
                chunk=attempt.chunk,
            )


def _refuse_cut_off(plan: Plan, attempt: Attempt, cut: Mapping[OffsetRange, int]) -> None:
    """Refuse what was read of a log that lost records of the plan meanwhile, and got others."""
    for r, end in ((r, cut[r]) for r in plan.chunks[attempt.chunk] if r in cut):
        raise IdentityChanged(
            f"plan {plan.id}, chunk {attempt.chunk}: the log of {r} was cut off at {end} while it "
            "was read: its leader changed and did not have all records. Nothing of the chunk was "
            "committed; clear the stage task, or let the next run read it",
            cut=end,
        )


def _probed(run: Run, plan: Plan, holes: Sequence[OffsetRange]) -> Mapping[OffsetRange, str]:
    outcomes = {}
    for found in probe(run.kafka, holes, plan.isolation):
        if found.outcome == "visible":
            raise RowsMissing(
                f"plan {plan.id}: {found.hole} holds a record at offset {found.offset} that Spark "
                "did not write; the attempt is refused, the retry reads again",
                offset=found.offset,
            )
        outcomes[found.hole] = found.outcome
    return outcomes


def discard(
    run: Run, store: Store, ledger: Ledger, attempt: Attempt, error: TidegateError | None
) -> None:
    """Delete an attempt that is wrong or unfinished; one that may still be sealed is kept.

    A seal may be there: a put that failed may have landed. Of a finished attempt the ledger says
    first that it is given up, for any process may be about to seal it.
    """
    if store.size(attempt.directory + attempts.SEAL) is not None:
        return
    if store.size(attempt.directory + attempts.DONE) is not None:
        if not isinstance(error, WRONG):
            logger.warning("plan %s: chunk %d is kept; the retry seals it", attempt.plan_id,
                           attempt.chunk)  # fmt: skip
            return
        given_up = Abandon(attempt.plan_id, attempt.chunk, attempt.name)
        if not isinstance(ledger.append(given_up, run=run.run_id), Appended | Lost):
            return  # another process has sealed and committed it
    store.delete(*(listed.path for listed in store.objects(attempt.directory)))
