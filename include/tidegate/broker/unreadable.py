"""The records of ranges that Spark cannot read, found by the time index and a consumer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.consumer import open_reader
from tidegate.core.cluster_answers import Reader
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable_records import Scan, Unreadable, is_readable, range_to_scan
from tidegate.errors import TidegateError

MOST_OFFSETS = 5_000_000
"""The most offsets of one range that one plan examines. The next plan continues behind them."""
MOST_GAPS = 100
"""The most unreadable runs of offsets in one range of a plan: each makes a gap and a chunk."""

logger = logging.getLogger(__name__)


def scan_unreadable(
    settings: KafkaSettings,
    ranges: Iterable[OffsetRange],
    isolation: str,
    too_late: Mapping[str, Mapping[int, int]],
    *,
    first_only: bool,
) -> dict[OffsetRange, Scan]:
    """Return a scan of each range that may hold unreadable records: of most, nothing.

    `too_late` is the survey's: only records from these offsets on are read. With `first_only` a
    scan ends at the first unreadable record.
    """
    parts = {
        r: part
        for r in ranges
        if (part := range_to_scan(r, too_late.get(r.topic, {}).get(r.partition))) is not None
    }
    if not parts:
        return {}
    with open_reader(settings) as read:
        return {r: _scan(read, part, isolation, first_only) for r, part in parts.items()}


def _scan(read: Reader, part: OffsetRange, isolation: str, first_only: bool) -> Scan:
    end = min(part.end, part.start + MOST_OFFSETS)
    first: Unreadable | None = None
    spans: list[tuple[int, int]] = []
    at, problem = part.start, None
    try:
        for record in read(OffsetRange(part.topic, part.partition, part.start, end), isolation):
            at = record.offset + 1
            if is_readable(record.timestamp):
                continue
            first = first or Unreadable(record.offset, record.timestamp)
            if spans and spans[-1][1] == record.offset:  # a producer may make nothing else
                spans[-1] = (spans[-1][0], at)
                continue
            if len(spans) == MOST_GAPS:
                end = record.offset
                break
            spans.append((record.offset, at))
            logger.warning(
                "%s-%d offset %d: Spark cannot convert its timestamp %d (ms since the epoch)",
                part.topic, part.partition, record.offset, record.timestamp,
            )  # fmt: skip
            if first_only:
                break
    except TidegateError as error:
        end, problem = at, str(error)
    return Scan(end, Intervals.of(spans), first, problem)
