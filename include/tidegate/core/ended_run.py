"""A run that has ended: well, or with an error."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate import errors
from tidegate.core.json_codec import Document
from tidegate.core.requests import Backfill, Live, Replay
from tidegate.errors import TidegateError

_MOST_TEXT = 2000  # characters of an error


@dataclass(frozen=True)
class RunError(Document):
    """The error of a run: the name of its class, its message, and `terminal` or `transient`."""

    name: str
    message: str
    kind: str

    @classmethod
    def told(cls, text: str) -> RunError:
        """Return the error of a text `Name: message`, as Airflow has it of a terminal error."""
        name, _, message = text.partition(": ")
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, TidegateError):
            return cls(name, message[:_MOST_TEXT], kind.kind)
        return cls("Internal", "see the log of the run", "terminal")

    @classmethod
    def of(cls, error: Exception) -> RunError:
        """Return an error. The text of one that is not Tidegate's is omitted: it may be secret."""
        if isinstance(error, TidegateError):
            return cls(type(error).__name__, str(error)[:_MOST_TEXT], error.kind)
        return cls("Internal", f"{type(error).__name__}: see the log of the run", "terminal")


@dataclass(frozen=True, kw_only=True)
class EndedRun(Document):
    """A run and how it ended: with an `error`, or well (None).

    Times are in ISO 8601. `lag` counts the offsets or files that waited after it, and Kafka may
    delete the first of them at `expires_at`. `left_out` counts what it excluded. `bad` rows do not
    fit their schema, or are in quarantine. All is in the lake, or sent, up to `complete_through`.
    `report` is the run key and the generation of its report. `in_airflow`: it is a run of its DAG
    there. What is not known is None.
    """

    run: str
    dag: str
    began: str
    ended: str
    error: RunError | None
    lane: str
    planned: str | None = None
    published: str | None = None
    rows: int = 0
    bytes: int | None = None
    lag: int | None = None
    expires_at: str | None = None
    left_out: int = 0
    bad: int = 0
    duplicates: int = 0
    complete_through: str | None = None
    report: tuple[str, int] | None = None
    in_airflow: bool = False

    @property
    def steps(self) -> dict[str, int]:
        """The seconds of planning, of Spark and publishing, and of the verdict, if known; or all.

        The times of the second are those of the plan and of the report.
        """
        edges, names = [self.began, self.ended], ["whole"]
        if self.planned and self.published:
            edges[1:1] = [self.planned, self.published]
            names = ["plan", "spark", "verdict"]
        times = itertools.pairwise(map(datetime.fromisoformat, edges))
        seconds = (max(0, round((b - a).total_seconds())) for a, b in times)
        return dict(zip(names, seconds, strict=True))

    @property
    def is_regular(self) -> bool:
        """Whether the run took what is new, and no window of the past."""
        return self.lane not in (Backfill.lane, Replay.lane)


def complete_through(runs: Sequence[EndedRun]) -> str | None:
    """Return the time until when all is in the lake, or sent: that of the newest live run which
    knows it. `runs` has the newest last.
    """
    times = (run.complete_through for run in reversed(runs) if run.lane == Live.lane)
    return next(filter(None, times), None)
