"""State of one partition: its watermarks by the broker, its progress by the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.intervals import NOTHING, Intervals


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Log start, end and high watermark of a partition now.

    `end` is the last stable offset under read_committed, else the high watermark.
    """

    start: int
    end: int
    high: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Origin, covered and skipped offsets of a partition."""

    origin: int
    covered: Intervals = NOTHING
    skipped: Intervals = NOTHING

    @property
    def cursor(self) -> int:
        """The first unseen offset at or after the origin."""
        at, before = self.origin, -1
        while at != before:
            before = at
            at = self.skipped.first_missing(self.covered.first_missing(at))
        return at
