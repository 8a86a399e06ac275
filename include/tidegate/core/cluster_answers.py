"""What a Kafka cluster answers: surveys of topics and targets, records, probes of holes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import TopicState

_UNKNOWN = re.compile("\ufffd+")


@dataclass(frozen=True)
class TopicIdentity:
    """A topic's id, each partition's leader epoch, and the partitions that now have no leader.

    `readable`: this user may READ it, or the broker does not say.
    """

    topic_id: str
    epochs: Mapping[int, int]
    leaderless: frozenset[int] = frozenset()
    readable: bool = True


@dataclass(frozen=True)
class Survey:
    """The state of some topics of a cluster. Topics that do not exist, or are hidden, are missing.

    Partitions without a leader have no watermarks. Each epoch came with the answer that holds the
    partition's end: nothing below that end was written under a later one. `too_late` has, for
    partitions with such a record, the first offset whose timestamp Spark cannot convert.
    """

    cluster_id: str
    identities: Mapping[str, TopicIdentity]
    watermarks: Mapping[str, Mapping[int, Watermarks]]
    too_late: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def topic_ids(self) -> dict[str, str]:
        return {topic: each.topic_id for topic, each in self.identities.items()}

    @property
    def leaderless(self) -> dict[str, list[int]]:
        """The partitions without a leader, of topics that have any."""
        topics = self.identities.items()
        return {name: sorted(topic.leaderless) for name, topic in topics if topic.leaderless}

    def state(
        self,
        topic: str,
        assigned: Mapping[str, Collection[int]] | None = None,
        cuts: Mapping[tuple[str, int], int] | None = None,
    ) -> TopicState:
        """Return what the judge of partitions asks of a topic: of those that are `assigned`.

        `cuts` are the offsets at which logs were truncated below their cursors.
        """
        if topic not in self.identities:
            return TopicState()
        found = TopicState(
            self.identities[topic].topic_id,
            self.watermarks.get(topic, {}),
            self.identities[topic].leaderless,
            {p: cut for (name, p), cut in (cuts or {}).items() if name == topic},
            self.too_late.get(topic, {}),
        )
        return found.only(None if assigned is None else assigned.get(topic, ()))

    def only(self, partitions: Mapping[str, Collection[int]] | None) -> Survey:
        """Return the survey of these partitions alone, by topic; for None, of all."""
        if partitions is None:
            return self
        chosen = {topic: frozenset(partitions.get(topic, ())) for topic in self.identities}
        return replace(
            self,
            identities={
                topic: replace(each, leaderless=each.leaderless & chosen[topic])
                for topic, each in self.identities.items()
            },
            watermarks={
                topic: {p: m for p, m in marks.items() if p in chosen[topic]}
                for topic, marks in self.watermarks.items()
            },
            too_late={
                topic: {p: offset for p, offset in offsets.items() if p in chosen[topic]}
                for topic, offsets in self.too_late.items()
            },
        )


class TimeLimits(NamedTuple):
    """How far a record's timestamp may be `before` and `after` the broker's clock, and for how long
    after it a record is retained. In milliseconds, None without a limit. As times since the epoch
    they are the earliest and latest timestamps.
    """

    before: int | None = None
    after: int | None = None
    retention: int | None = None


NO_LIMITS = TimeLimits()


@dataclass(frozen=True)
class TargetState:
    """One topic: `ends` are high watermarks, `largest` the most bytes of a batch.

    In a `compacted` topic an older record of a key may be removed at any time. `topic_id` is empty
    if the topic does not exist yet. `compression` is the codec that brokers store records with.
    `producer`: the producer's. `sets_time`: brokers replace the timestamps of records.
    """

    topic_id: str
    ends: Mapping[int, int]
    largest: int
    compacted: bool
    compression: str = "producer"
    sets_time: bool = False
    times: TimeLimits = NO_LIMITS

    @property
    def partitions(self) -> int:
        return len(self.ends)


@dataclass(frozen=True)
class TargetSurvey:
    """The target topics of a cluster."""

    cluster_id: str
    topics: Mapping[str, TargetState]


class Record(NamedTuple):
    """One record as a consumer sees it. `timestamp` in milliseconds since the epoch."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


Reader = Callable[[OffsetRange, str], Iterator[Record]]
"""Yields the visible records of a range under an isolation. One range at a time."""


@dataclass(frozen=True)
class Probe:
    """What a consumer found in a hole. `unprovable` if the broker no longer has its offsets."""

    hole: OffsetRange
    outcome: Literal["empty", "visible", "unprovable"]
    offset: int | None = None  # of the first visible record


class NotUtf8(str):
    """A header's key, with U+FFFD for bytes that are not UTF-8."""

    __slots__ = ()


def are_equal(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether keys are the same. Java and Python differ in how many U+FFFD they write."""
    return [*map(_folded, one)] == [*map(_folded, other)]


def _folded(key: str) -> str:
    return _UNKNOWN.sub("\ufffd", key)


def iso(timestamp_ms: int | None) -> str | None:
    """Return a timestamp in epoch ms as text. None for none, or for one beyond the year 9999."""
    try:
        if timestamp_ms is None:
            return None
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):
        return None
