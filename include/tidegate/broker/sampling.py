"""How large the records of a range are: a look at its beginning and its middle."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import OffsetRange

_FETCHED = 256 * 1024  # bytes per partition and look; one larger record is fetched all the same
_ROW = 32  # bytes: offset, partition, timestamp and what a row costs besides

logger = logging.getLogger(__name__)


def largest_mean_size(
    settings: KafkaSettings, ranges: Sequence[OffsetRange], isolation: str, *, patience: float = 2.0
) -> float | None:
    """Return the mean bytes of a record, uncompressed, of the range whose records are largest.

    None where nothing could be read within `patience` seconds for each of the two looks: it is an
    estimate, and no reason to fail.
    """
    found = [0.0]
    beginning = {TopicPartition(r.topic, r.partition): r.start for r in ranges}
    middle = {TopicPartition(r.topic, r.partition): (r.start + r.end) // 2 for r in ranges}
    try:
        for places in (beginning, middle):
            consumer = KafkaConsumer(
                **settings.for_python(),
                isolation_level=isolation,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                max_partition_fetch_bytes=_FETCHED,
            )
            try:
                found += _mean_sizes(consumer, places, patience)
            finally:
                consumer.close()
    except kafka_errors.KafkaError as error:
        logger.warning("the size of records could not be sampled: %s", error)
    return max(found) or None


def _mean_sizes(
    consumer: KafkaConsumer, places: dict[TopicPartition, int], patience: float
) -> list[float]:
    consumer.assign(list(places))
    for partition, offset in places.items():
        consumer.seek(partition, offset)
    means, until = [], time.monotonic() + patience
    while places and time.monotonic() < until:
        for partition, records in consumer.poll(timeout_ms=200).items():
            if places.pop(partition, None) is not None and records:
                means.append(sum(map(_size, records)) / len(records))
    return means


def _size(record: object) -> int:
    headers = getattr(record, "headers", ())
    parts = [getattr(record, "key", None), getattr(record, "value", None)]
    parts += [part for header in headers for part in header]
    return _ROW + sum(len(part) for part in parts if part is not None)
