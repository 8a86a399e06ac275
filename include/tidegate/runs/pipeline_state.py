"""One state for each pipeline, with its reason: for commands, exit codes, page and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from tidegate.core.ended_run import EndedRun
from tidegate.core.json_codec import Document
from tidegate.core.wording import counted, duration
from tidegate.errors import TidegateError


class State(StrEnum):
    """The state of a pipeline, the worst first. Of several that hold, the first is its state.

    - `FAILING`: its last run has failed, backfills and replays apart.
    - `LOSING`: records have expired unread, or will before its next run.
    - `BLOCKED`: a part of it, or all, is neither read nor sent until somebody acts.
    - `UNKNOWN`: the broker, the lake or the source does not answer.
    - `LATE`: no run has ended well for two intervals of its schedule, and none is under way; or its
      backlog grew in each of the last three runs, and is more than a run takes.
    - `PAUSED`: its DAG is paused in Airflow.
    - `RUNNING`: a run of its DAG is under way.
    - `OK`: records or files wait for its next run.
    - `IDLE`: nothing waits.
    """

    FAILING = "failing"
    LOSING = "losing"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    LATE = "late"
    PAUSED = "paused"
    RUNNING = "running"
    OK = "ok"
    IDLE = "idle"


EXIT_CODES = {
    State.FAILING: 3,
    State.LOSING: 3,
    State.BLOCKED: 3,
    State.UNKNOWN: 4,
    State.LATE: 3,
    State.PAUSED: 0,
    State.RUNNING: 0,
    State.OK: 0,
    State.IDLE: 0,
}
"""Those of `status` and `list`."""
_ORDER = [*State]
_GROWING = 3  # runs


class Judged(NamedTuple):
    """The state of a pipeline, the first reason for it, and the way out, if the reason has none.

    `waiting` counts the offsets or files of its next run. None: not known.
    """

    state: State
    reason: str
    waiting: int | None = None
    fix: str = ""


class Due(NamedTuple):
    """When runs of a schedule were due, the last two times, and when the next one is."""

    before_last: datetime
    last: datetime
    next: datetime


class DagState(NamedTuple):
    """What Airflow knows of a pipeline's DAG: whether it is paused, and whether a run is active.

    `failed` is the id of the last run that has ended, if it has failed, and `ended` when it ended.
    """

    paused: bool
    running: bool
    failed: str | None = None
    ended: datetime | None = None
    next_run: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class PipelineStatus(Document):
    """What the status of both kinds of pipeline says: its `state`, the `reason` and the way out.

    `state` is a State as text. `fix` is empty where the reason has the way out, or none is needed.
    All is in the lake, or sent, up to `complete_through`, whatever replays came later. `last_run`
    is the newest run in the pipeline's history.
    """

    state: str = State.UNKNOWN.value
    reason: str = ""
    fix: str = ""
    complete_through: str | None = None
    last_run: EndedRun | None = None


@dataclass(frozen=True)
class ListedPipeline(Document):
    """A pipeline, its state, the reason for it and the way out.

    `state` is a State as text. `kind` and `schedule` are None if its file is wrong. `waiting`
    counts the offsets or files of the next run, None if that is not known. `last` is the time of
    its last ledger entry, `last_run` the newest run in its history.
    """

    pipeline: str
    kind: str | None
    schedule: str | None
    state: str
    reason: str
    fix: str
    waiting: int | None
    last: str | None
    last_run: EndedRun | None


@dataclass(frozen=True, kw_only=True)
class PipelineList(Document):
    """All pipelines (contract: `list --json`)."""

    format: int = 1
    pipelines: tuple[ListedPipeline, ...]


def judge_error(error: Exception) -> Judged:
    """Return the state of a pipeline whose status could not be read."""
    transient = isinstance(error, TidegateError) and error.kind == "transient"
    return Judged(State.UNKNOWN if transient else State.BLOCKED, str(error))


def judge_backlog(waiting: int, noun: str) -> Judged:
    """Return the state of a pipeline without a problem, by what waits for its next run."""
    if waiting:
        return Judged(State.OK, f"{counted(waiting, noun)} waiting", waiting)
    return Judged(State.IDLE, "nothing waits", 0)


def judge_runs(
    pipeline: str,
    now: Judged,
    runs: Sequence[EndedRun],
    due: Due | None = None,
    dag: DagState | None = None,
) -> Judged:
    """Return the state of a pipeline, by how its runs ended and what its status shows `now`.

    `due` is None without a schedule, `dag` where Airflow is not known.
    """
    told = {each.run for each in runs if each.error or not each.is_regular}
    runs = [each for each in runs if each.is_regular]
    found = [now]
    if runs and (error := runs[-1].error):
        fix = now.fix if now.state in (State.LOSING, State.BLOCKED) else ""
        reason = f"run {runs[-1].run} has failed: {error.name}"
        found.append(Judged(State.FAILING, reason, now.waiting, fix))
    is_over = dag and dag.ended and runs and _time(runs[-1].ended) >= dag.ended
    if dag and dag.failed and dag.failed not in told and not is_over:
        reason = f"run {dag.failed} has failed in Airflow: see the log of its tasks"
        found.append(Judged(State.FAILING, reason, now.waiting))
    if dag and dag.paused:
        fix = f"`airflow dags unpause tidegate__{pipeline}`"
        found.append(Judged(State.PAUSED, "its DAG is paused", now.waiting, fix))
    else:
        found += _by_schedule(pipeline, now, runs, due, running=dag is not None and dag.running)
    if dag and dag.running:
        found.append(Judged(State.RUNNING, "a run is under way", now.waiting))
    return min(found, key=lambda each: _ORDER.index(each.state))


def _by_schedule(
    pipeline: str, now: Judged, runs: Sequence[EndedRun], due: Due | None, *, running: bool
) -> list[Judged]:
    """Return what is wrong with a pipeline that nobody has paused: it loses records, or is late."""
    found, run_it = [], f"`tidegate run {pipeline}`"
    good = [each for each in runs if each.error is None]
    last = good[-1] if good else None
    expires = last and last.lag and now.waiting != 0 and last.expires_at
    if due and last and expires and _time(expires) < due.next:
        reason = f"records expire at {expires}, before the next run at {_iso(due.next)}"
        found.append(Judged(State.LOSING, reason, now.waiting, run_it))
    ended = max((_time(each.ended) for each in good), default=None)
    if due and ended and ended < due.before_last and not running:
        ago = duration((datetime.now(UTC) - ended).total_seconds())
        reason = f"no run has ended well for {ago}"
        fix = "look whether Airflow's scheduler runs, or " + run_it
        found.append(Judged(State.LATE, reason, now.waiting, fix))
    lags = [each.lag for each in good if each.lag is not None][-_GROWING - 1 :]
    takes = last.rows if last else 0
    if len(lags) > _GROWING and lags == sorted(set(lags)) and lags[-1] > takes:
        reason = f"its backlog grew in each of the last {_GROWING} runs, to {lags[-1]:,}"
        fix = "raise `max_records`, or run it more often; `tidegate docs past-data`"
        found.append(Judged(State.LATE, reason, now.waiting, fix))
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
