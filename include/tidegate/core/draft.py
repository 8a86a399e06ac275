"""What a run would do now, before any of it is recorded or frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.boundaries import Boundary
from tidegate.core.cursor import Progress
from tidegate.core.entries import Gap, Origin
from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import LeftOut


@dataclass
class Draft:
    """What to record first (`boundaries`, `origins`, `gaps`), what to plan, what to leave out.

    `covered` was asked for and is in the lake already; `ahead` is at or after the cursor and left
    to the live lane. `expires` tells, for partitions of which it
    is known and was asked, when their first range may be deleted, in ms since the epoch.
    """

    boundaries: list[Boundary] = field(default_factory=list)

    origins: list[Origin] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    ranges: list[OffsetRange] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    ahead: list[OffsetRange] = field(default_factory=list)
    covered: list[OffsetRange] = field(default_factory=list)
    expires: Mapping[tuple[str, int], int] = field(default_factory=dict)
    # Of a re-ingest: its chunks are cut at files already, and say what they replace.
    chunks: tuple[Window, ...] | None = None
    replay: Mapping[str, Any] | None = None

    def progress(self, fold: Fold, topic_id: str, partition: int) -> Progress | None:
        """Return where a partition stands, with the draft's origins; None if it has no origin."""
        origins: dict[int, int] = dict(fold.origins.get(topic_id, {}))
        for origin in self.origins:
            if origin.topic_id == topic_id:
                origins |= origin.partitions
        if partition not in origins:
            return None
        key = topic_id, partition
        return Progress(
            origins[partition], fold.covered.get(key, NOTHING), fold.skipped.get(key, NOTHING)
        )
