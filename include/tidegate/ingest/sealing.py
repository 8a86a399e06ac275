"""Sealing: check what Spark has staged, and create the manifests of attempts that are right."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import tidegate
from tidegate import faults
from tidegate.core.cluster_answers import Survey
from tidegate.core.entries import Abandon, Gap
from tidegate.core.judge import Lost
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import Reason, range_problem, topic_problem
from tidegate.core.plan import Plan
from tidegate.core.wording import counted
from tidegate.core.work import Standing, chunks_of
from tidegate.errors import (
    AttemptWrong,
    BrokerError,
    ConfigurationError,
    IdentityChanged,
    LakeDamaged,
    OtherFormat,
    RowsMissing,
    TidegateError,
)
from tidegate.ingest import truncation
from tidegate.lake import attempts, decodings, plans
from tidegate.lake.attempts import Attempt, Manifest, Staged
from tidegate.lake.ledger import Appended
from tidegate.lake.plan_work import gather_work
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.run import OpenRun, Run
from tidegate.spark.ingest_job import StagedChunk

MOST_PROBES = 200  # holes per chunk. The manifest also has their total number
_WRONG = (AttemptWrong, RowsMissing, IdentityChanged)
"""The errors that prove an attempt wrong; after any other it may still be right."""

logger = logging.getLogger(__name__)


@dataclass
class Outcomes:
    """What became of attempts: the chunks that are sealed, and the errors of the other attempts.

    One that is `wrong` was abandoned and deleted. One that is `unknown` is kept, to be tried again.
    """

    sealed: list[int] = field(default_factory=list)
    wrong: dict[Attempt, TidegateError] = field(default_factory=dict)
    unknown: dict[Attempt, TidegateError] = field(default_factory=dict)

    def errors(self) -> list[TidegateError]:
        return [*self.wrong.values(), *self.unknown.values()]


def seal(
    opened: OpenRun[Run],
    plan: Plan,
    staged: Iterable[Attempt],
    epochs: Mapping[tuple[str, int], int],
    outcomes: Outcomes,
    *,
    just_read: bool = False,
) -> None:
    """Check the attempts that Spark has finished, and create the manifests of those that are right.

    No other function does: neither for a chunk that was just finished, nor after a crash. `epochs`
    are leader epochs from before Spark read. What becomes of each is added to `outcomes`. One
    attempt never prevents the manifest of another. On another cluster an attempt is unknown, since
    the connection may name it by mistake. If it was `just_read`, it is wrong: Spark may have read
    there. Raises OtherFormat if a newer release has staged.
    """
    finished = {}
    for attempt in staged:
        with _ends(opened, attempt, outcomes):
            if (done := attempts.read_done(opened.store, attempt)) is not None:
                finished[attempt] = done
    if not finished:
        return
    try:
        seen = opened.run.kafka.survey(sorted(plan.topics), plan.isolation)
        if not just_read:
            refuse_plan_of_another_cluster(plan, seen)
    except TidegateError as error:
        outcomes.unknown.update(dict.fromkeys(finished, error))
        return
    for attempt, done in finished.items():
        if attempt.chunk in outcomes.sealed:
            continue
        with _ends(opened, attempt, outcomes):
            refuse_plan_of_another_cluster(plan, seen)
            made = _checked(opened, plan, attempt, done, seen, epochs)
            if attempts.create_manifest(opened.store, made):
                opened.manifests[attempt] = made
                opened.staged.add(attempt)
            outcomes.sealed.append(attempt.chunk)
            outcomes.unknown.pop(attempt, None)
            logger.info(
                "plan %s: chunk %d is sealed: %s, %s",
                plan.id, attempt.chunk,
                counted(sum(f.rows for f in made.files), "row"),
                counted(sum(f.size for f in made.files), "byte"),
            )  # fmt: skip
            faults.point("seal.written")


@contextmanager
def _ends(opened: OpenRun[Run], attempt: Attempt, outcomes: Outcomes) -> Iterator[None]:
    """Add an attempt to the wrong or the unknown ones, by the error that its check ends with."""
    try:
        yield
    except OtherFormat:
        raise
    except _WRONG as error:
        _give_up(opened, attempt, error, outcomes)
    except TidegateError as error:
        outcomes.unknown[attempt] = error


def _checked(
    opened: OpenRun[Run],
    plan: Plan,
    attempt: Attempt,
    done: StagedChunk,
    seen: Survey,
    epochs: Mapping[tuple[str, int], int],
) -> Manifest:
    """Return the manifest of an attempt, by a survey from after it was finished.

    Raises one of `_WRONG` if it is wrong, any other error if it cannot be proven now.
    """
    kafka, window = opened.run.kafka, plan.chunks[attempt.chunk]
    _refuse_recreated(plan, attempt, seen)
    _refuse_lost_partitions(plan, attempt, seen)
    _refuse_cut_off(plan, attempt, truncation.truncated_since(kafka, epochs, seen, window))
    log_starts = {
        topic: {p: m.start for p, m in marks.items()} for topic, marks in seen.watermarks.items()
    }
    return attempts.check_attempt(
        opened.store,
        plan,
        attempt,
        done,
        probe=lambda holes: _probed(kafka, plan, holes),
        log_starts=log_starts,
        bound=MOST_PROBES,
        seen={
            "topic_ids": dict(seen.topic_ids),
            "log_starts": _by_text(log_starts),
            "epochs": _by_text({t: each.epochs for t, each in seen.identities.items()}),
        },
        versions={**done.versions, "tidegate": tidegate.__version__},
    )


def _by_text(numbers: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(p): n for p, n in each.items()} for topic, each in numbers.items()}


def _give_up(
    opened: OpenRun[Run], attempt: Attempt, error: TidegateError, outcomes: Outcomes
) -> None:
    """Abandon an attempt that is wrong, then delete it: another process may be about to seal it."""
    outcomes.wrong[attempt] = error
    outcomes.unknown.pop(attempt, None)
    if opened.store.size(attempt.manifest_path) is not None:
        return  # it may be there although its put raised
    abandon = Abandon(*attempt)
    if isinstance(opened.ledger.append(abandon, run=opened.run.run_id), Appended | Lost):
        _delete(opened, attempt)  # else another process has sealed and committed it


def delete_unfinished_attempt(opened: OpenRun[Run], attempt: Attempt) -> None:
    """Delete an attempt of an application that has ended, if it was not finished.

    One that Spark has finished is kept: the next plan checks it.
    """
    if opened.store.size(attempt.manifest_path) is not None:
        return
    if opened.store.size(attempt.done_path) is None:
        _delete(opened, attempt)
    else:
        logger.warning(
            "plan %s: chunk %d is kept; the retry seals it", attempt.plan_id, attempt.chunk
        )


def _delete(opened: OpenRun[Run], attempt: Attempt) -> None:
    listed = opened.store.objects(attempt.directory)
    opened.store.delete(*(each.path for each in listed))


class CheckedPlan(NamedTuple):
    """A plan after its finished attempts were checked: the chunks that this call has sealed.

    `unproven` has the error by chunk of the attempts that cannot be sealed now. Their files stay.
    `staged` are the plan's staged files before.
    """

    plan: Plan
    sealed: Sequence[int] = ()
    unproven: Mapping[int, TidegateError] = MappingProxyType({})
    staged: Staged = MappingProxyType({})


def seal_finished(opened: OpenRun[Run], plan: Plan) -> CheckedPlan:
    """Seal the attempts of a plan that Spark has finished and no process has sealed."""
    store, fold = opened.store, opened.ledger.fold
    staged = attempts.staged_files(store, plan.id) if plan.chunks else {}
    outcomes = Outcomes()
    try:
        found = gather_work(store, plan, fold, staged, opened.manifests).finished
        noted = plans.noted_epochs(opened.note(plan)) if found else {}
    except LakeDamaged as error:  # must not stop the run
        logger.warning("plan %s: its finished chunks were not sealed: %s", plan.id, error)
        return CheckedPlan(plan, staged=staged)
    seal(opened, plan, found, noted, outcomes)
    for text in dict.fromkeys(map(str, outcomes.errors())):
        logger.warning("plan %s: a finished chunk was not sealed: %s", plan.id, text)
    unproven = {
        attempt.chunk: error
        for attempt, error in outcomes.unknown.items()
        if attempt.chunk not in outcomes.sealed
    }
    return compare_decodings(opened, CheckedPlan(plan, outcomes.sealed, unproven, staged))


def compare_decodings(opened: OpenRun[Run], checked: CheckedPlan) -> CheckedPlan:
    """Return the plan with those sealed chunks as unproven whose decoding contradicts live rows.

    Which rows are live may change with each commit.
    """
    store, fold, plan = opened.store, opened.ledger.fold, checked.plan
    pending = [c.number for c in chunks_of(fold, plan) if c.standing is Standing.PENDING]
    contradicted = decodings.chunk_contradictions(store, fold, plan, pending)
    if not contradicted:
        return checked
    sealed = gather_work(store, plan, fold, known=opened.manifests).sealed
    refused = {
        number: decodings.chunk_refusal(plan, number, wrong)
        for number, wrong in contradicted.items()
        if number in sealed
    }
    return checked._replace(unproven={**checked.unproven, **refused})


def refuse_gaps(checked: Iterable[CheckedPlan], gaps: Iterable[Gap]) -> None:
    """Raise BrokerError if a gap would be recorded over rows that an unproven attempt holds."""
    unproven = [(each.plan, *chunk) for each in checked for chunk in each.unproven.items()]
    for gap, (plan, chunk, error) in itertools.product(gaps, unproven):
        for r in plan.chunks[chunk]:
            same = (plan.topics[r.topic], r.partition) == (gap.topic_id, gap.partition)
            if same and max(r.start, gap.start) < min(r.end, gap.end):
                kind = BrokerError if error.kind == "transient" else ConfigurationError
                raise kind(
                    f"{gap.topic}-{gap.partition} [{gap.start}, {gap.end}) has {gap.reason}, but "
                    f"plan {plan.id}, chunk {chunk}, has read {r}, and cannot be sealed now: "
                    f"{error}. No gap was recorded; try again. To give these rows up, use "
                    "`tidegate offsets set`",
                    plan_id=plan.id,
                    chunk=chunk,
                ) from error


def refuse_plan_of_another_cluster(plan: Plan, seen: Survey) -> None:
    """Raise IdentityChanged if a survey is of another cluster than the plan."""
    if seen.cluster_id != plan.cluster_id:
        raise IdentityChanged(
            f"plan {plan.id} is of the cluster {plan.cluster_id}, but Kafka is now the cluster "
            f"{seen.cluster_id}. Nothing was committed; point the connection back",
            planned=plan.cluster_id,
            now=seen.cluster_id,
        )


def _refuse_recreated(plan: Plan, attempt: Attempt, seen: Survey) -> None:
    """Raise IdentityChanged if a topic of an attempt was recreated after it was planned."""
    topics = sorted({r.topic for r in plan.chunks[attempt.chunk]})
    states = {topic: seen.state(topic) for topic in topics}
    changed = {
        topic: {"planned": plan.topics[topic], "now": now.topic_id}
        for topic, now in states.items()
        if topic_problem(topic, plan.topics[topic], now)
    }
    if changed:
        raise IdentityChanged(
            f"plan {plan.id}: a topic was recreated after it was planned: {changed}. Nothing "
            "of it was committed; the next run plans again",
            changed=changed,
        )


def _refuse_lost_partitions(plan: Plan, attempt: Attempt, seen: Survey) -> None:
    """Raise BrokerError for a partition without a leader: its log may have been truncated.

    A seal without its epoch would also hide a later truncation.
    """
    for r in plan.chunks[attempt.chunk]:
        problem = range_problem(r, plan.topics[r.topic], seen.state(r.topic))
        if problem and problem.reason in (Reason.NO_LEADER, Reason.VANISHED):
            raise BrokerError(
                f"plan {plan.id}, chunk {attempt.chunk}: {problem}, so what was read of it cannot "
                "be proven; its files are kept, and are sealed when it can be asked",
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


def _probed(kafka: Kafka, plan: Plan, holes: Sequence[OffsetRange]) -> Mapping[OffsetRange, str]:
    outcomes = {}
    for found in kafka.probe(holes, plan.isolation):
        if found.outcome == "visible":
            raise RowsMissing(
                f"plan {plan.id}: {found.hole} holds a record at offset {found.offset} that Spark "
                "did not write; the attempt is refused, the retry reads again",
                offset=found.offset,
            )
        outcomes[found.hole] = found.outcome
    return outcomes
