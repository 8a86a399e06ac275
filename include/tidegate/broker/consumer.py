"""Reading records row by row with an independent consumer, for verification only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError


class Record(NamedTuple):
    """One record as a consumer sees it; `timestamp` in milliseconds since the epoch."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


Reader = Callable[[OffsetRange, str], Iterator[Record]]
"""Yields the visible records of a range under an isolation; one range at a time."""


@contextmanager
def reading(settings: KafkaSettings, *, patience: float = 30.0) -> Iterator[Reader]:
    """Give a reader with one consumer for each isolation.

    It raises BrokerError after `patience` seconds without progress. An expired part is passed over:
    who compares must look at the log start.
    """
    consumers: dict[str, Any] = {}

    def records(r: OffsetRange, isolation: str) -> Iterator[Record]:
        if not len(r):
            return
        try:
            if isolation not in consumers:
                consumers[isolation] = _consumer(settings, isolation)
            yield from _records(consumers[isolation], r, patience)
        except kafka_errors.KafkaError as error:
            raise BrokerError(f"{r}: {error}") from error

    try:
        yield records
    finally:
        for consumer in consumers.values():
            consumer.close()


def _consumer(settings: KafkaSettings, isolation: str) -> Any:
    return KafkaConsumer(
        **settings.for_python(),
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=16 * 1024 * 1024,
    )


def _records(consumer: Any, r: OffsetRange, patience: float) -> Iterator[Record]:
    partition = TopicPartition(r.topic, r.partition)
    consumer.assign([partition])
    consumer.seek(partition, r.start)
    at, give_up = r.start, time.monotonic() + patience
    while at < r.end:
        for record in consumer.poll(timeout_ms=500, max_records=10_000).get(partition, []):
            if record.offset >= r.end:
                return
            yield Record(
                record.offset,
                record.key,
                record.value,
                record.timestamp,
                record.timestamp_type,
                tuple(record.headers),
            )
        position = consumer.position(partition)
        if position > at:
            at, give_up = position, time.monotonic() + patience
        elif time.monotonic() > give_up:
            raise BrokerError(f"{r}: no progress past offset {at} in {patience:.0f} s")
