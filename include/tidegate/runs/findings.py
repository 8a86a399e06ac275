"""The findings of `verify`: what was checked, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from tidegate.core.json_codec import Document, Form
from tidegate.runs.steps import MOST_LISTED

FORMAT = 1


@dataclass(frozen=True)
class Mismatch:
    """What differs, and where: the commit, the URI of a file, the offset."""

    what: str
    where: Mapping[str, Any]


@dataclass(frozen=True)
class Compared(Document):
    """How many rows were compared with Kafka, and how many are no longer in it."""

    rows: int
    expired: int


def _write(mismatch: Mismatch) -> dict[str, Any]:
    return {"what": mismatch.what, **mismatch.where}


def _read(form: Mapping[str, Any]) -> Mismatch:
    return Mismatch(form["what"], {k: v for k, v in form.items() if k != "what"})


@dataclass(frozen=True, kw_only=True)
class Verified(Document):
    """What `verify` has checked and found (contract: `verify --json`).

    `first` are the first of the `differences`. `against_kafka` is None if Kafka was not asked.
    """

    format: int = FORMAT
    pipeline: str
    commits: int
    files: int
    rows: int
    against_kafka: Compared | None
    differences: int
    first: tuple[Annotated[Mismatch, Form(_write, _read)], ...]


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
    found: list[Mismatch] = field(default_factory=list)

    def add(self, what: str, **where: Any) -> None:
        self.found.append(Mismatch(what, where))

    def include(self, other: Findings) -> None:
        """Add the findings of a part."""
        for name in ("commits", "files", "rows", "compared", "expired", "not_utf8"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.leaderless |= other.leaderless
        self.found += other.found

    def conclude(self, pipeline: str, *, against_kafka: bool) -> Verified:
        """Return the document of a whole pipeline."""
        return Verified(
            pipeline=pipeline,
            commits=self.commits,
            files=self.files,
            rows=self.rows,
            against_kafka=Compared(self.compared, self.expired) if against_kafka else None,
            differences=len(self.found),
            first=tuple(self.found[:MOST_LISTED]),
        )
