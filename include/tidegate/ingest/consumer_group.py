"""The progress group: the ledger's cursors as a consumer group's offsets, for lag monitoring."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document
from tidegate.core.offsets import Offsets
from tidegate.errors import TidegateError
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import IngestSpec
from tidegate.runs.topics import recorded_topics

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GroupDrift(Document):
    """A partition whose offset in the group (`shown`, None without one) is not the ledger's."""

    topic: str
    partition: int
    shown: int | None
    ledger: int


@dataclass(frozen=True)
class ReconciledGroup(Document):
    """What differed in a group. `error` is the reason if the broker or the group refused."""

    name: str
    drifts: tuple[GroupDrift, ...]
    error: str | None


def commit_cursors(spec: IngestSpec, kafka: Kafka, offsets: Offsets) -> None:
    """Commit cursors to the pipeline's group, if it has one. Never raises: logs a warning."""
    if spec.progress_group is None or not offsets:
        return
    try:
        kafka.commit(spec.progress_group, offsets)
    except TidegateError as error:
        logger.warning("%s: group %s: %s", spec.name, spec.progress_group, error)


def reconcile_group(spec: IngestSpec, kafka: Kafka, fold: Fold) -> ReconciledGroup:
    """Commit the cursors if the group differs. Return each partition that did."""
    assert spec.progress_group is not None
    topics = [t for t in recorded_topics(spec, fold).topics if t in fold.topic_ids]
    cursors = {topic: fold.cursors(topic) for topic in topics}
    found: list[GroupDrift] = []
    error = None
    try:
        shown = kafka.committed(spec.progress_group)
        found = [
            GroupDrift(topic, p, shown.get(topic, {}).get(p), cursor)
            for topic, partitions in cursors.items()
            for p, cursor in partitions.items()
            if shown.get(topic, {}).get(p) != cursor
        ]
        if found:
            kafka.commit(spec.progress_group, cursors)
    except TidegateError as refused:
        error = str(refused)
    return ReconciledGroup(spec.progress_group, tuple(found), error)
