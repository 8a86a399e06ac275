"""Stage and seal: one Spark application for all open chunks, and the proof of each."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile

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
from tidegate.ingest.planning import living_plan, plan
from tidegate.ingest.sealing import Outcomes
from tidegate.lake import attempts, plans
from tidegate.lake.attempts import Attempt
from tidegate.runs.client_options import client_name
from tidegate.runs.engine_protocol import Application
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.steps import StepProgress
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate.spark.job_files import terminal_if_refused

LOOKS_FOR_CHUNKS_APART = 1.0  # seconds
# How an application may end. The chunks that it has finished are sealed nevertheless.
_OF_SPARK = (
    StageFailed, OutOfMemory, BrokerUnreachable, ConfigurationError, NotAuthenticated, NotAuthorised
)  # fmt: skip

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedChunks:
    """The chunks that this call has sealed. All others were sealed or covered before."""

    plan: Plan
    chunks: tuple[int, ...]


def stage(opened: OpenRun[Run]) -> StagedChunks:
    """Stage and seal every open chunk of the run's living plan. Make a plan if it has none.

    Each chunk is sealed when Spark has finished it, while Spark reads the next: a retry stages only
    the rest. A finished chunk that cannot be proven because the broker does not answer is kept, and
    sealed by the retry. Raises StageFailed, AttemptWrong, RowsMissing, IdentityChanged, or a
    broker's error. The chunks concerned are not committed.
    """
    living = living_plan(opened)
    if living is None:
        plan(opened)
        living = living_plan(opened)
    if living is None:
        raise PlanDead(f"run {opened.run.run_id}: its plan was invalid as soon as it was made")
    planned = living.checked.plan
    outcomes = Outcomes(list(living.checked.sealed))
    failures = list(living.checked.unproven.values())
    started = [Attempt(planned.id, number, secrets.token_hex(8)) for number in living.chunks]
    if living.seen:
        failures = [*_stage(opened, planned, started, living.seen, outcomes), *failures]
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
    return StagedChunks(planned, tuple(outcomes.sealed))


def _stage(
    opened: OpenRun[Run],
    plan: Plan,
    started: Sequence[Attempt],
    before: Survey,
    outcomes: Outcomes,
) -> list[TidegateError]:
    """Run Spark, seal the chunks that it finishes, and return the errors.

    Attempts that are unfinished are deleted at the end.
    """
    failures: list[TidegateError] = []
    # For a partition that has no leader now, the epoch of the plan's survey is used.
    epochs = plans.noted_epochs(opened.note(plan)) | truncation.survey_epochs(before)
    try:
        try:
            if len(started) < len(plan.chunks):
                left, all_chunks = len(started), counted(len(plan.chunks), "chunk")
                logger.info("plan %s: left to stage: %d of %s", plan.id, left, all_chunks)
            with (
                _application(opened, plan, started) as application,
                terminal_if_refused(application.read),
                _sealing(opened, plan, started, epochs, outcomes),
            ):
                application.run()
        except _OF_SPARK as error:
            failures.append(error)
        rest = [a for a in started if a.chunk not in outcomes.sealed and a not in outcomes.wrong]
        if not any(isinstance(failure, BrokerUnreachable) for failure in failures):
            sealing.seal(opened, plan, rest, epochs, outcomes, just_read=True)
    finally:
        for attempt in started:
            if attempt.chunk not in outcomes.sealed and attempt not in outcomes.wrong:
                sealing.delete_unfinished_attempt(opened, attempt)
    return failures + outcomes.errors()


@contextmanager
def _application(
    opened: OpenRun[Run], plan: Plan, started: Sequence[Attempt]
) -> Iterator[Application]:
    """Give the job to an application, which has an attempt of its own beside those of the chunks.

    Their directories must not exist before Spark writes them. One of the application that is left,
    because this process was killed, is swept as that of an attempt without a seal.
    """
    run, store = opened.run, opened.store
    for notice in run.engine.left_behind(store, plan.id):
        logger.warning("%s", notice)
    own = Attempt(plan.id, started[0].chunk, secrets.token_hex(8))
    try:
        with run.engine.application(
            _job(opened, plan, started),
            own,
            store=store,
            conf=run.spark_conf,
            places=(store.native(""),),
        ) as application:
            yield application
    finally:
        if run.engine.identity(own):  # its job and answers are in the lake
            with suppress(TidegateError):  # else the sweeper deletes them
                attempts.delete_files(store, own)


def _job(opened: OpenRun[Run], plan: Plan, started: Sequence[Attempt]) -> IngestJob:
    """Return the job's only input, but for what the engine adds."""
    run, store = opened.run, opened.store
    return IngestJob(
        plan_id=plan.id,
        app_name=f"tidegate {run.spec.name} {run.run_id}",
        options={
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
        decode=decoding.decodings_of_plan(plan),
        records=sum(len(r) for a in started for r in plan.chunks[a.chunk]),
    )


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
        while len(waiting) > 1 and not ended.wait(LOOKS_FOR_CHUNKS_APART):
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
