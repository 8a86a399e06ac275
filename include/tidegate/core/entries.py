"""The ledger's entries: numbered from 1, each created if absent and never changed.

Their JSON is a public contract (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import SourceFile
from tidegate.core.replacement import Replaced, replaces_from_json, replaces_to_json

FORMAT = 1


class Adoption(NamedTuple):
    """A recreated topic is taken up: the topic id that it had before, why, and who said so."""

    topic_id: str
    reason: str
    by: str


@dataclass(frozen=True)
class Origin:
    """Where partitions of a topic begin for this pipeline; with `adopts`, of a recreated one."""

    kind: ClassVar[str] = "origin"
    topic: str
    topic_id: str
    partitions: Mapping[int, int]
    adopts: Adoption | None = None

    def to_json(self) -> dict[str, Any]:
        adopted = {"adopts": self.adopts._asdict()} if self.adopts else {}
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": {str(p): offset for p, offset in self.partitions.items()},
            **adopted,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Origin:
        partitions = {int(p): offset for p, offset in form["partitions"].items()}
        adopts = Adoption(**form["adopts"]) if "adopts" in form else None
        return cls(form["topic"], form["topic_id"], partitions, adopts)


class Account(NamedTuple):
    """`end - start = rows + invisible` (control records, aborted or compacted ones)."""

    start: int
    end: int
    rows: int
    invisible: int


class Receipt(NamedTuple):
    """What one target partition took of an egress plan, over all attempts.

    `before` is its end when the plan was first claimed, `after` its end when all was sent; between
    the two stand `sent` rows of the plan, `duplicates` of them more than once, and what other
    producers wrote.
    """

    topic: str
    topic_id: str
    partition: int
    before: int
    after: int
    sent: int
    duplicates: int


class Reference(NamedTuple):
    """An object of the lake and the SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Commit:
    """A sealed attempt's files become part of the lake; `manifest` lists them.

    Of egress: a plan's rows are in the target; `manifest` lists the files that were sent,
    `accounts` tells the ranges of a lake that were, with the rows that were sent or kept back,
    `receipts` what the target took, `broken_order` where rows stand in another order.
    """

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
    receipts: tuple[Receipt, ...] = ()
    replaces: tuple[Replaced, ...] = ()
    broken_order: tuple[str, ...] = ()

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
            "replaces": replaces_to_json(self.replaces),
            "receipts": [receipt._asdict() for receipt in self.receipts],
            **({"broken_order": list(self.broken_order)} if self.broken_order else {}),
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
            receipts=tuple(Receipt(**each) for each in form["receipts"]),
            replaces=replaces_from_json(form["replaces"]),
            broken_order=tuple(form.get("broken_order", ())),
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


@dataclass(frozen=True)
class Claim:
    """An attempt of an egress plan is about to send: from here on, records may be in the target.

    `files`, or the ranges of `window` (of a lake, by topic id), belong to this plan until it is
    committed or released. `sender` is who must be dead before another attempt may begin, `target`
    the end of every target partition before the first record. `supersedes` names the attempt that
    was proven dead, `root` what the names of the files are below.
    """

    kind: ClassVar[str] = "claim"
    lane: str
    plan_id: str
    attempt: str
    sender: Mapping[str, Any]
    files: tuple[SourceFile, ...]
    topic_ids: Mapping[str, str]
    window: Window
    target: Mapping[str, Mapping[int, int]]
    supersedes: str | None = None
    root: str | None = None

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """The partitions of a lake, by topic id, that it has ranges of."""
        return {(self.topic_ids[r.topic], r.partition) for r in self.window}

    def to_json(self) -> dict[str, Any]:
        return {
            "lane": self.lane,
            "plan": self.plan_id,
            "attempt": self.attempt,
            "sender": dict(self.sender),
            "files": [file.to_json() for file in self.files],
            "topics": {
                topic: {
                    "topic_id": topic_id,
                    "ranges": {
                        str(r.partition): [r.start, r.end] for r in self.window if r.topic == topic
                    },
                }
                for topic, topic_id in self.topic_ids.items()
            },
            "target": {
                topic: {str(p): offset for p, offset in ends.items()}
                for topic, ends in self.target.items()
            },
            "supersedes": self.supersedes,
            "root": self.root,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Claim:
        return cls(
            lane=form["lane"],
            plan_id=form["plan"],
            attempt=form["attempt"],
            sender=form["sender"],
            files=tuple(SourceFile(**each) for each in form["files"]),
            topic_ids={topic: each["topic_id"] for topic, each in form["topics"].items()},
            window=tuple(
                OffsetRange(topic, int(p), start, end)
                for topic, each in form["topics"].items()
                for p, (start, end) in each["ranges"].items()
            ),
            target={
                topic: {int(p): offset for p, offset in ends.items()}
                for topic, ends in form["target"].items()
            },
            supersedes=form["supersedes"],
            root=form.get("root"),  # of an earlier release it is missing
        )


@dataclass(frozen=True)
class Release:
    """The claim of an egress attempt ends without a commit; that of another attempt stands.

    `how`: `nothing sent` and `resend` give its files or ranges back, `declare sent` counts them as
    sent. `refused` names files that hold bad rows: they are left out until they change, or, unless
    `on_bad_row` was quarantine when they were refused, until it is.
    """

    kind: ClassVar[str] = "release"
    plan_id: str
    attempt: str
    how: Literal["nothing sent", "resend", "declare sent"]
    reason: str
    refused: tuple[str, ...] = ()
    on_bad_row: str | None = None

    def to_json(self) -> dict[str, Any]:
        policy = {} if self.on_bad_row is None else {"on_bad_row": self.on_bad_row}
        return {
            "plan": self.plan_id,
            "attempt": self.attempt,
            "how": self.how,
            "reason": self.reason,
            "refused": list(self.refused),
            **policy,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Release:
        if form["how"] not in ("nothing sent", "resend", "declare sent"):
            raise ValueError(f"released how? {form['how']!r}")
        refused, policy = tuple(form["refused"]), form.get("on_bad_row")
        return cls(form["plan"], form["attempt"], form["how"], form["reason"], refused, policy)


Entry = Origin | Commit | Gap | Abandon | Claim | Release
KINDS: Mapping[str, type[Entry]] = {
    each.kind: each for each in (Origin, Commit, Gap, Abandon, Claim, Release)
}
