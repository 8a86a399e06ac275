"""Stage and seal: one Spark application for all open chunks, and the proof of each."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from pathlib import Path

from tidegate.core import decoding
from tidegate.core.cluster_answers import Survey
from tidegate.core.plan import Plan
from tidegate.core.wording import counted, duration
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    NotAuthenticated,
    NotAuthorised,
    OutOfMemory,
    PlanDead,
    StageFailed,
    TidegateError,
)
from tidegate.ingest import sealing, truncation
from tidegate.ingest.plan import living_plan, plan
from tidegate.ingest.sealing import Outcomes
from tidegate.lake import plans
from tidegate.lake.attempts import Attempt
from tidegate.launch import delegation_tokens
from tidegate.launch.cluster_mode import clear, handed_over, left_behind
from tidegate.launch.masters import for_places
from tidegate.launch.spark_submit import terminal_if_refused
from tidegate.launch.submission import Submission, submission
from tidegate.runs.connections import client_name
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.step_progress import StepProgress
from tidegate.runs.steps import Submit
from tidegate.spark.answers import ReadAnswer
from tidegate.spark.ingest_job import Chunk, IngestJob

_LOOK_AGAIN = 1.0  # seconds
# How an application may end; the chunks that it has finished are sealed nevertheless.
_OF_SPARK = (
    StageFailed, OutOfMemory, BrokerUnreachable, ConfigurationError, NotAuthenticated, NotAuthorised
)  # fmt: skip

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Staged:
    """The chunks that this call has sealed; all others were sealed or covered before."""

    plan: Plan
    chunks: tuple[int, ...]


def stage(opened: OpenRun[Run], submit: Submit) -> Staged:
    """Stage and seal every open chunk of the run's living plan; make a plan if it has none.

    Each chunk is sealed when Spark has finished it, while Spark reads the next: a retry stages only
    the rest. A finished chunk that cannot be proven because the broker does not answer is kept, and
    sealed by the retry. Raises StageFailed, AttemptWrong, RowsMissing, IdentityChanged, or a
    broker's error; the chunks concerned are not committed.
    """
    living = living_plan(opened)
    if living is None:
        plan(opened)
        living = living_plan(opened)
    if living is None:
        raise PlanDead(f"run {opened.run.run_id}: its plan was invalid as soon as it was made")
    planned = living.kept.plan
    outcomes = Outcomes(list(living.kept.sealed))
    failures = list(living.kept.unproven.values())
    started = [Attempt(planned.id, number, secrets.token_hex(8)) for number in living.chunks]
    if living.seen:
        failures = [*_stage(opened, planned, started, living.seen, submit, outcomes), *failures]
    if failures:
        for other in failures[1:]:
            logger.error("plan %s: %s", planned.id, other)
        raise failures[0]
    if any(attempt.chunk not in outcomes.sealed for attempt in started):
        missing = [a.chunk for a in started if a.chunk not in outcomes.sealed]
        raise StageFailed(
            f"plan {planned.id}: Spark exited 0 without finishing chunks {missing}; "
            "the retry stages them",
            chunks=missing,
        )
    return Staged(planned, tuple(outcomes.sealed))


def _stage(
    opened: OpenRun[Run],
    plan: Plan,
    started: Sequence[Attempt],
    before: Survey,
    submit: Submit,
    outcomes: Outcomes,
) -> list[TidegateError]:
    """Run Spark, seal the chunks that it finishes, and return the errors.

    Attempts that are unfinished are deleted at the end.
    """
    store = opened.store
    failures: list[TidegateError] = []
    # For a partition that has no leader now, the epoch of the plan's survey is used.
    epochs = plans.epochs(opened.note(plan)) | truncation.of_survey(before)
    try:
        try:
            with tempfile.TemporaryDirectory(prefix="tidegate-") as private:
                records = sum(len(r) for a in started for r in plan.chunks[a.chunk])
                application = submission(
                    Path(private, "job.json"),
                    opened.run.spark_conf,
                    records,
                    name=_name(opened.run),
                    kafka=opened.run.kafka,
                    spark=opened.run.spark,
                )
                if len(started) < len(plan.chunks):
                    left, all_chunks = len(started), counted(len(plan.chunks), "chunk")
                    logger.info("plan %s: left to stage: %d of %s", plan.id, left, all_chunks)
                application = for_places(application, store.native(""), spark=opened.run.spark)
                job = _job(opened, plan, started, Path(private))
                with (
                    _handed_over(opened, job, application) as (call, read),
                    terminal_if_refused(read),
                    _sealing(opened, plan, started, epochs, outcomes),
                ):
                    submit(call)
        except _OF_SPARK as error:
            failures.append(error)
        rest = [a for a in started if a.chunk not in outcomes.sealed and a not in outcomes.wrong]
        if not any(isinstance(failure, BrokerUnreachable) for failure in failures):
            sealing.seal(opened, plan, rest, epochs, outcomes, just_read=True)
    finally:
        for attempt in started:
            if attempt.chunk not in outcomes.sealed and attempt not in outcomes.wrong:
                sealing.delete_unfinished(opened, attempt)
    return failures + outcomes.errors()


def _name(run: Run) -> str:
    return f"tidegate {run.spec.name} {run.run_id}"


def _job(opened: OpenRun[Run], plan: Plan, started: Sequence[Attempt], private: Path) -> IngestJob:
    """Return the job's only input, secrets included; files that belong to it are in `private`."""
    run, store = opened.run, opened.store
    options, logins = delegation_tokens.split(run.kafka, private)
    return IngestJob(
        plan_id=plan.id,
        app_name=_name(run),
        options={
            **options,
            **run.spec.source_options,
            "kafka.isolation.level": plan.isolation,
            "kafka.client.id": run.kafka.client_id(
                client_name(run.spec, "stage", run.run_id, started[0].name)
            ),
        },
        chunks=tuple(
            Chunk(a.chunk, plan.chunks[a.chunk], store.native(a.directory)) for a in started
        ),
        parquet=plan.parquet,
        logins=logins,
        decode=decoding.of_plan(plan),
    )


@contextmanager
def _handed_over(
    opened: OpenRun[Run], job: IngestJob, application: Submission
) -> Iterator[tuple[Submission, ReadAnswer]]:
    """Give the application its job, in cluster mode by a directory that is deleted at the end.

    Those of the chunks must not exist before Spark writes them. One that is left, because this
    process was killed, is swept as that of an attempt without a seal.
    """
    store = opened.store
    own = Attempt(job.plan_id, job.chunks[0].number, secrets.token_hex(8))
    if opened.run.spark.is_cluster:
        for tag in left_behind(store, job.plan_id):
            logger.warning(
                "plan %s: the YARN application with the tag %s may still run: its submitter was "
                "killed. It does no harm, and what it finishes is kept",
                job.plan_id, tag,
            )  # fmt: skip
    try:
        with handed_over(job, application, own, store, opened.run.spark) as handed:
            yield handed
    finally:
        if opened.run.spark.is_cluster:
            clear(own, store)


@contextmanager
def _sealing(
    opened: OpenRun[Run],
    plan: Plan,
    started: Sequence[Attempt],
    epochs: Mapping[tuple[str, int], int],
    outcomes: Outcomes,
) -> Iterator[None]:
    """Seal chunk after chunk, in order, while Spark reads the next.

    The caller seals the last chunk after Spark has ended, and those that are unknown until then.
    """
    ended = threading.Event()
    said: set[str] = set()

    def is_finished(attempt: Attempt) -> bool:
        return opened.store.size(attempt.done_path) is not None

    def say(text: object) -> None:
        if str(text) not in said:  # it is asked every second
            said.add(str(text))
            logger.warning("plan %s: %s; looking again", plan.id, text)

    def seal() -> None:
        import_module("tidegate.lake.footers")  # and PyArrow, while Spark starts
        waiting, began, told = list(started), time.monotonic(), 0
        while len(waiting) > 1 and not ended.wait(_LOOK_AGAIN):
            try:
                finished = list(takewhile(is_finished, waiting))
                sealing.seal(opened, plan, finished, epochs, outcomes, just_read=True)
                waiting = [a for a in waiting if a in outcomes.unknown or a not in finished]
                progress = _progress(opened, plan, started, outcomes.sealed)
                opened.on_progress(progress)
                if progress.chunks > told:
                    told = progress.chunks
                    logger.info("%s", _told(plan, progress, time.monotonic() - began))
                for failure in outcomes.unknown.values():
                    say(failure)
            except TidegateError as error:
                say(error)

    opened.on_progress(_progress(opened, plan, started, outcomes.sealed))
    thread = threading.Thread(target=seal, name="tidegate-seals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _progress(
    opened: OpenRun[Run], plan: Plan, started: Sequence[Attempt], sealed: Sequence[int]
) -> StepProgress:
    """Return how far the started attempts are: what of them is sealed."""
    records = {a.chunk: sum(map(len, plan.chunks[a.chunk])) for a in started}
    manifests = [opened.manifests[a] for a in started if a in opened.manifests]
    return StepProgress(
        "staging",
        records=sum(records[a.chunk] for a in started if a.chunk in sealed),
        all_records=sum(records.values()),
        chunks=sum(a.chunk in sealed for a in started),
        all_chunks=len(started),
        size=sum(f.size for each in manifests for f in each.files),
    )


def _told(plan: Plan, progress: StepProgress, seconds: float) -> str:
    """Return a log line of the progress after so many seconds, with an estimate of those left."""
    share = progress.records / progress.all_records
    left = seconds / share - seconds
    return (
        f"plan {plan.id}: {progress.chunks:,} of {counted(progress.all_chunks, 'chunk')} staged, "
        f"{progress.records:,} of {counted(progress.all_records, 'offset')} ({share:.0%}); about "
        f"{duration(left)} left"
    )
