"""Manual changes of cursors: show them, move one forward, adopt a recreated topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.broker.cluster import survey
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey
from tidegate.core.entries import Adoption, Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document
from tidegate.core.nearest import did_you_mean
from tidegate.core.partition import fix_for, topic_problem
from tidegate.errors import (
    BeyondEnd,
    ConfigurationError,
    CursorBackward,
    IdentityChanged,
    UnknownTopic,
)
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest
from tidegate.runs import variables
from tidegate.runs.boundary_search import refuse_leaderless
from tidegate.runs.run import Mirror
from tidegate.runs.topics import refuse_another_cluster

FORMAT = 1


ByPartition = Mapping[int, int]
"""Offsets by partition."""


@dataclass(frozen=True)
class TopicCursors(Document):
    """The topic id that the ledger follows, the origin of each partition, and earlier ids."""

    topic_id: str
    origins: ByPartition
    earlier: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Cursors(Document):
    """The cursors after an entry of the ledger (contract: `offsets show --json`)."""

    format: int = FORMAT
    pipeline: str
    entry: int
    offsets: Mapping[str, ByPartition]
    topics: Mapping[str, TopicCursors]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, kw_only=True)
class CursorMove(Document):
    """A cursor before (`was`) and after it was moved, and the entries that record the gap."""

    format: int = FORMAT
    pipeline: str
    topic: str
    partition: int
    was: int
    cursor: int
    entries: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class AdoptedTopic(Document):
    """The topic id before (`was`) and after an adoption. `entry` is None if nothing changed."""

    format: int = FORMAT
    pipeline: str
    topic: str
    was: str
    topic_id: str
    origins: ByPartition
    entry: int | None


def show_cursors(spec: Ingest) -> Cursors:
    """Return the ledger's cursors, and the origin of each partition."""
    fold = _ledger(spec).fold
    topics = sorted(fold.topic_ids.items())
    return Cursors(
        pipeline=spec.name,
        entry=fold.n,
        offsets={topic: _sorted(fold.cursors(topic)) for topic, _ in topics},
        topics={
            topic: TopicCursors(
                topic_id,
                _sorted(fold.origins[topic_id]),
                tuple(fold.earlier_ids.get(topic, ())),
            )
            for topic, topic_id in topics
        },
        gaps=tuple(fold.gaps),
    )


def move(
    spec: Ingest,
    kafka: KafkaCluster,
    mirror: Mirror,
    *,
    topic: str,
    partition: int,
    offset: int,
    reason: str,
    by: str,
    run: str | None = None,
) -> CursorMove:
    """Move a cursor forward. The offsets in between become a gap with a reason, and are not read.

    Raises CursorBackward and BeyondEnd. What is committed between the two offsets stays committed.
    """
    ledger = _ledger(spec)
    topic_id = _topic_id(spec, ledger.fold, topic)
    if partition not in ledger.fold.origins[topic_id]:
        raise _no_origin(spec, kafka, ledger.fold, topic, partition)
    cursor = ledger.fold.progress(topic_id, partition).cursor
    if offset < cursor:
        raise CursorBackward(
            f"pipeline {spec.name!r}: the cursor of {topic}-{partition} is {cursor}; {offset} is "
            "behind it, and the offsets between are in the lake or skipped. To read them again, "
            f"use `tidegate replay {spec.name}`, or the DAG tidegate_replay",
            cursor=cursor,
            offset=offset,
        )
    end = _log_end(spec, kafka, ledger.fold, topic, partition, default=cursor)
    if offset > end:
        raise BeyondEnd(
            f"pipeline {spec.name!r}: {topic}-{partition} ends at {end}; {offset} is beyond it. "
            "Only offsets that exist can be skipped: give at most the end",
            end=end,
            offset=offset,
        )
    entries: list[int] = []
    if offset > cursor:
        gap = Gap(topic, topic_id, partition, cursor, offset, reason, by)
        entries = ledger.skip(gap, run=run or by)
    variables.write_topic(mirror, spec, ledger.fold, topic, partition)
    return CursorMove(
        pipeline=spec.name,
        topic=topic,
        partition=partition,
        was=cursor,
        cursor=ledger.fold.progress(topic_id, partition).cursor,
        entries=tuple(entries),
    )


def adopt(
    spec: Ingest, kafka: KafkaCluster, mirror: Mirror, *, topic: str, reason: str, by: str
) -> AdoptedTopic:
    """Adopt a recreated topic: from now on the ledger follows the new topic id.

    Committed rows stay, under the old id. The new topic begins at its log start. If it was already
    adopted, nothing changes and `entry` is null.
    """
    ledger = _ledger(spec)
    was = _topic_id(spec, ledger.fold, topic)
    seen = _survey(spec, kafka, ledger.fold, topic).only(spec.assign)
    refuse_leaderless(seen, topic)
    topic_id, marks = seen.topic_ids[topic], seen.watermarks[topic]
    entry = None
    if topic_id != was:
        starts = {p: each.start for p, each in marks.items()}
        origin = Origin(topic, topic_id, starts, Adoption(was, reason, by))
        match ledger.append(origin, run=by):
            case Appended(n):
                entry = n
            case _:  # another entry came first, perhaps of a still newer topic id
                return adopt(spec, kafka, mirror, topic=topic, reason=reason, by=by)
    variables.write_topic(mirror, spec, ledger.fold, topic)
    return AdoptedTopic(
        pipeline=spec.name,
        topic=topic,
        was=was,
        topic_id=topic_id,
        origins=_sorted(ledger.fold.origins[topic_id]),
        entry=entry,
    )


def _ledger(spec: Ingest) -> Ledger:
    return Ledger(open_store(spec.lake, spec.name), spec.name)


def _topic_id(spec: Ingest, fold: Fold, topic: str) -> str:
    """Return the topic id that the ledger follows. ConfigurationError if it has none."""
    if topic not in fold.topic_ids:
        known = ", ".join(sorted(fold.topic_ids)) or "none"
        raise ConfigurationError(
            f"pipeline {spec.name!r} has not read any topic {topic!r} yet"
            f"{did_you_mean(topic, fold.topic_ids)}; its ledger knows: {known}. To choose where a "
            "topic begins, set `start` in the pipeline file"
        )
    return fold.topic_ids[topic]


def _no_origin(
    spec: Ingest, kafka: KafkaCluster, fold: Fold, topic: str, partition: int
) -> ConfigurationError:
    """Return the refusal of a partition that no run has read: why it has no origin."""
    existing = _survey(spec, kafka, fold, topic).identities[topic].epochs
    where = f"pipeline {spec.name!r}"
    if partition not in existing:
        return ConfigurationError(
            f"{where}: {topic!r} has no partition {partition}; it has 0 to {max(existing)}"
        )
    if partition not in (spec.partitions_of(topic) or existing):
        return ConfigurationError(
            f"{where}: partition {partition} of {topic!r} is not assigned: no run reads it"
        )
    return ConfigurationError(
        f"{where}: partition {partition} of {topic!r} has no origin yet; there are "
        f"{sorted(fold.origins[fold.topic_ids[topic]])}. The next run gives a new one its origin"
    )


def _log_end(
    spec: Ingest, kafka: KafkaCluster, fold: Fold, topic: str, partition: int, *, default: int
) -> int:
    """Return the end of a partition's log, or `default` if the broker shows none.

    Raises IdentityChanged if the topic was recreated.
    """
    topic_id = fold.topic_ids[topic]
    seen = _survey(spec, kafka, fold, topic)
    # `refuse_leaderless` asks only for the partition that is moved.
    if problem := topic_problem(topic, topic_id, seen.state(topic)):
        raise IdentityChanged(
            f"pipeline {spec.name!r}: {problem}: {fix_for(spec, problem)}",
            was=topic_id,
            now=seen.topic_ids[topic],
        )
    refuse_leaderless(seen, topic, [partition])
    marks = seen.watermarks[topic].get(partition)
    return marks.end if marks else default


def _survey(spec: Ingest, kafka: KafkaCluster, fold: Fold, topic: str) -> Survey:
    seen = survey(kafka, [topic], spec.isolation)
    refuse_another_cluster(spec, kafka, fold, seen.cluster_id)
    if topic not in seen.topic_ids:
        raise UnknownTopic(
            f"pipeline {spec.name!r}: Kafka at {kafka.bootstrap_servers} has no topic {topic!r}, "
            "or this user may not DESCRIBE it",
            topics=[topic],
        )
    return seen


def _sorted(offsets: ByPartition) -> ByPartition:
    return dict(sorted(offsets.items()))
