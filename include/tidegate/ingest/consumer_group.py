"""The progress group: the ledger's cursors as a consumer group's offsets, for lag monitoring."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tidegate.core.fold import Fold
from tidegate.core.offsets import Offsets
from tidegate.errors import TidegateError
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import IngestSpec
from tidegate.runs.topics import recorded_topics

logger = logging.getLogger(__name__)


def commit_cursors(spec: IngestSpec, kafka: Kafka, offsets: Offsets) -> None:
    """Commit cursors to the pipeline's group, if it has one. Never raises: logs a warning."""
    if spec.progress_group is None or not offsets:
        return
    try:
        kafka.commit(spec.progress_group, offsets)
    except TidegateError as error:
        logger.warning("%s: group %s: %s", spec.name, spec.progress_group, error)


def reconcile_group(spec: IngestSpec, kafka: Kafka, fold: Fold) -> dict[str, Any]:
    """Commit the cursors if the group differs. Return each partition that did.

    `error` is the reason if the broker or the group refused.
    """
    assert spec.progress_group is not None
    topics = [t for t in recorded_topics(spec, fold).topics if t in fold.topic_ids]
    cursors = {topic: fold.cursors(topic) for topic in topics}
    found: list[Mapping[str, Any]] = []
    error = None
    try:
        shown = kafka.committed(spec.progress_group)
        found = [
            {
                "topic": topic,
                "partition": p,
                "shown": shown.get(topic, {}).get(p),
                "ledger": cursor,
            }
            for topic, partitions in cursors.items()
            for p, cursor in partitions.items()
            if shown.get(topic, {}).get(p) != cursor
        ]
        if found:
            kafka.commit(spec.progress_group, cursors)
    except TidegateError as refused:
        error = str(refused)
    return {"name": spec.progress_group, "drifts": found, "error": error}
