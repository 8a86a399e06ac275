"""Finding the records that Spark cannot read, by the broker's time index and a consumer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tidegate.broker.records import Reader, reading
from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable import Scan, Unreadable, is_readable, scanned
from tidegate.errors import BrokerError

MOST_OFFSETS = 5_000_000
"""Offsets of one range that are read by one plan; the next plan goes on behind them."""
MOST_GAPS = 100
"""Unreadable stretches of one range in one plan: each makes a gap, a range and so a chunk."""

logger = logging.getLogger(__name__)


def find(
    settings: KafkaSettings,
    ranges: Iterable[OffsetRange],
    isolation: str,
    too_late: Mapping[str, Mapping[int, int]],
    *,
    first_only: bool,
) -> dict[OffsetRange, Scan]:
    """Return a scan of each range of a log that holds unreadable records; mostly there is none.

    `too_late` is what the broker told: only what follows these offsets is read. `first_only` stops
    at the first visible one.
    """
    parts = {
        r: part
        for r in ranges
        if (part := scanned(r, too_late.get(r.topic, {}).get(r.partition))) is not None
    }
    if not parts:
        return {}
    with reading(settings) as read:
        return {r: _scan(read, part, isolation, first_only) for r, part in parts.items()}


def _scan(read: Reader, part: OffsetRange, isolation: str, first_only: bool) -> Scan:
    end = min(part.end, part.start + MOST_OFFSETS)
    found: list[Unreadable] = []
    at, gaps = part.start, 0
    try:
        for record in read(OffsetRange(part.topic, part.partition, part.start, end), isolation):
            at = record.offset + 1
            if is_readable(record.timestamp):
                continue
            if not found or found[-1].offset + 1 < record.offset:
                gaps += 1
                if gaps > MOST_GAPS:
                    end = record.offset
                    break
            found.append(Unreadable(record.offset, record.timestamp))
            logger.warning(
                "%s-%d offset %d: Spark cannot convert its timestamp %d (ms since the epoch)",
                part.topic, part.partition, record.offset, record.timestamp,
            )  # fmt: skip
            if first_only:
                break
    except BrokerError as error:
        return Scan(at, tuple(found), str(error))
    return Scan(end, tuple(found))
