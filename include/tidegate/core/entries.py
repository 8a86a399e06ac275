"""The ledger's entries. Their JSON is a public contract (docs/internals/storage.md).

Entries are numbered from 1. Each is created if absent and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from tidegate.core.json_codec import OMITTED, Document, Name
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Columns, LeftOutFile, SourceFile
from tidegate.core.replacement import Replaces


@dataclass(frozen=True, slots=True)
class Adoption:
    """A recreated topic continues an earlier one: its former topic id, the reason, and by whom."""

    topic_id: str
    reason: str
    by: str


@dataclass(frozen=True)
class Origin(Document):
    """The offsets at which partitions of a topic begin. `adopts` if the topic was recreated."""

    kind: ClassVar[str] = "origin"
    topic: str
    topic_id: str
    partitions: Mapping[int, int]
    adopts: Annotated[Adoption | None, OMITTED] = None


class Account(NamedTuple):
    """Offsets and rows of a partition: `end - start = rows + invisible`.

    Invisible are control records, and records of aborted transactions or removed by compaction.
    """

    start: int
    end: int
    rows: int
    invisible: int


def accounts_of(
    window: Window, rows: Mapping[tuple[str, int], int]
) -> dict[str, dict[int, Account]]:
    """Return the accounts of a window by topic and partition, from the number of rows of each."""
    accounts: dict[str, dict[int, Account]] = {}
    for r in window:
        n = rows.get((r.topic, r.partition), 0)
        accounts.setdefault(r.topic, {})[r.partition] = Account(r.start, r.end, n, len(r) - n)
    return accounts


@dataclass(frozen=True, order=True, slots=True)
class Receipt:
    """The records of an egress plan in one target partition, over all attempts.

    `before` is its end when the plan was first claimed, `after` its end when all was sent. Between
    them are `sent` rows of the plan, `duplicates` of them repeated, and records of other producers.
    """

    topic: str
    topic_id: str
    partition: int
    before: int
    after: int
    sent: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class Reference:
    """An object of the lake and the SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """How the rows of a topic in a commit were decoded: the digest of its decoding, which is in the
    plan, and how many rows did not fit, by reason.
    """

    sha256: str
    undecodable: Mapping[str, int]
    beside: Annotated[tuple[str, ...], OMITTED] = ()


@dataclass(frozen=True)
class Commit(Document):
    """A sealed attempt's files become part of the lake. `manifest` lists them.

    In egress, a plan's rows are in the target: `manifest` lists the files that were sent,
    `accounts` has the ranges of a lake with the rows that were sent or quarantined, `receipts` what
    each target partition got, `broken_order` the target partitions whose rows are out of order.
    `columns` are those that Parquet files without declared ones have from now on: of the first such
    commit. The files that it `replaces` stay under `data/` for `keep_replaced` seconds. `decoded`
    are the topics whose rows have typed columns.
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
    replaces: Replaces = ()
    broken_order: Annotated[tuple[str, ...], OMITTED] = ()
    columns: Annotated[Columns | None, OMITTED] = None
    keep_replaced: Annotated[int, OMITTED] = 0
    decoded: Annotated[Mapping[str, Decoded] | None, OMITTED] = None

    @property
    def duplicates(self) -> int:
        """Records of an egress beyond one for each row, as far as the run has seen them."""
        return sum(r.duplicates for r in self.receipts)

    @property
    def ranges(self) -> Iterator[tuple[str, OffsetRange]]:
        """The topic id and the range of each account."""
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
        form = super().to_json()
        form["plan"] = {"id": form.pop("plan_id"), "sha256": form.pop("plan_sha256")}
        topic_ids, accounts = form.pop("topic_ids"), form.pop("accounts")
        form["topics"] = {
            topic: {"topic_id": topic_ids[topic], "ranges": ranges}
            for topic, ranges in accounts.items()
        }
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        plan = {"plan_id": form["plan"]["id"], "plan_sha256": form["plan"]["sha256"]}
        return super().from_json({**form, **plan, **_split(form["topics"], "accounts")})


@dataclass(frozen=True)
class Gap(Document):
    """Offsets that are skipped on purpose, for what reason and by whom."""

    kind: ClassVar[str] = "gap"
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    reason: str
    by: str


@dataclass(frozen=True)
class Abandon(Document):
    """An attempt that may never be committed, so that its files can be deleted."""

    kind: ClassVar[str] = "abandon"
    plan_id: Annotated[str, Name("plan")]
    chunk: int
    attempt: str


@dataclass(frozen=True)
class Claim(Document):
    """An attempt of an egress plan is about to send: from now on, its records may be in the target.

    `files`, or the ranges of `window` (of a lake, by topic id), belong to this plan until it is
    committed or released. `sender` identifies the process that must be dead before another attempt
    begins. `target` is the end of every target partition before the first record. `supersedes`
    names the attempt that was proven dead, `root` the directory that the files' names are below.
    `spark` is Spark's minor version, on which the bytes of records may depend.
    """

    kind: ClassVar[str] = "claim"
    lane: str
    plan_id: Annotated[str, Name("plan")]
    attempt: str
    sender: Mapping[str, Any]
    files: tuple[SourceFile, ...]
    topic_ids: Mapping[str, str]
    window: Window
    target: Mapping[str, Mapping[int, int]]
    spark: str
    supersedes: str | None = None
    root: str | None = None
    cluster_id: Annotated[str | None, OMITTED] = None
    columns: Annotated[Columns | None, OMITTED] = None

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """The partitions of its window, as (topic id, partition)."""
        return {(self.topic_ids[r.topic], r.partition) for r in self.window}

    def to_json(self) -> dict[str, Any]:
        form = super().to_json()
        topic_ids, window = form.pop("topic_ids"), form.pop("window")
        form["topics"] = {
            topic: {"topic_id": topic_id, "ranges": window.get(topic, {})}
            for topic, topic_id in topic_ids.items()
        }
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        return super().from_json({**form, **_split(form["topics"], "window")})


@dataclass(frozen=True)
class Release(Document):
    """The claim of an egress attempt ends without a commit. Claims of other attempts stay.

    `how`: after `nothing sent` and `resend` its files or ranges can be sent again, after `declare
    sent` they count as sent. `refused` are files that cannot be sent, with the reasons: no plan has
    them until they change, or the settings by which they are `judged_by`.
    """

    kind: ClassVar[str] = "release"
    plan_id: Annotated[str, Name("plan")]
    attempt: str
    how: Literal["nothing sent", "resend", "declare sent"]
    reason: str
    refused: tuple[LeftOutFile, ...] = ()
    judged_by: Annotated[str | None, OMITTED] = None


def _split(topics: Mapping[str, Any], ranges: str) -> dict[str, Any]:
    """Return the fields that `topics` stands for: the topic ids, and the ranges by this name."""
    return {
        "topic_ids": {topic: each["topic_id"] for topic, each in topics.items()},
        ranges: {topic: each["ranges"] for topic, each in topics.items()},
    }


Entry = Origin | Commit | Gap | Abandon | Claim | Release
KINDS: Mapping[str, type[Entry]] = {
    each.kind: each for each in (Origin, Commit, Gap, Abandon, Claim, Release)
}
