"""When the oldest open transaction began, which hides all records behind its first one."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.retention import first_timestamps
from tidegate.core.cursor import Watermarks
from tidegate.errors import TidegateError

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
    coordinator knows the start, too, but not of a hanging transaction, which it has forgotten; and
    it answers only users who may DESCRIBE the transactional id.) Missing are those whose record
    has no timestamp or cannot be read within `patience` seconds for all.
    """
    hidden = {
        (topic, p): m.end
        for topic, marks in watermarks.items()
        for p, m in marks.items()
        if m.end < m.high
    }
    try:
        return first_timestamps(settings, hidden, "read_uncommitted", patience)
    except TidegateError as error:
        logger.warning("the start of open transactions is not known: %s", error)
        return {}
