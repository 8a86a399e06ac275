"""What stops a topic or a partition from being read: one judge, which all others ask.

A plan, `status`, the doctor and the check of an attempt judge by these functions, so that they give
the same reason in the same words. The window of a backfill is cut by `core.draft.draft_window`,
which asks for the same reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from tidegate.core.cursor import Progress, Watermarks
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Document
from tidegate.core.offsets import OffsetRange
from tidegate.core.wording import counted


class Reason(StrEnum):
    """Why a topic or a partition cannot be read. The value is the reason in documents."""

    NO_TOPIC = "no such topic"
    RECREATED = "the topic was recreated"
    NO_LEADER = "no leader"
    NO_PARTITION = "no such partition"
    VANISHED = "the partition vanished"
    TRUNCATED = "truncated"
    EXPIRED = "expired"
    UNREADABLE = "unreadable"
    HANGING = "open transaction"
    """Only reported: what is below the transaction's first record is read."""


FIXES = {
    Reason.NO_TOPIC: "if it exists, grant this user READ on it (its right to DESCRIBE it is gone); "
    "else create it again (`kafka-topics.sh --create --topic {topic} …`), or, if it is gone for "
    "good, take it out of `topics` or `assign`, or add it to `exclude`; its rows stay in the lake",
    Reason.RECREATED: "`tidegate offsets adopt {pipeline} {topic} --reason …`, or give the topic a "
    "new pipeline",
    Reason.NO_LEADER: "see the brokers' log; it is read again once it has one, or `on_expired` "
    "decides",
    Reason.NO_PARTITION: "add partitions to the topic, or take it out of `assign`",
    Reason.VANISHED: "look at the broker: partitions are never removed by design",
    Reason.TRUNCATED: "the broker lost records that the lake has: "
    "`tidegate docs runbook#excluded-partitions-and-topics`",
    Reason.EXPIRED: "`tidegate offsets set {pipeline} {topic} {partition} {end} --reason …` gives "
    "these up; `on_expired: skip` gives up all that expire, also later",
    Reason.UNREADABLE: "a producer writes timestamps that are no milliseconds; set "
    "`on_unreadable: gap` to give up these offsets and go on behind them",
    Reason.HANGING: "no record behind it is read until it ends: `kafka-transactions.sh "
    "find-hanging`, then `abort`",
}
"""What to do, with the pipeline, the topic, the partition and its numbers to fill in."""


@dataclass(frozen=True)
class LeftOut:
    """A partition or topic (`partition` is None) that is excluded, and the numbers behind it."""

    topic: str
    partition: int | None
    reason: Reason
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "reason": str(self.reason),
            **self.numbers,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> LeftOut:
        fixed = {"topic", "partition", "reason", "fix"}
        numbers = {k: v for k, v in form.items() if k not in fixed}
        return cls(form["topic"], form["partition"], Reason(form["reason"]), numbers)

    def __str__(self) -> str:
        where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        if self.reason == Reason.EXPIRED:
            start, end = self.numbers["start"], self.numbers["end"]
            lost = self.numbers.get("offsets", end - start)
            return f"{where}: expired: [{start:,}, {end:,}), {counted(lost, 'offset')}"
        numbers = ", ".join(f"{k} {v}" for k, v in self.numbers.items())
        return f"{where}: {self.reason}" + (f" ({numbers})" if numbers else "")


@dataclass(frozen=True)
class TopicState:
    """What the broker says of a topic now. `topic_id` is None if it is missing or hidden.

    Partitions without a leader have no watermarks. `cuts` are the offsets at which logs were
    truncated below their cursors, `too_late` the first offset of a log, if any, whose timestamp
    Spark cannot convert. `assigned` are the only partitions to read. None: all.
    """

    topic_id: str | None = None
    watermarks: Mapping[int, Watermarks] = field(default_factory=dict)
    leaderless: Collection[int] = ()
    cuts: Mapping[int, int] = field(default_factory=dict)
    too_late: Mapping[int, int] = field(default_factory=dict)
    assigned: frozenset[int] | None = None

    def only(self, assigned: Collection[int] | None) -> TopicState:
        """Return the state of these partitions alone; for None, of all."""
        if assigned is None:
            return self
        return replace(
            self,
            watermarks={p: m for p, m in self.watermarks.items() if p in assigned},
            leaderless=[p for p in self.leaderless if p in assigned],
            assigned=frozenset(assigned),
        )


def topic_problem(topic: str, known_id: str | None, now: TopicState) -> LeftOut | None:
    """Return why no partition of a topic can be read. None if each is judged alone.

    `known_id` is the topic id that the ledger follows, None if it was never read. Such a topic is
    excluded as a whole while a partition has no leader, because only the broker knows where it
    begins: once the topic is recorded, partitions that are not assigned begin at 0.
    """
    if now.topic_id is None:
        return LeftOut(topic, None, Reason.NO_TOPIC, {"was": known_id} if known_id else {})
    if known_id not in (None, now.topic_id):
        return LeftOut(topic, None, Reason.RECREATED, {"was": known_id, "is": now.topic_id})
    if known_id is None and now.leaderless and now.assigned is None:
        return LeftOut(topic, None, Reason.NO_LEADER, {"partitions": sorted(now.leaderless)})
    return None


def partition_problems(
    topic: str, progress: Mapping[int, Progress], now: TopicState
) -> Iterator[LeftOut]:
    """Yield the partitions that cannot be read from their cursors on, each with its first reason.

    `progress` is that of the partitions that have an origin.
    """
    wanted = progress.keys() if now.assigned is None else now.assigned
    for p in sorted(now.leaderless):
        yield LeftOut(topic, p, Reason.NO_LEADER)
    for p in sorted(wanted - now.watermarks.keys() - set(now.leaderless)):
        if p in progress:
            yield LeftOut(topic, p, Reason.VANISHED, {"cursor": progress[p].cursor})
        else:
            yield LeftOut(topic, p, Reason.NO_PARTITION)
    for p in sorted(now.watermarks.keys() & progress.keys()):
        if found := _of_log(topic, p, progress[p], now):
            yield found


def _of_log(topic: str, partition: int, progress: Progress, now: TopicState) -> LeftOut | None:
    """Return why a log that has a leader cannot be read from the cursor on."""
    cursor, marks = progress.cursor, now.watermarks[partition]
    cut = now.cuts.get(partition)
    if marks.high < cursor:
        return LeftOut(topic, partition, Reason.TRUNCATED, {"cursor": cursor, "end": marks.high})
    if cut is not None and cut < cursor:
        numbers = {"cursor": cursor, "end": marks.high, "cut": cut}
        return LeftOut(topic, partition, Reason.TRUNCATED, numbers)
    if cursor < marks.start:
        seen = progress.covered.union(progress.skipped)
        return expired_problem(topic, partition, seen.missing(cursor, marks.start))
    if now.too_late.get(partition) == cursor:
        return LeftOut(topic, partition, Reason.UNREADABLE, {"offset": cursor})
    return None


def expired_problem(topic: str, partition: int, unseen: Intervals) -> LeftOut:
    """Return the exclusion of a partition whose `unseen` offsets were deleted."""
    start, end = unseen.spans[0][0], unseen.spans[-1][1]
    numbers = {"start": start, "end": end, "offsets": len(unseen)}
    return LeftOut(topic, partition, Reason.EXPIRED, numbers)


def range_problem(r: OffsetRange, topic_id: str, now: TopicState) -> LeftOut | None:
    """Return why a range that was planned of a topic id cannot be read as a whole."""
    if whole := topic_problem(r.topic, topic_id, now):
        return whole
    if r.partition in now.leaderless:
        return LeftOut(r.topic, r.partition, Reason.NO_LEADER)
    marks = now.watermarks.get(r.partition)
    if marks is None:
        return LeftOut(r.topic, r.partition, Reason.VANISHED)
    if marks.high < r.end:
        numbers = {"planned": r.end, "end": marks.high}
        return LeftOut(r.topic, r.partition, Reason.TRUNCATED, numbers)
    if marks.start > r.start:
        gone = Intervals.of([(r.start, min(marks.start, r.end))])
        return expired_problem(r.topic, r.partition, gone)
    return None


def hanging_problems(
    topic: str, watermarks: Mapping[int, Watermarks], open_since: Mapping[int, int], now: float
) -> Iterator[LeftOut]:
    """Yield the partitions behind a transaction that has been open for more than 15 minutes.

    `open_since` and `now` are in ms since the epoch. A transaction whose beginning is not known is
    among them. Brokers end a transaction after 15 minutes unless `transaction.max.timeout.ms` is
    longer.
    """
    for p, marks in sorted(watermarks.items()):
        since = open_since.get(p)
        if marks.end < marks.high and (since is None or now - since > _LONGEST_TRANSACTION):
            yield LeftOut(topic, p, Reason.HANGING, {"offsets": marks.high - marks.end})


_LONGEST_TRANSACTION = 900_000  # ms: Kafka's default of transaction.max.timeout.ms


class Reader(Protocol):
    """What a fix depends on of a pipeline file."""

    @property
    def name(self) -> str: ...

    @property
    def on_expired(self) -> str: ...

    @property
    def on_unreadable(self) -> str: ...

    @property
    def key_of_topics(self) -> str: ...


def fix_for(reader: Reader, excluded: LeftOut, lane: str = "live") -> str:
    """Return what to do about an exclusion from a pipeline, or from a plan of a lane."""
    text = FIXES[excluded.reason]
    if excluded.reason is Reason.EXPIRED and lane != "live":  # it may lie below the cursor
        text = "`on_expired: skip` records the gap and goes on"
    if is_skipped(reader, excluded):
        text = "the next run records the gap and goes on"
    if excluded.reason is Reason.NO_TOPIC and not excluded.numbers:  # it was never read
        text = (
            "create it (`kafka-topics.sh --create --topic {topic} …`), grant DESCRIBE on it, or "
            f"correct `{reader.key_of_topics}`"
        )
    where = {"pipeline": reader.name, "topic": excluded.topic, "partition": excluded.partition}
    return text.format_map({**excluded.numbers, **where})


def is_skipped(reader: Reader, excluded: LeftOut) -> bool:
    """Return whether a run records a gap over what cannot be read, and excludes nothing."""
    policy = {Reason.EXPIRED: reader.on_expired, Reason.UNREADABLE: reader.on_unreadable}
    return policy.get(excluded.reason, "fail") != "fail"


@dataclass(frozen=True)
class Problem(Document):
    """What is excluded, and what to do about it. In JSON it is one object."""

    excluded: LeftOut
    fix: str

    def to_json(self) -> dict[str, Any]:
        return {**self.excluded.to_json(), "fix": self.fix}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Problem:
        return cls(LeftOut.from_json(form), form["fix"])


def with_fix(reader: Reader, excluded: LeftOut, lane: str = "live") -> Problem:
    """Return an exclusion with its fix, as `fix_for` does."""
    return Problem(excluded, fix_for(reader, excluded, lane))


def describe_problems(excluded: Iterable[LeftOut]) -> Iterator[tuple[LeftOut, str]]:
    """Yield the first exclusion of each topic and reason, and a sentence for all of these."""
    alike: dict[tuple[str, Reason], list[LeftOut]] = {}
    for each in excluded:
        alike.setdefault((each.topic, each.reason), []).append(each)
    for (topic, reason), group in alike.items():
        says = str(group[0])
        if len(group) > 1:
            says = f"{topic}: {reason}: partitions {[each.partition for each in group]}"
        yield group[0], says
