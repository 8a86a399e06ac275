"""Requests: what a run is asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from tidegate.core import canonical
from tidegate.core.json_codec import OMITTED, Document

Order = Literal["oldest", "soonest-expiring"]


ORDERS: tuple[Order, ...] = ("oldest", "soonest-expiring")


Interval = tuple[datetime, datetime]


@dataclass(frozen=True)
class Live:
    """Everything since the cursor, whatever the run's interval."""

    lane: ClassVar[str] = "live"
    work: ClassVar[str] = ""
    interval: Interval | None = None


@dataclass(frozen=True)
class Dates:
    """What was written in the run's interval, of all topics: one run of a backfill over dates.

    It is the same work as the scheduled run of that interval: whichever is planned first counts.
    """

    lane: ClassVar[str] = "backfill"
    work: ClassVar[str] = ""
    interval: Interval


@dataclass(frozen=True)
class Backfill:
    """A window of one topic, as it was asked for: nothing of it has been judged yet.

    `partitions` None: all. Either `start` and `end`, as texts, or `fill_gaps`.
    """

    lane: ClassVar[str] = "backfill"
    topic: str
    partitions: tuple[int, ...] | None = None
    start: str | None = None
    end: str | None = None
    fill_gaps: bool = False
    chunk_size: int | None = None
    order: str = "oldest"

    @property
    def work(self) -> str:
        """What tells this window from another of the same run."""
        return canonical.encode({"backfill": asdict(self)}).decode()


@dataclass(frozen=True)
class Replay(Document):
    """A window that is in the lake, once more: an ingest reads it again, an egress sends it again.

    `id` names it: the same id again is the same work, whatever the run. `where` is an SQL
    expression: of what is sent again, only the rows of which it is true.
    """

    lane: ClassVar[str] = "replay"
    work: ClassVar[str] = ""
    topic: str
    id: str
    partitions: tuple[int, ...] | None = None
    start: str | None = None
    end: str | None = None
    where: Annotated[str | None, OMITTED] = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if name != "id"}


Asked = Live | Dates | Backfill | Replay
