"""The ledger's entries: numbered from 1, each created if absent and never changed.

Their JSON is a public contract (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NamedTuple

from tidegate.core.offsets import OffsetRange

FORMAT = 1


@dataclass(frozen=True)
class Origin:
    """Where partitions of a topic begin for this pipeline."""

    kind: ClassVar[str] = "origin"
    topic: str
    topic_id: str
    partitions: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": {str(p): offset for p, offset in self.partitions.items()},
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Origin:
        partitions = {int(p): offset for p, offset in form["partitions"].items()}
        return cls(form["topic"], form["topic_id"], partitions)


class Account(NamedTuple):
    """`end - start = rows + invisible` (control records, aborted or compacted ones)."""

    start: int
    end: int
    rows: int
    invisible: int


class Reference(NamedTuple):
    """An object of the lake and the SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Commit:
    """A sealed attempt's files become part of the lake; `manifest` lists them."""

    kind: ClassVar[str] = "commit"
    lane: str
    plan_id: str
    plan_sha256: str
    chunk: int
    attempt: str
    cluster_id: str
    topic_ids: Mapping[str, str]
    accounts: Mapping[str, Mapping[int, Account]]
    manifest: Reference

    @property
    def ranges(self) -> Iterator[tuple[str, OffsetRange]]:
        """Pairs of topic id and range."""
        for topic, partitions in self.accounts.items():
            for partition, account in partitions.items():
                yield (
                    self.topic_ids[topic],
                    OffsetRange(topic, partition, account.start, account.end),
                )

    @property
    def rows(self) -> int:
        return sum(a.rows for partitions in self.accounts.values() for a in partitions.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "lane": self.lane,
            "plan": {"id": self.plan_id, "sha256": self.plan_sha256},
            "chunk": self.chunk,
            "attempt": self.attempt,
            "cluster_id": self.cluster_id,
            "topics": {
                topic: {
                    "topic_id": self.topic_ids[topic],
                    "ranges": {str(p): list(account) for p, account in partitions.items()},
                }
                for topic, partitions in self.accounts.items()
            },
            "manifest": self.manifest._asdict(),
            "replaces": [],
            "receipts": [],
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Commit:
        return cls(
            lane=form["lane"],
            plan_id=form["plan"]["id"],
            plan_sha256=form["plan"]["sha256"],
            chunk=form["chunk"],
            attempt=form["attempt"],
            cluster_id=form["cluster_id"],
            topic_ids={topic: each["topic_id"] for topic, each in form["topics"].items()},
            accounts={
                topic: {int(p): Account(*numbers) for p, numbers in each["ranges"].items()}
                for topic, each in form["topics"].items()
            },
            manifest=Reference(**form["manifest"]),
        )


@dataclass(frozen=True)
class Gap:
    """Offsets given up on purpose, with the reason and who said so."""

    kind: ClassVar[str] = "gap"
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    reason: str
    by: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Gap:
        return cls(**{each.name: form[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class Abandon:
    """An attempt that may never be committed, so that its files can be collected."""

    kind: ClassVar[str] = "abandon"
    plan_id: str
    chunk: int
    attempt: str

    def to_json(self) -> dict[str, Any]:
        return {"plan": self.plan_id, "chunk": self.chunk, "attempt": self.attempt}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Abandon:
        return cls(form["plan"], form["chunk"], form["attempt"])


Entry = Origin | Commit | Gap | Abandon
KINDS: Mapping[str, type[Origin] | type[Commit] | type[Gap] | type[Abandon]] = {
    each.kind: each for each in (Origin, Commit, Gap, Abandon)
}
