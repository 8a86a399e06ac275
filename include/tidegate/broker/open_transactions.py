"""Since when a transaction has been open, which hides all that is behind its first record."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka import errors as kafka_errors

from tidegate.broker.retention import first_timestamps
from tidegate.broker.settings import KafkaSettings
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange

logger = logging.getLogger(__name__)


def open_since(
    settings: KafkaSettings,
    watermarks: Mapping[str, Mapping[int, Watermarks]],
    *,
    patience: float = 3.0,
) -> dict[tuple[str, int], int]:
    """Return when the oldest open transaction of each partition began, in ms since the epoch.

    By (topic, partition), where the last stable offset is below the high watermark. It is the
    timestamp of the record at the last stable offset, which is that transaction's first. (The
    coordinator knows the start, too, but not of a transaction that hangs because it has forgotten
    it; and it tells only those who may DESCRIBE the transactional id.) Missing are those whose
    record has no timestamp or cannot be read within `patience` seconds for all.
    """
    hidden = [
        OffsetRange(topic, p, m.end, m.high)
        for topic, marks in watermarks.items()
        for p, m in marks.items()
        if m.end < m.high
    ]
    try:
        found = first_timestamps(settings, hidden, "read_uncommitted", patience)
    except (kafka_errors.KafkaError, OSError, ValueError) as error:
        logger.warning("open since when is not known: %s", error or type(error).__name__)
        return {}
    return {key: timestamp for key, timestamp in found.items() if timestamp >= 0}
