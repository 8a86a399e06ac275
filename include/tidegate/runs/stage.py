"""Stage and seal: one Spark application for all open chunks, then the proof of each."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tidegate
from tidegate import faults
from tidegate.broker.cluster import Survey, probe, survey
from tidegate.core.entries import Abandon
from tidegate.core.ledger import Lost
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import (
    AttemptWrong,
    ConfigurationError,
    IdentityChanged,
    RowsMissing,
    StageFailed,
    TidegateError,
)
from tidegate.lake import attempts, plans
from tidegate.lake.attempts import Attempt
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import Store
from tidegate.runs import truncation
from tidegate.runs.plan import open_chunks, plan
from tidegate.runs.run import Run
from tidegate.runs.submission import Submission, for_places, submission, terminal_if_refused
from tidegate.spark.job import Bytes, Chunk, Job

_LOOK_AGAIN = 1.0  # seconds
MOST_PROBES = 200  # holes looked into per chunk; the seal says how many of how many
_WRONG = (AttemptWrong, RowsMissing, IdentityChanged)  # other errors say nothing of an attempt

Submit = Callable[[Submission], None]
"""Runs one Spark application to its end; raises StageFailed when it fails."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Staged:
    """The chunks that this call staged and sealed; the others had been, or were covered."""

    plan: Plan
    chunks: tuple[int, ...]


def stage(run: Run, submit: Submit) -> Staged:
    """Stage and seal every open chunk of the run's living plan.

    Each chunk is sealed as soon as Spark has finished it, while it goes on with the next: whatever
    ends this process then, a retry does only the rest. What Spark has finished and could not be
    looked at, because the broker did not answer, is kept: the retry seals it. Raises StageFailed,
    AttemptWrong, RowsMissing, IdentityChanged, or what the broker said; nothing of that is visible.
    """
    planned = plan(run).plan
    store = run.store()
    ledger = run.ledger(store)
    todo = open_chunks(store, ledger.fold, planned)
    if not todo:
        return Staged(planned, ())
    sealed: list[int] = []
    left = [a for a in attempts.finished(store, planned, ledger.fold) if a.chunk in todo]
    noted = plans.epochs(store, planned.id) if left else {}
    unproven = _seal_finished(run, store, planned, left, noted, sealed)
    for attempt, error in list(unproven.items()):
        if isinstance(error, _WRONG):
            logger.warning("plan %s: %s; staging it again", planned.id, error)
            _discard(run, store, ledger, attempt, error)
            del unproven[attempt]
    failures = list(unproven.values())
    waiting = {*sealed, *(attempt.chunk for attempt in unproven)}
    todo = [number for number in todo if number not in waiting]
    mine = [Attempt(planned.id, number, secrets.token_hex(8)) for number in todo]
    if mine:
        failures = [*_stage(run, store, ledger, planned, mine, submit, sealed), *failures]
    if failures:
        for other in failures[1:]:
            logger.error("plan %s: %s", planned.id, other)
        raise failures[0]
    if any(attempt.chunk not in sealed for attempt in mine):
        missing = [a.chunk for a in mine if a.chunk not in sealed]
        raise StageFailed(
            f"plan {planned.id}: Spark ended well but left chunks {missing} unfinished; "
            "the retry stages them again",
            chunks=missing,
        )
    return Staged(planned, tuple(sealed))


def _stage(
    run: Run,
    store: Store,
    ledger: Ledger,
    plan: Plan,
    mine: Sequence[Attempt],
    submit: Submit,
    sealed: list[int],
) -> list[TidegateError]:
    """Start Spark, seal what it finishes, and return what went wrong.

    What is wrong, or was not finished, is deleted in the end.
    """
    failures: list[TidegateError] = []
    unproven: dict[Attempt, TidegateError] = {}
    epochs = truncation.of_survey(_same_as_planned(run, plan))
    try:
        try:
            with _job_file(run, store, plan, mine) as job_file:
                records = sum(len(r) for a in mine for r in plan.chunks[a.chunk])
                application = submission(job_file, run.spark_conf, records, name=_name(run))
                with (
                    terminal_if_refused(job_file.parent),
                    _sealing(run, store, plan, mine, epochs, sealed, unproven),
                ):
                    submit(for_places(application, store.native("")))
        except (StageFailed, ConfigurationError) as error:
            failures.append(error)
        rest = [a for a in mine if a.chunk not in sealed and a not in unproven]
        unproven |= _seal_finished(run, store, plan, rest, epochs, sealed)
    finally:
        for attempt in mine:
            if attempt.chunk not in sealed:
                _discard(run, store, ledger, attempt, unproven.get(attempt))
    return failures + list(unproven.values())


def _name(run: Run) -> str:
    return f"tidegate {run.spec.name} {run.run_id}"


@contextmanager
def _job_file(run: Run, store: Store, plan: Plan, mine: Sequence[Attempt]) -> Iterator[Path]:
    """Write the job's only input, secrets included, for its owner alone; remove it afterwards."""
    job = Job(
        plan_id=plan.id,
        app_name=_name(run),
        options={
            **run.kafka.for_spark(),
            "kafka.isolation.level": plan.isolation,
            "kafka.client.id": f"tidegate-{plan.pipeline}-{plan.id}",
        },
        chunks=tuple(Chunk(a.chunk, plan.chunks[a.chunk], store.native(a.directory)) for a in mine),
        bytes=Bytes(**plan.byte_settings),
    )
    with tempfile.TemporaryDirectory(prefix="tidegate-") as directory:
        path = Path(directory, "job.json")
        job.write(path)
        yield path


@contextmanager
def _sealing(
    run: Run,
    store: Store,
    plan: Plan,
    mine: Sequence[Attempt],
    epochs: Mapping[tuple[str, int], int],
    sealed: list[int],
    wrong: dict[Attempt, TidegateError],
) -> Iterator[None]:
    """Seal chunk after chunk, in their order, while Spark is at work; add what is wrong to `wrong`.

    A broker that does not answer is asked again, and once more in the end.
    """
    ended = threading.Event()

    def seal() -> None:
        waiting = list(mine)
        while waiting and not ended.wait(_LOOK_AGAIN):
            try:
                while waiting and attempts.staged(store, waiting[0]) is not None:
                    attempt = waiting[0]
                    found = _seal_finished(run, store, plan, [attempt], epochs, sealed)
                    error = found.get(attempt)
                    if error and not isinstance(error, _WRONG):
                        raise error
                    if error:
                        wrong[attempt] = error
                    waiting.pop(0)
            except TidegateError as error:
                logger.warning("plan %s: %s; looking again", plan.id, error)

    thread = threading.Thread(target=seal, name="tidegate-seals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _seal_finished(
    run: Run,
    store: Store,
    plan: Plan,
    mine: Sequence[Attempt],
    epochs: Mapping[tuple[str, int], int],
    sealed: list[int],
) -> dict[Attempt, TidegateError]:
    """Seal what Spark has finished, and add its chunks to `sealed`; return why others are not.

    `epochs` are leader epochs from before Spark read.
    One attempt that is wrong never keeps another from its seal.
    """
    finished = [(a, done) for a in mine if (done := attempts.staged(store, a)) is not None]
    if not finished:
        return {}
    try:
        seen = _same_as_planned(run, plan)
        ranges = [r for attempt, _ in finished for r in plan.chunks[attempt.chunk]]
        cut = truncation.since(run.kafka, epochs, seen, ranges)
    except TidegateError as error:
        return {attempt: error for attempt, _ in finished}
    log_starts = {
        topic: {p: m.start for p, m in marks.items()} for topic, marks in seen.watermarks.items()
    }
    failures: dict[Attempt, TidegateError] = {}
    for attempt, done in finished:
        if attempt.chunk in sealed:
            continue
        try:
            _refuse_cut_off(plan, attempt, cut)
            proven = attempts.check(
                store,
                attempt,
                plan.chunks[attempt.chunk],
                done,
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
                versions={**done.get("versions", {}), "tidegate": tidegate.__version__},
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


def _same_as_planned(run: Run, plan: Plan) -> Survey:
    """Ask the broker once more: what Spark has read must be what was planned."""
    seen = survey(run.kafka, sorted(plan.topics), plan.isolation)
    changed = {
        topic: {"planned": topic_id, "now": seen.topic_ids.get(topic)}
        for topic, topic_id in plan.topics.items()
        if seen.topic_ids.get(topic) != topic_id
    }
    if changed or seen.cluster_id != plan.cluster_id:
        raise IdentityChanged(
            f"plan {plan.id}: while Spark read, a topic or the cluster became another one: "
            f"{changed or seen.cluster_id}. Nothing was committed; the next run plans again",
            changed=changed,
        )
    return seen


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


def _discard(
    run: Run, store: Store, ledger: Ledger, attempt: Attempt, error: TidegateError | None
) -> None:
    """Delete an attempt that is wrong or unfinished; one that may still be sealed is kept.

    A seal may be there: a put that failed may have landed. Of a finished attempt the ledger says
    first that it is given up, for any process may be about to seal it.
    """
    if store.size(attempt.directory + attempts.SEAL) is not None:
        return
    if store.size(attempt.directory + attempts.DONE) is not None:
        if not isinstance(error, _WRONG):
            logger.warning("plan %s: chunk %d is kept; the retry seals it", attempt.plan_id,
                           attempt.chunk)  # fmt: skip
            return
        given_up = Abandon(attempt.plan_id, attempt.chunk, attempt.name)
        if not isinstance(ledger.append(given_up, run=run.run_id), Appended | Lost):
            return  # another process has sealed and committed it
    store.delete(*(listed.path for listed in store.objects(attempt.directory)))
