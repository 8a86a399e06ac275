"""Sealing: prove that finished attempts are complete, in the process that staged them or later."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tidegate
from tidegate import faults
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Survey, survey
from tidegate.broker.consumer import probe
from tidegate.core.entries import Abandon, Gap
from tidegate.core.judge import Lost
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.core.wording import counted
from tidegate.errors import (
    AttemptWrong,
    BrokerError,
    FormatTooNew,
    IdentityChanged,
    LakeDamaged,
    RowsMissing,
    TidegateError,
)
from tidegate.ingest import truncation
from tidegate.lake import attempts, plans
from tidegate.lake.attempts import Attempt, Staged
from tidegate.lake.ledger import Appended
from tidegate.runs.run import OpenRun, Run

MOST_PROBES = 200  # holes per chunk; the seal also has their total number
WRONG = (AttemptWrong, RowsMissing, IdentityChanged)
"""The errors that prove an attempt wrong; after any other it may still be sealed."""

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    """The chunks of a plan whose finished attempts were sealed by this call, and the others.

    `unproven` has the error by chunk of the attempts that cannot be sealed now, and are kept.
    `staged` are the plan's staged files before.
    """

    plan: Plan
    sealed: list[int]
    unproven: dict[int, TidegateError]
    staged: Staged = MappingProxyType({})


def seal_kept(opened: OpenRun[Run], plan: Plan) -> Kept:
    """Seal the attempts of a plan that Spark has finished and no process has sealed.

    An attempt that is wrong is abandoned and deleted.
    """
    staged = attempts.staged_files(opened.store, plan.id) if plan.chunks else {}
    kept = Kept(plan, [], {}, staged)
    try:
        found = attempts.finished(opened.store, plan, opened.ledger.fold, staged)
        noted = plans.epochs(opened.note(plan)) if found else {}
    except LakeDamaged as error:  # must not stop the run
        logger.warning("plan %s: its finished chunks were not sealed: %s", plan.id, error)
        return kept
    try:
        failures = seal_finished(opened, plan, found, noted, kept.sealed)
    except IdentityChanged as error:  # the connection may name another cluster by mistake
        failures = dict.fromkeys(found, error)
        kept.unproven.update((attempt.chunk, error) for attempt in found)
    else:
        for attempt, failure in failures.items():
            if isinstance(failure, WRONG):
                discard(opened, attempt, failure)
            elif attempt.chunk not in kept.sealed:
                kept.unproven[attempt.chunk] = failure
    for text in dict.fromkeys(map(str, failures.values())):
        logger.warning("plan %s: a finished chunk was not sealed: %s", plan.id, text)
    return kept


def refuse_gaps(kept: Iterable[Kept], gaps: Iterable[Gap]) -> None:
    """Raise BrokerError if a gap would be recorded over rows that an unproven attempt holds."""
    unproven = [(each.plan, *chunk) for each in kept for chunk in each.unproven.items()]
    for gap, (plan, chunk, error) in itertools.product(gaps, unproven):
        for r in plan.chunks[chunk]:
            same = (plan.topics[r.topic], r.partition) == (gap.topic_id, gap.partition)
            if same and max(r.start, gap.start) < min(r.end, gap.end):
                raise BrokerError(
                    f"{gap.topic}-{gap.partition} [{gap.start}, {gap.end}) has {gap.reason}, but "
                    f"plan {plan.id}, chunk {chunk}, has read {r}, and cannot be sealed now: "
                    f"{error}. No gap was recorded; try again. To give these rows up, use "
                    "`tidegate offsets set`",
                    plan_id=plan.id,
                    chunk=chunk,
                ) from error


def seal_finished(
    opened: OpenRun[Run],
    plan: Plan,
    candidates: Iterable[Attempt],
    epochs: Mapping[tuple[str, int], int],
    sealed: list[int],
) -> dict[Attempt, TidegateError]:
    """Seal the candidates that Spark has finished, add their chunks to `sealed`; return the errors.

    `epochs` are leader epochs from before Spark read. An attempt that is wrong, or of a partition
    without a leader, never prevents the seal of another. Raises IdentityChanged on another cluster,
    FormatTooNew if a newer release has staged.
    """
    kafka, store = opened.run.kafka, opened.store
    done: dict[Attempt, Mapping[str, Any]] = {}
    failures: dict[Attempt, TidegateError] = {}
    for attempt in candidates:
        try:
            if (form := attempts.read_done(store, attempt)) is not None:
                done[attempt] = form
        except FormatTooNew:
            raise
        except TidegateError as error:
            failures[attempt] = error
    if not done:
        return failures
    try:
        seen = survey(kafka, sorted(plan.topics), plan.isolation)
    except TidegateError as error:
        return failures | dict.fromkeys(done, error)
    refuse_another_cluster(plan, seen)
    for attempt in done:
        try:
            refuse_recreated(plan, attempt, seen)
            _refuse_leaderless(plan, attempt, seen)
        except TidegateError as error:
            failures[attempt] = error
    finished = [attempt for attempt in done if attempt not in failures]
    try:
        ranges = [r for attempt in finished for r in plan.chunks[attempt.chunk]]
        cut = truncation.since(kafka, epochs, seen, ranges)
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
                probe=lambda holes: _probed(kafka, plan, holes),
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
                versions={**done[attempt]["versions"], "tidegate": tidegate.__version__},
            )
            if (created := attempts.seal(store, proven)) is not None:
                opened.seals[attempt] = created
        except TidegateError as error:
            failures[attempt] = error
            continue
        sealed.append(attempt.chunk)
        logger.info(
            "plan %s: chunk %d is sealed: %s, %s",
            plan.id, attempt.chunk,
            counted(sum(f.rows for f in proven.files), "row"),
            counted(sum(f.size for f in proven.files), "byte"),
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


def refuse_recreated(plan: Plan, attempt: Attempt, seen: Survey) -> None:
    """Raise IdentityChanged if a topic of an attempt was recreated after it was planned."""
    topics = sorted({r.topic for r in plan.chunks[attempt.chunk]})
    changed = {
        topic: {"planned": plan.topics[topic], "now": seen.topic_ids.get(topic)}
        for topic in topics
        if seen.topic_ids.get(topic) != plan.topics[topic]
    }
    if changed:
        raise IdentityChanged(
            f"plan {plan.id}: a topic was recreated after it was planned: {changed}. Nothing "
            "of it was committed; the next run plans again",
            changed=changed,
        )


def _refuse_leaderless(plan: Plan, attempt: Attempt, seen: Survey) -> None:
    """Raise BrokerError for a partition without a leader: its log may have been truncated.

    A seal without its epoch would also hide a later truncation.
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
    """Raise IdentityChanged if a log was truncated below the end of what Spark read."""
    for r, end in ((r, cut[r]) for r in plan.chunks[attempt.chunk] if r in cut):
        raise IdentityChanged(
            f"plan {plan.id}, chunk {attempt.chunk}: the log of {r} was cut off at {end} while it "
            "was read: its leader changed and did not have all records. Nothing of the chunk was "
            "committed. Clear the task that runs Spark, repeat the command with this run id, or "
            "let the next run read it",
            cut=end,
        )


def _probed(
    kafka: KafkaSettings, plan: Plan, holes: Sequence[OffsetRange]
) -> Mapping[OffsetRange, str]:
    outcomes = {}
    for found in probe(kafka, holes, plan.isolation):
        if found.outcome == "visible":
            raise RowsMissing(
                f"plan {plan.id}: {found.hole} holds a record at offset {found.offset} that Spark "
                "did not write; the attempt is refused, the retry reads again",
                offset=found.offset,
            )
        outcomes[found.hole] = found.outcome
    return outcomes


def discard(opened: OpenRun[Run], attempt: Attempt, error: TidegateError | None) -> None:
    """Delete an attempt that is wrong or unfinished; one that may still be sealed is kept.

    A seal may exist although its put raised. A finished attempt is abandoned in the ledger before
    it is deleted, because another process may be about to seal it.
    """
    store = opened.store
    if store.size(attempt.directory + attempts.SEAL) is not None:
        return
    if store.size(attempt.directory + attempts.DONE) is not None:
        if not isinstance(error, WRONG):
            logger.warning("plan %s: chunk %d is kept; the retry seals it", attempt.plan_id,
                           attempt.chunk)  # fmt: skip
            return
        given_up = Abandon(attempt.plan_id, attempt.chunk, attempt.name)
        if not isinstance(opened.ledger.append(given_up, run=opened.run.run_id), Appended | Lost):
            return  # another process has sealed and committed it
    store.delete(*(listed.path for listed in store.objects(attempt.directory)))
