"""Reading records with a consumer of its own, which shares nothing with Spark's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecordBatch

from tidegate.broker import bootstrap_servers
from tidegate.broker.client_errors import connection_errors, request_errors
from tidegate.broker.client_settings import KafkaSettings
from tidegate.core.cluster_answers import NotUtf8, Probe, Reader, Record
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError

T = TypeVar("T")
_READ = "READ on the topic"
_POLL_MS = 200


@contextmanager
def open_reader(settings: KafkaSettings, *, patience: float = 30.0) -> Iterator[Reader]:
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


def probe_holes(
    settings: KafkaSettings, holes: Iterable[OffsetRange], isolation: str, *, patience: float = 10.0
) -> list[Probe]:
    """Return what is in each hole. BrokerError if a consumer makes no progress.

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
    memory_records.DefaultRecordBatch = _Batch  # of all consumers of this process
    with connection_errors(settings):
        consumer = KafkaConsumer(
            **{
                "auto_offset_reset": "earliest",
                **options,
                **settings.for_python(),
                **bootstrap_servers.bootstrap_arguments(settings),
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


class _Bytes(bytes):
    """The content of a batch, whose slices are decoded without an error."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Bytes(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", _: str = "strict") -> str:
        try:
            return super().decode(encoding)
        except UnicodeDecodeError:
            return NotUtf8(super().decode(encoding, "replace"))


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch whose header keys need not be UTF-8: producers in Go and C write what they are given.

    kafka-python refuses the whole batch as corrupt, and nothing is: Spark, as every Java consumer,
    reads U+FFFD in place of such bytes.
    """

    _buffer: Any

    def _read_msg(self, *args: Any, **options: Any) -> Any:
        try:
            return super()._read_msg(*args, **options)
        except UnicodeDecodeError:
            self._buffer = _Bytes(self._buffer)
            return super()._read_msg(*args, **options)
