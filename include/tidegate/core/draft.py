"""What a run would do now, before any of it is recorded or frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.entries import Gap, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOut
from tidegate.core.windows import Boundary


@dataclass
class Draft:
    """What to record first (`boundaries`, `origins`, `gaps`), what to plan, what to leave out.

    `covered` was asked for and is in the lake already. `expires` tells, for partitions of which it
    is known and was asked, when their first range may be deleted, in ms since the epoch.
    """

    boundaries: list[Boundary] = field(default_factory=list)

    origins: list[Origin] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    ranges: list[OffsetRange] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    covered: list[OffsetRange] = field(default_factory=list)
    expires: Mapping[tuple[str, int], int] = field(default_factory=dict)
