"""Flights in a topic, again and again with other keys and values, and the proof of a result."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate_local import flights

TOPIC, PARTITIONS = "flights", 4
Content = Mapping[int, tuple[int, int, int, int]]
"""Partition → rows, first offset, last offset, and the sum of the rows' hashes: in no order."""

_SCHEMA = pa.schema(
    {"key": pa.binary(), "value": pa.binary(), "offset": pa.int64(), "partition": pa.int32()}
)


@dataclass(frozen=True)
class Sent:
    """What the topic holds; `bytes` are those of keys and values."""

    content: Content
    bytes: int


class Void(Exception):
    """A result does not hold what was sent: its time means nothing."""


def load(bootstrap: str, records: int) -> Sent:
    """Fill the topic, which must be new.

    One producer sends each partition in order, so an offset is known before the broker gives it;
    were it another, every result would be void.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
        }
    )
    content: dict[int, tuple[int, int, int, int]] = {}
    size = 0
    rows = islice(_rows(), records)
    while batch := list(islice(rows, 100_000)):
        for key, value, _, partition in batch:
            size += len(key) + len(value)
            _send(producer, key, value, partition)
        table = pa.Table.from_pylist(
            [dict(zip(_SCHEMA.names, row, strict=True)) for row in batch], _SCHEMA
        )
        for partition, found in _content(table).items():
            known = content.get(partition, (0, found[1], 0, 0))
            content[partition] = (known[0] + found[0], known[1], found[2], known[3] + found[3])
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records were not delivered")
    return Sent(content, size)


def check(files: Path, sent: Sent) -> None:
    """Raise Void unless the Parquet files below a directory hold exactly what was sent."""
    # Not by their path: Tidegate has the topic there, a plain write has a column of it.
    found = _content(
        duckdb.sql(f"SELECT * FROM read_parquet('{files}/**/*.parquet', hive_partitioning=false)")
    )
    if found != sent.content:
        raise Void(f"{files} holds {found}, and sent was {sent.content}")


def _content(rows: pa.Table | duckdb.DuckDBPyRelation) -> Content:
    found = duckdb.sql(
        'SELECT "partition", count(*), min("offset"), max("offset"),'
        ' sum(hash("key", "value", "offset", "partition"))'
        " FROM rows GROUP BY ALL"
    ).fetchall()
    return {partition: (n, low, high, int(digest)) for partition, n, low, high, digest in found}


def _rows() -> Iterator[tuple[bytes, bytes, int, int]]:
    """Yield key, value, offset and partition without end, round robin over the partitions."""
    ends: Counter[int] = Counter()
    year = [(flight.key, flight.value) for flight in flights.read()]
    for copy in count():
        for i, (key, value) in enumerate(year):
            partition = i % PARTITIONS
            yield (
                b"%b-%d" % (key, copy),
                b'{"copy":%d,%b' % (copy, value[1:]),
                ends[partition],
                partition,
            )
            ends[partition] += 1


def _send(producer: Producer, key: bytes, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(TOPIC, value, key, partition)
        except BufferError:  # the queue is full: wait for deliveries
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
