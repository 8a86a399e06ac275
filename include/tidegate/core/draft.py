"""What a run would do now, before any of it is recorded or frozen."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.entries import Gap, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOut


@dataclass
class Draft:
    """Entries to record first (`origins`, `gaps`), ranges to plan, partitions to leave out."""

    origins: list[Origin] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    ranges: list[OffsetRange] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
