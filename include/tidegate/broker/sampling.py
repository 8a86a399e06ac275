"""An estimate of how large the records of a range are, from its beginning and its middle."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.consumer import first_batches
from tidegate.core.offsets import OffsetRange
from tidegate.errors import TidegateError

_FETCHED = 256 * 1024  # bytes per partition and sample
_ROW = 32  # bytes: offset, partition, timestamp and the rest of a row

logger = logging.getLogger(__name__)


def largest_mean_size(
    settings: KafkaSettings, ranges: Sequence[OffsetRange], isolation: str, *, patience: float = 2.0
) -> float | None:
    """Return the mean bytes of a record, uncompressed, of the range whose records are largest.

    None if nothing could be read within `patience` seconds for each of the two samples: it is an
    estimate, and no reason to fail.
    """
    sizes = [0.0]
    beginning = {(r.topic, r.partition): r.start for r in ranges}
    middle = {(r.topic, r.partition): (r.start + r.end) // 2 for r in ranges}
    try:
        for starts in (beginning, middle):
            means = first_batches(
                settings, starts, isolation, _mean_size, patience=patience, fetch_bytes=_FETCHED
            )
            sizes += means.values()
    except TidegateError as error:
        logger.warning("the size of records could not be sampled: %s", error)
    return max(sizes) or None


def _mean_size(records: list[Any]) -> float:
    return sum(map(_size, records)) / len(records)


def _size(record: Any) -> int:
    parts = [record.key, record.value, *(part for header in record.headers for part in header)]
    return _ROW + sum(len(part) for part in parts if part is not None)
