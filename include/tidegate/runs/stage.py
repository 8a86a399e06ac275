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
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import IdentityChanged, RowsMissing, StageFailed, TidegateError
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import Store
from tidegate.runs.plan import open_chunks, plan
from tidegate.runs.run import Run
from tidegate.runs.submission import Submission, for_places, submission
from tidegate.spark.job import Bytes, Chunk, Job

_LOOK_AGAIN = 1.0  # seconds
MOST_PROBES = 200  # holes looked into per chunk; the seal says how many of how many

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
    ends this process then, a retry does only the rest. Raises
    StageFailed, AttemptWrong, RowsMissing or IdentityChanged; nothing of that is visible.
    """
    planned = plan(run).plan
    store = run.store()
    todo = open_chunks(store, run.ledger(store).fold, planned)
    if not todo:
        return Staged(planned, ())
    mine = [Attempt(planned.id, number, secrets.token_hex(8)) for number in todo]
    sealed: list[int] = []
    failures: list[TidegateError] = []
    try:
        try:
            with _job_file(run, store, planned, mine) as job_file:
                records = sum(len(r) for number in todo for r in planned.chunks[number])
                application = submission(job_file, run.spark_conf, records, name=_name(run))
                with _sealing(run, store, planned, mine, sealed):
                    submit(for_places(application, store.native("")))
        except StageFailed as error:
            failures.append(error)
        rest = [attempt for attempt in mine if attempt.chunk not in sealed]
        failures += _seal_finished(run, store, planned, rest, sealed)
    finally:
        for attempt in mine:
            if attempt.chunk not in sealed:
                _discard(store, attempt)
    if failures:
        for other in failures[1:]:
            logger.error("plan %s: %s", planned.id, other)
        raise failures[0]
    if len(sealed) < len(mine):
        missing = [a.chunk for a in mine if a.chunk not in sealed]
        raise StageFailed(
            f"plan {planned.id}: Spark ended well but left chunks {missing} unfinished; "
            "the retry stages them again",
            chunks=missing,
        )
    return Staged(planned, tuple(sealed))


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
    run: Run, store: Store, plan: Plan, mine: Sequence[Attempt], sealed: list[int]
) -> Iterator[None]:
    """Seal chunk after chunk, in their order, while Spark is at work.

    What is wrong with one is told in the end, when all that are finished are looked at again.
    """
    ended = threading.Event()

    def seal() -> None:
        waiting = list(mine)
        while waiting and not ended.wait(_LOOK_AGAIN):
            try:
                while waiting and attempts.staged(store, waiting[0]) is not None:
                    if _seal_finished(run, store, plan, waiting[:1], sealed):
                        return
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
    run: Run, store: Store, plan: Plan, mine: Sequence[Attempt], sealed: list[int]
) -> list[TidegateError]:
    """Seal what Spark has finished, and add its chunks to `sealed`; return what is wrong.

    One attempt that is wrong never keeps another from its seal.
    """
    finished = [(a, done) for a in mine if (done := attempts.staged(store, a)) is not None]
    if not finished:
        return []
    try:
        seen = _same_as_planned(run, plan)
    except TidegateError as error:
        return [error]
    log_starts = {
        topic: {p: m.start for p, m in marks.items()} for topic, marks in seen.watermarks.items()
    }
    failures: list[TidegateError] = []
    for attempt, done in finished:
        try:
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
                },
                versions={**done.get("versions", {}), "tidegate": tidegate.__version__},
            )
            attempts.seal(store, proven)
        except TidegateError as error:
            failures.append(error)
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


def _discard(store: Store, attempt: Attempt) -> None:
    """Delete this process's own staging; if no seal is there: a put that failed may have landed."""
    if store.size(attempt.directory + attempts.SEAL) is not None:
        return
    for listed in store.objects(attempt.directory):
        store.delete(listed.path)
