"""Truncated logs: the broker lost records that were read, detected by leader epochs.

A manifest contains the leader epochs at which its rows were proven. A later leader that did not
have all of these records, as after an unclean election, began its epoch below them. A leader that
had them began its epoch at or above them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidegate.core.cluster_answers import Survey
from tidegate.core.entries import Commit
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import TopicState
from tidegate.lake import attempts
from tidegate.lake.store_protocol import Store
from tidegate.runs.kafka_protocol import Kafka

Partitions = Mapping[tuple[str, int], int]
"""A number by topic and partition."""


def topic_states(
    kafka: Kafka,
    store: Store,
    fold: Fold,
    seen: Survey,
    topics: Iterable[str],
    assigned: Mapping[str, Collection[int]] | None,
) -> dict[str, TopicState]:
    """Return the state of each topic, by a survey and by where its logs were truncated since."""
    names = list(topics)
    cuts = below_cursors(kafka, store, fold, seen.only(assigned), names)
    return {topic: seen.state(topic, assigned, cuts) for topic in names}


def below_cursors(
    kafka: Kafka, store: Store, fold: Fold, seen: Survey, topics: Iterable[str]
) -> dict[tuple[str, int], int]:
    """Return the offsets at which logs were truncated below their cursors, by topic and partition.

    The epochs are those of the newest commit that contains the offset before the cursor. A
    partition whose cursor is at the end of a gap is not checked: the gap accepts the loss.
    """
    cursors = {
        (topic, p): cursor
        for topic in topics
        if topic in fold.topic_ids and fold.topic_ids[topic] == seen.topic_ids.get(topic)
        for p, cursor in fold.cursors(topic).items()
        if p in seen.watermarks[topic]
    }
    return {
        key: end
        for key, end in _cut(kafka, seen, _sealed_epochs(store, fold, cursors)).items()
        if end < cursors[key]
    }


def truncated_since(
    kafka: Kafka, epochs: Partitions, seen: Survey, ranges: Iterable[OffsetRange]
) -> dict[OffsetRange, int]:
    """Return the ranges whose log was truncated since these epochs, and the offset of the cut."""
    checked = list(ranges)
    keys = {(r.topic, r.partition) for r in checked}
    ends = _cut(kafka, seen, {key: epoch for key, epoch in epochs.items() if key in keys})
    return {
        r: end
        for r in checked
        if (end := ends.get((r.topic, r.partition))) is not None and end < r.end
    }


def _cut(kafka: Kafka, seen: Survey, epochs: Partitions) -> dict[tuple[str, int], int]:
    """Return the end offsets of epochs that have ended. Within an epoch, a log only grows."""
    ended = {
        (topic, p): epoch
        for (topic, p), epoch in epochs.items()
        if seen.identities[topic].epochs.get(p) != epoch
    }
    return dict(kafka.epoch_ends(ended))


def survey_epochs(seen: Survey) -> dict[tuple[str, int], int]:
    """Return the leader epochs of a survey."""
    return {
        (t, p): epoch for t, each in seen.identities.items() for p, epoch in each.epochs.items()
    }


def _sealed_epochs(store: Store, fold: Fold, cursors: Partitions) -> dict[tuple[str, int], int]:
    """Return the epoch at which the commit below each cursor was proven, if known."""
    wanted = {}
    for (topic, p), cursor in cursors.items():
        key = fold.topic_ids[topic], p
        if fold.covered[key].within(cursor - 1, cursor):  # else a gap ends there
            wanted[key] = topic, p
    last: dict[tuple[str, int], int] = {}  # the commit below each cursor
    proven: dict[int, Commit] = {}
    for n in sorted(fold.live, reverse=True):
        if not wanted:
            break
        commit = fold.live[n]
        for topic_id, r in commit.ranges:
            partition = wanted.get((topic_id, r.partition))
            if partition is None or not r.start < cursors[partition] <= r.end:
                continue
            if not fold.holds(n, topic_id, r.partition, cursors[partition] - 1):
                continue
            del wanted[topic_id, r.partition]
            last[partition], proven[n] = n, commit
    read = store.each(lambda commit: attempts.proven_epochs(store, commit), proven.values())
    epochs = dict(zip(proven, read, strict=True))
    return {
        partition: epochs[n][partition] for partition, n in last.items() if partition in epochs[n]
    }
