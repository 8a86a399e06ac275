"""Requests: what a run is asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar

from tidegate.core import canonical
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.offsets import OffsetRange

DataInterval = tuple[datetime, datetime]
"""Airflow's: start and end of what a scheduled run is for."""


@dataclass(frozen=True)
class Live:
    """All records since the cursor, whatever the run's data interval."""

    lane: ClassVar[str] = "live"
    work: ClassVar[str] = ""
    interval: DataInterval | None = None


@dataclass(frozen=True)
class Dates:
    """The records of all topics in the run's data interval: one run of a backfill over dates.

    It is the same work as the scheduled run of that interval. Whichever is planned first counts.
    """

    lane: ClassVar[str] = "backfill"
    work: ClassVar[str] = ""
    interval: DataInterval


@dataclass(frozen=True)
class Backfill:
    """A window of one topic, or ranges of several, as requested and not validated yet.

    It has a `topic` with either `start` and `end`, as texts, or `fill_gaps`; or it has `ranges`.
    `partitions` is None for all.
    """

    lane: ClassVar[str] = "backfill"
    topic: str = ""
    partitions: tuple[int, ...] | None = None
    start: str | None = None
    end: str | None = None
    fill_gaps: bool = False
    chunk_size: int | None = None
    ranges: tuple[OffsetRange, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({r.topic for r in self.ranges})) or (self.topic,)

    @property
    def work(self) -> str:
        """The text that distinguishes this window from others of the same run."""
        form = {**asdict(self), "ranges": [str(r) for r in sorted(self.ranges)]}
        if not self.ranges:
            del form["ranges"]
        return canonical.encode({"backfill": form}).decode()


@dataclass(frozen=True)
class Replay(Document):
    """A window that is in the lake already: an ingest reads it again, an egress sends it again.

    `id` identifies the work: a replay with the same id is the same one, in any run. `where` is an
    SQL condition on the rows that an egress sends again.
    """

    lane: ClassVar[str] = "replay"
    work: ClassVar[str] = ""
    topic: str
    id: str
    partitions: tuple[int, ...] | None = None
    start: str | None = None
    end: str | None = None
    where: Annotated[str | None, OMITTED] = None

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if name != "id"}


@dataclass(frozen=True)
class FileReplay(Document):
    """Source files that were sent, to be sent again: those with a name that one of `files`, globs,
    matches, and that were sent from `start` to `end`, times as texts.

    `id` identifies the work, as of a `Replay`.
    """

    lane: ClassVar[str] = "replay"
    id: str
    files: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if name != "id"}


Asked = Live | Dates | Backfill | Replay
