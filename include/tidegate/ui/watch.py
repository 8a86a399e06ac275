"""Watches all pipelines in the background, so that the page is served without a question to anyone.

A thread of the API server reads statuses, histories and DAGs in turn, while somebody looks. What it
found last is shown at once, with its age, also while a broker or a store does not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from tidegate import flows, statuses
from tidegate.core.coverage import coverage_bar
from tidegate.core.ended_run import EndedRun, complete_through
from tidegate.egress.status import read_egress_status
from tidegate.errors import TidegateError, Transient
from tidegate.ingest.status import read_ingest_status, read_state
from tidegate.ingest.topic_coverage import coverage_intervals
from tidegate.lake.store import STORES
from tidegate.orchestration import airflow_connections
from tidegate.orchestration.dag_states import read_dag_states
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Spec
from tidegate.runs.client_options import InEffect, effective_settings
from tidegate.runs.history import read_history
from tidegate.runs.pipeline_state import DagState, Judged, judge_error

PERIOD = 10.0
"""Seconds between two rounds. Of many pipelines more: a round takes a quarter of the time."""
IDLE = 300.0
"""Seconds after the last request when the thread ends."""
DOWN = 15.0
"""Seconds for which a broker that did not answer is not asked again."""
BAR = 200  # cells
_AT_ONCE = 8

logger = logging.getLogger(__name__)


class NoAnswer(Transient):
    """Lake and broker have not answered yet."""


Bars = Mapping[str, Mapping[str, list[tuple[str, int]]]]
"""Of each topic and partition (kind, cells) from left to right."""


@dataclass(frozen=True)
class Look:
    """What was seen of a pipeline, at a time (UTC). Without a `spec` its file is wrong.

    `status` is None where it could not be read, which `judged` says, and `error` in JSON.
    """

    name: str
    at: datetime
    judged: Judged
    spec: Spec | None = None
    status: Any = None
    runs: tuple[EndedRun, ...] = ()
    bars: Bars | None = None
    dag: DagState | None = None
    error: Mapping[str, Any] | None = None
    settings: Mapping[str, InEffect] = field(default_factory=dict)

    def document(self, *, shows_errors: bool) -> dict[str, Any]:
        """Return the status as `tidegate status --json` has it, or the error in its place.

        The message of the last run's error may quote a log: it is for those who may read that.
        """
        form: dict[str, Any] = {"pipeline": self.name, "error": self.error}
        if self.status is not None:
            status, last = self.status, self.status.last_run
            if last and last.error and not shows_errors:
                told = replace(last.error, message="")
                status = replace(status, last_run=replace(last, error=told))
            form = status.to_json()
        return {**form, "seen_at": self.at.isoformat(timespec="seconds")}

    @property
    def complete_through(self) -> datetime | None:
        """The time until when all is in the lake, or sent."""
        found = complete_through(self.runs)
        return datetime.fromisoformat(found) if found else None


class PipelineWatch:
    """The looks at all pipelines, kept up to date by one thread while they are asked for."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._looks: dict[str, Look] = {}
        self._busy: set[str] = set()
        self._asked = self._started = -IDLE
        self._thread: threading.Thread | None = None
        self._places: dict[tuple[str, str], _Place] = {}
        self._down: dict[str, tuple[float, str]] = {}  # by connection: until when, and its error
        self._wake = threading.Event()

    def looks(self, names: Iterable[str], patience: float) -> list[Look]:
        """Return the last look at each pipeline.

        `patience` is how many seconds after the start of the thread a request waits for the first
        ones. One that nobody has answered for since minutes is `unknown`.
        """
        names = list(names)
        with self._news:
            self._asked = time.monotonic()
            if self._thread is None or not self._thread.is_alive():
                self._started = self._asked
                self._thread = threading.Thread(
                    target=self._run, name="tidegate-watch", daemon=True
                )
                self._thread.start()
            left = self._started + patience - self._asked
            self._news.wait_for(lambda: all(map(self._is_known, names)), max(0.0, left))
            return [self._looks[name] if self._is_known(name) else _not_yet(name) for name in names]

    def _is_known(self, name: str) -> bool:
        oldest = datetime.now(UTC) - timedelta(seconds=IDLE)
        return name in self._looks and self._looks[name].at > oldest

    def refresh(self) -> None:
        """Look again now: something was done."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread, after what it does now."""
        self._asked = -IDLE
        self._wake.set()

    def _run(self) -> None:
        while time.monotonic() - self._asked < IDLE:
            began = time.monotonic()
            self._wake.clear()
            try:
                self._look_at_all()
            except Exception:
                logger.exception("the pipelines cannot be watched")
            took = time.monotonic() - began
            self._wake.wait(max(PERIOD, 3 * took))

    def _look_at_all(self) -> None:
        """Look at each pipeline that nobody looks at yet, and wait for these a while."""
        names = pipeline_files.pipeline_names()
        dags = dag_states(names)
        with self._news:
            known = set(names)
            self._looks = {name: look for name, look in self._looks.items() if name in known}
        begun = set[str]()
        for name in names:
            if name in self._busy:
                continue  # it still waits: nothing piles up
            try:
                spec = pipeline_files.load_named(name)
            except Exception as error:
                self._keep(_failed(name, error))
                continue
            begun.add(name)
            self._busy.add(name)
            self._place(spec).do(partial(self._look_at, spec, dags.get(name)))
        with self._news:
            self._news.wait_for(lambda: not begun & self._busy, timeout=PERIOD)

    def _place(self, spec: Spec) -> _Place:
        """Return the threads of a connection and a bucket, or file system: one that hangs delays
        no other. The status of an egress asks no broker.
        """
        url = urlsplit(spec.lake)
        root = f"{url.scheme}://{url.netloc}" if url.netloc else "/".join(url.path.split("/")[:2])
        place = ("" if isinstance(spec, Egress) else spec.kafka, root)
        return self._places.setdefault(place, _Place())

    def _look_at(self, spec: Spec, dag: DagState | None) -> None:
        try:
            look = self._see(spec, dag)
        except Exception as error:
            look = _failed(spec.name, error, spec)
        self._keep(look)

    def _see(self, spec: Spec, dag: DagState | None) -> Look:
        """Return a look. A broker that did not answer for one pipeline is not asked by others."""
        store, bars = flows.store(spec), None
        runs = read_history(store)
        found: Any
        if isinstance(spec, Egress):
            found = read_egress_status(spec, STORES, pipeline_files, footers=False)
        else:
            kafka = airflow_connections.kafka(spec)
            until, why = self._down.get(spec.kafka, (0.0, ""))
            down = why if time.monotonic() < until else None
            state = read_state(spec, store, kafka, down=down)
            if state.unreachable and not down:
                self._down[spec.kafka] = time.monotonic() + DOWN, state.problem or ""
            bars = {
                topic: {str(p): coverage_bar(each, BAR) for p, each in partitions.items()}
                for topic, partitions in coverage_intervals(state).items()
            }
            found = read_ingest_status(spec, store, kafka, state)
        status, judged = statuses.with_state(spec, found, runs, dag)
        now, settings = datetime.now(UTC), _settings(spec)
        return Look(spec.name, now, judged, spec, status, runs, bars, dag, settings=settings)

    def _keep(self, look: Look) -> None:
        with self._news:
            self._looks[look.name] = look
            self._busy.discard(look.name)
            self._news.notify_all()


class _Place:
    """Threads that end with the process, as those of an executor do not while one hangs."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads = 0

    def do(self, task: Callable[[], None]) -> None:
        self._work.put(task)
        if self._threads < _AT_ONCE:
            self._threads += 1
            threading.Thread(target=self._serve, name="tidegate-look", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()


def _settings(spec: Spec) -> Mapping[str, InEffect]:
    """Return the settings in effect, without values that may be secret."""
    try:
        return effective_settings(spec, airflow_connections.kafka(spec), {})
    except TidegateError:  # the connection is wrong, which the status says
        return {}


def dag_states(names: Iterable[str]) -> Mapping[str, DagState]:
    """Return what Airflow's database knows of the pipelines' DAGs. Empty if it does not answer."""
    from airflow.utils.session import create_session

    try:
        with create_session() as session:
            return read_dag_states(session.connection(), names)
    except Exception as error:  # Airflow's database: the page is shown without it
        logger.warning("Airflow's database cannot be asked: %s", type(error).__name__)
        return {}


def _not_yet(name: str) -> Look:
    error = NoAnswer("no answer yet from lake and broker")
    return Look(name, datetime.now(UTC), judge_error(error), error=error.to_json())


def _failed(name: str, error: Exception, spec: Spec | None = None) -> Look:
    if not isinstance(error, TidegateError):
        # Its text may contain secrets, such as a password in a URL: it is only logged.
        logger.exception("%s: unexpected error in its status", name, exc_info=error)
        message = f"{type(error).__name__}: see the log of Airflow's API server"
        form: dict[str, Any] = {
            "name": "Internal", "kind": "terminal", "message": message, "numbers": {},
        }  # fmt: skip
        judged = judge_error(TidegateError(message))
    else:
        form, judged = error.to_json(), judge_error(error)
    return Look(name, datetime.now(UTC), judged, spec, error=form)
