"""The findings of `verify`: what was checked, and what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.runs.steps import MOST_LISTED

FORMAT = 1


@dataclass
class Findings:
    """What was checked, and the differences found.

    Not compared were `expired` rows, which are no longer in Kafka, and partitions without a leader
    (`leaderless`). `not_utf8` records have headers whose keys Spark cannot keep.
    """

    commits: int = 0
    files: int = 0
    rows: int = 0
    compared: int = 0
    expired: int = 0
    not_utf8: int = 0
    leaderless: set[tuple[str, int]] = field(default_factory=set)
    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, **where: Any) -> None:
        self.found.append({"what": what, **where})

    def include(self, other: Findings) -> None:
        """Add the findings of a part."""
        for name in ("commits", "files", "rows", "compared", "expired", "not_utf8"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.leaderless |= other.leaderless
        self.found += other.found

    def to_json(self, pipeline: str, *, against_kafka: bool) -> dict[str, Any]:
        kafka = {"rows": self.compared, "expired": self.expired} if against_kafka else None
        return {
            "format": FORMAT,
            "pipeline": pipeline,
            "commits": self.commits,
            "files": self.files,
            "rows": self.rows,
            "against_kafka": kafka,
            "differences": len(self.found),
            "first": self.found[:MOST_LISTED],
        }
