"""Types that the steps of ingest and egress runs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tidegate.core.json_codec import Document
from tidegate.core.offsets import Offsets
from tidegate.core.plan import Exclusion, Plan
from tidegate.lake.plans import Frozen

FORMAT = 1
"""The format number of reports."""
MOST_LISTED = 20
"""Partitions, commits or findings that one message lists; of more it has only the number."""


@dataclass(frozen=True)
class Planned:
    """A run's living plan. `known` if it was frozen before this call."""

    frozen: Frozen
    known: bool

    @property
    def plan(self) -> Plan:
        return self.frozen.plan


@dataclass(frozen=True, kw_only=True)
class RunReport(Document):
    """What the short reports of both kinds of pipeline say (contract: the XCom `report`).

    `rows` were committed, or sent. `left_out` is what the plan excludes.
    """

    format: int = FORMAT
    pipeline: str
    run: str
    run_key: str
    generation: int
    plan_id: str
    lane: str
    rows: int
    left_out: tuple[Exclusion, ...]


@dataclass(frozen=True, kw_only=True)
class RunDetails(Document):
    """What the full reports of both kinds of pipeline add.

    `bytes` were written, None for an egress. `lag` counts the offsets or files that waited after
    the run, None if that is not known. `expires_at` (ISO 8601) is when Kafka may delete the first
    of them. `bad` rows do not fit their schema, or are in quarantine. `complete_through` is the
    time until when all is in the lake, or sent: of several topics the earliest.
    """

    bytes: int | None
    complete_through: str | None
    lag: int | None
    expires_at: str | None
    bad: int


class AnyPublished(Protocol):
    """What a run has published: its plan, the cursors and the report, and its `new` commits."""

    @property
    def plan(self) -> Plan: ...
    @property
    def offsets(self) -> Offsets: ...
    @property
    def report(self) -> RunReport: ...
    @property
    def new(self) -> tuple[int, ...]: ...

    def asset_event(self, topic: str) -> dict[str, Any]:
        """Return the extra of a topic's asset event (contract)."""


@dataclass(frozen=True)
class EarlyEnd:
    """What a run that ended early leaves behind. `finished` if nothing of its plan is left to do.

    `planned`: it has a plan, which the same run id continues.
    """

    text: str
    finished: bool = False
    planned: bool = True


NO_PLAN = EarlyEnd("nothing: no plan was frozen", planned=False)


class StepProgress(NamedTuple):
    """What a run does now, and how much of that is done.

    `records` are offsets of a topic or rows of a source, `size` bytes that were written. The totals
    are 0 where they are not known.
    """

    doing: str
    records: int = 0
    all_records: int = 0
    chunks: int = 0
    all_chunks: int = 0
    size: int = 0


OnProgress = Callable[[StepProgress], None]
