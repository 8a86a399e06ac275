"""One state for each pipeline, with its reason: for `list`, for `status` and its exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tidegate.core.json_codec import Document
from tidegate.core.wording import counted
from tidegate.errors import TidegateError


class State(StrEnum):
    """The state of a pipeline, the worst first.

    - `LOSING`: records have expired unread, and its runs exclude their partitions.
    - `BLOCKED`: a part of it, or all, is neither read nor sent until somebody acts.
    - `UNKNOWN`: the broker, the lake or the source does not answer.
    - `OK`: records or files wait for its next run.
    - `IDLE`: nothing waits.
    """

    LOSING = "losing"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    OK = "ok"
    IDLE = "idle"


EXIT_CODES = {State.LOSING: 3, State.BLOCKED: 3, State.UNKNOWN: 4, State.OK: 0, State.IDLE: 0}
"""Those of `status` and `list`."""


class Judged(NamedTuple):
    """The state of a pipeline, and the first reason for it.

    `waiting` counts the offsets or files of its next run. None: not known.
    """

    state: State
    reason: str
    waiting: int | None = None


@dataclass(frozen=True)
class ListedPipeline(Document):
    """A pipeline, its state and the reason for it.

    `state` is a State as text. `kind` and `schedule` are None if its file is wrong. `waiting`
    counts the offsets or files of the next run, None if that is not known. `last` is the time of
    its last ledger entry.
    """

    pipeline: str
    kind: str | None
    schedule: str | None
    state: str
    reason: str
    waiting: int | None
    last: str | None


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
