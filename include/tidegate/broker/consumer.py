"""Reading records with a consumer of its own, which shares nothing with Spark's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from tidegate.broker import bootstrap_servers, header_keys
from tidegate.broker.client_errors import connection_errors, request_errors
from tidegate.broker.client_settings import KafkaSettings
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError

T = TypeVar("T")
_READ = "READ on the topic"
_POLL_MS = 200


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


@dataclass(frozen=True)
class Probe:
    """What a consumer found in a hole; `unprovable` if the broker no longer has its offsets."""

    hole: OffsetRange
    outcome: Literal["empty", "visible", "unprovable"]
    offset: int | None = None  # of the first visible record


@contextmanager
def reading(settings: KafkaSettings, *, patience: float = 30.0) -> Iterator[Reader]:
    """Give a reader with one consumer for each isolation.

    It raises BrokerError after `patience` seconds without progress. Expired offsets are passed
    over without an error: a caller that compares must look at the log start.
    """
    consumers: dict[str, Any] = {}
    with ExitStack() as opened:

        def records(r: OffsetRange, isolation: str) -> Iterator[Record]:
            if not len(r):
                return
            if isolation not in consumers:
                consumers[isolation] = opened.enter_context(
                    _consumer(settings, isolation, max_partition_fetch_bytes=16 * 1024 * 1024)
                )
            with request_errors(settings, _READ):
                yield from map(_record, _records(consumers[isolation], r, patience, most=10_000))

        yield records


def _record(of: Any) -> Record:
    headers = tuple(of.headers)
    return Record(of.offset, of.key, of.value, of.timestamp, of.timestamp_type, headers)


def probe(
    settings: KafkaSettings, holes: Iterable[OffsetRange], isolation: str, *, patience: float = 10.0
) -> list[Probe]:
    """Return what is in each hole; BrokerError if a consumer makes no progress.

    A hole is empty only when the consumer's position has passed its end, or its first record does.
    `patience` is how many seconds a position may stand still: a large aborted transaction takes as
    long as its bytes take to arrive. The consumer skips its batches by the broker's list of
    aborted transactions, which comes with each answer.
    """
    with (
        _consumer(settings, isolation, auto_offset_reset="none") as consumer,
        request_errors(settings, _READ),
    ):
        return [_probe_one(consumer, hole, patience) for hole in holes]


def _probe_one(consumer: Any, hole: OffsetRange, patience: float) -> Probe:
    try:
        first = next(_records(consumer, hole, patience, most=1), None)
    except kafka_errors.OffsetOutOfRangeError:
        return Probe(hole, "unprovable")
    return Probe(hole, "empty") if first is None else Probe(hole, "visible", first.offset)


def first_batches(
    settings: KafkaSettings,
    starts: Mapping[tuple[str, int], int],
    isolation: str,
    measure: Callable[[list[Any]], T],
    *,
    patience: float,
    fetch_bytes: int,
) -> dict[tuple[str, int], T]:
    """Return, by (topic, partition), a measure of the first visible records from an offset on.

    Partitions without a record within `patience` seconds for all of them are missing. One batch is
    always fetched, even if it is larger than `fetch_bytes`.
    """
    if not starts:
        return {}
    measures: dict[tuple[str, int], T] = {}
    with (
        _consumer(settings, isolation, max_partition_fetch_bytes=fetch_bytes) as consumer,
        request_errors(settings, _READ),
    ):
        consumer.assign([TopicPartition(*key) for key in starts])
        for key, offset in starts.items():
            consumer.seek(TopicPartition(*key), offset)
        give_up = time.monotonic() + patience
        while len(measures) < len(starts) and time.monotonic() < give_up:
            for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                measures.setdefault((partition.topic, partition.partition), measure(records))
                consumer.pause(partition)
    return measures


@contextmanager
def _consumer(settings: KafkaSettings, isolation: str, **options: Any) -> Iterator[Any]:
    header_keys.read_leniently()
    with connection_errors(settings):
        consumer = KafkaConsumer(
            **{
                "auto_offset_reset": "earliest",
                **options,
                **settings.for_python(),
                **bootstrap_servers.arguments(settings),
            },
            isolation_level=isolation,
            enable_auto_commit=False,
        )
    try:
        yield consumer
    finally:
        consumer.close()


def _records(consumer: Any, r: OffsetRange, patience: float, *, most: int) -> Iterator[Any]:
    """Yield the visible records of a range, polling at most `most` at once."""
    partition = TopicPartition(r.topic, r.partition)
    consumer.assign([partition])
    consumer.seek(partition, r.start)
    at, give_up = r.start, time.monotonic() + patience
    while at < r.end:
        for record in consumer.poll(timeout_ms=_POLL_MS, max_records=most).get(partition, []):
            if record.offset >= r.end:
                return
            yield record
        position = consumer.position(partition)
        if position > at:
            at, give_up = position, time.monotonic() + patience
        elif time.monotonic() >= give_up:
            raise BrokerError(
                f"{r}: no progress past offset {at} in {patience:.0f} s, so nobody knows whether "
                "it holds a record; try again",
                position=at,
            )
