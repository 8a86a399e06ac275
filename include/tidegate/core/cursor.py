"""One partition: what the broker has of it, and what the ledger says of it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.intervals import NOTHING, Intervals


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What the broker has of one partition now.

    `end` is the last stable offset under read_committed, else the high watermark.
    """

    start: int
    end: int
    high: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What the ledger says of one partition: its origin and the offsets with an outcome."""

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
