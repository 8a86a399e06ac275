"""Topics full of records, and what an independent client reads from them."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BATCH = 50_000
TRANSACTION = 5_000
SILENCE = 60  # seconds
COMPACTION = 120  # seconds to wait for it
_PARTITIONS = 2_000  # made by a request: a controller has a limit
_KEY = 20
_MARCH = 20_513  # days from 1970 to 1 March 2026
TEXTS = ("carrier", "origin", "dest", "tail", "note")
"""The fields of objects beside `n`."""
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()),
        ("partition", pa.int32()), ("offset", pa.int64()),
    ]
)  # fmt: skip
_DDL = ", ".join(["n BIGINT", "flown DATE", *(f"{name} STRING" for name in TEXTS)])
SCHEMAS = {
    "json": _DDL,
    "csv": _DDL,
    "avro": json.dumps(
        {
            "type": "record",
            "name": "flight",
            "fields": [
                {"name": "n", "type": "long"},
                {"name": "flown", "type": {"type": "int", "logicalType": "date"}},
                *({"name": name, "type": "string"} for name in TEXTS),
            ],
        }
    ),
}
"""The columns of each format."""
Content = Mapping[tuple[str, int], tuple[int, int, int, int]]
"""(topic, partition) → rows, first offset, last offset, and the sum of the rows' hashes."""


@dataclass(frozen=True)
class Shape:
    """Topics with equal shares of `records` of `size` bytes, key included.

    Values compress to about a third, as JSON does; with a `format`, json, csv or avro, they are of
    it, with `n`, texts and a date: ten days in turn, and one in twenty records is ten days late.
    `skew`: nine of ten records are in partition 0. `compacted`: each key occurs twice. `aborted`:
    beside every four committed transactions there is an aborted one, whose records are on top of
    `records`.
    """

    records: int
    size: int = 1_000
    topics: int = 1
    partitions: int = 8
    skew: bool = False
    compacted: bool = False
    aborted: bool = False
    format: str = ""

    def scaled(self, scale: float) -> "Shape":
        """Return the shape with so many times its records."""
        return replace(self, records=max(self.topics, int(self.records * scale)))


@dataclass(frozen=True)
class Sent:
    """What topics hold, as a client that is none of the contenders' reads it."""

    topics: tuple[str, ...]
    content: Content

    @property
    def rows(self) -> int:
        return sum(rows for rows, *_ in self.content.values())


class Void(Exception):
    """A result does not hold what was sent: its time means nothing."""


def load(bootstrap: str, prefix: str, shape: Shape) -> Sent:
    """Create and fill topics, and read them back."""
    topics = create(bootstrap, prefix, shape)
    sent = Sent(topics, read(bootstrap, topics))
    until = time.monotonic() + COMPACTION
    while shape.compacted and sent.rows > 0.6 * shape.records:
        if time.monotonic() > until:
            raise Void(f"{topics[0]} was not compacted within {COMPACTION} s")
        time.sleep(2)
        sent = Sent(topics, read(bootstrap, topics))
    if not shape.compacted and sent.rows != shape.records:
        raise Void(f"{shape.records} records were sent, {sent.rows} are there")
    return sent


def create(bootstrap: str, prefix: str, shape: Shape) -> tuple[str, ...]:
    """Create the topics `<prefix>-0000` and so on, and fill them; return their names."""
    topics = tuple(f"{prefix}-{number:04d}" for number in range(shape.topics))
    config = {}
    if shape.compacted:
        segment = max(1 << 20, shape.records * shape.size // (20 * shape.partitions))
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.bytes": str(segment),
        }
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(topic, shape.partitions, 1, config=config) for topic in topics]
    at_once = max(1, _PARTITIONS // shape.partitions)
    for start in range(0, len(new), at_once):
        asked = admin.create_topics(new[start : start + at_once], request_timeout=300)
        for done in asked.values():
            done.result(300)
    _fill(bootstrap, topics, shape)
    return topics


def read(bootstrap: str, topics: Sequence[str]) -> Content:
    """Return what the topics hold up to their ends, by an independent client, read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "oracle", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True,
        }
    )  # fmt: skip
    known = consumer.list_topics(timeout=30).topics
    places = [TopicPartition(t, p, 0) for t in topics for p in known[t].partitions]
    consumer.assign(places)
    content: dict[tuple[str, int], tuple[int, int, int, int]] = {}
    unread, rows, until = len(places), [], time.monotonic() + SILENCE
    while unread:
        messages = consumer.consume(10_000, timeout=0.1)  # it waits for so many
        if messages:
            until = time.monotonic() + SILENCE
        elif time.monotonic() > until:
            raise Void(f"{topics[0]}: the broker sends no more, and {unread} partitions are open")
        for message in messages:
            if message.error():
                unread -= 1  # it is the end of a partition
            else:
                place = message.partition(), message.offset()
                rows.append((message.topic(), message.key(), message.value(), *place))
        if rows and (len(rows) >= BATCH or not unread):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
            _add(content, _content(pa.table(arrays, schema=_SCHEMA)))
            rows = []
    consumer.close()
    return content


def check(files: Path, sent: Sent) -> None:
    """Raise Void unless the Parquet files below a directory hold exactly what was sent.

    Of one topic, the name in the files or in their path does not matter.
    """
    (one, *others) = sent.topics
    topic = "topic" if others else f"'{one}' AS topic"
    hive = "true" if others else "false"  # a plain write has a column of that name
    found = _content(
        duckdb.sql(
            f'SELECT {topic}, "key", "value", "partition", "offset"'
            f" FROM read_parquet('{files}/**/*.parquet', hive_partitioning={hive})"
        )
    )
    if found != sent.content:
        raise Void(f"{files} holds {_short(found)}, and sent was {_short(sent.content)}")


def _short(content: Content) -> str:
    return ", ".join(f"{t}-{p}: {what}" for (t, p), what in sorted(content.items())[:5])


def _content(rows: pa.Table | duckdb.DuckDBPyRelation) -> Content:
    found = duckdb.sql(
        'SELECT "topic", "partition", count(*), min("offset"), max("offset"),'
        ' sum(hash("key", "value", "offset", "partition"))'
        " FROM rows GROUP BY ALL"
    ).fetchall()
    return {(topic, p): (n, low, high, int(digest)) for topic, p, n, low, high, digest in found}


def _add(content: dict[tuple[str, int], tuple[int, int, int, int]], more: Content) -> None:
    for place, (rows, first, last, digest) in more.items():
        known, low, high, others = content.get(place, (0, first, last, 0))
        content[place] = known + rows, min(low, first), max(high, last), others + digest


def _fill(bootstrap: str, topics: Sequence[str], shape: Shape) -> None:
    config = {
        "bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4",
        "linger.ms": 50, "queue.buffering.max.kbytes": 256 * 1024,
    }  # fmt: skip
    values = _ENDS[shape.format](shape.size)
    if not shape.aborted:
        producer = Producer(config)
        for n in range(shape.records):
            _send(producer, topics, shape, values, n)
        if left := producer.flush(120):
            raise RuntimeError(f"{left} records were not delivered")
        return
    producer = Producer({**config, "transactional.id": topics[0]})
    producer.init_transactions(30)
    committed, number = 0, 0
    while committed < shape.records:
        producer.begin_transaction()
        number += 1
        size = min(TRANSACTION, shape.records - committed)
        for n in range(committed, committed + size):
            _send(producer, topics, shape, values, n)
        if number % 5 == 0:
            producer.flush(60)  # what is still here would not reach the log
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += size


def _send(
    producer: Producer, topics: Sequence[str], shape: Shape, values: Sequence[bytes], n: int
) -> None:
    """Send record number `n`; the partitions get theirs in turn, then the topics."""
    partition, topic = n % shape.partitions, topics[n // shape.partitions % len(topics)]
    if shape.skew:
        partition = 0 if n % 10 else 1 + n // 10 % (shape.partitions - 1)
    key = n % (shape.records // 2) if shape.compacted else n
    if shape.compacted:
        partition = key % shape.partitions
    before = b"%d:" % n
    if shape.format:
        day = 11 + n * 10 // shape.records - (0 if n % 20 else 10)
        if shape.format == "json":
            before = b'{"n":%d,"flown":"2026-03-%02d",' % (n, day)
        elif shape.format == "csv":
            before = b"%d,2026-03-%02d," % (n, day)
        else:
            before = _avro_long(n) + _avro_long(_MARCH + day - 1)
    value = before + values[n * 7 % len(values)]
    while True:
        try:
            producer.produce(topic, value, b"%020d" % key, partition)
            break
        except BufferError:  # the queue is full: wait for deliveries
            producer.poll(0.1)
    if n % 1_000 == 0:
        producer.poll(0)


def _values(size: int) -> list[bytes]:
    """Return values of so many bytes: JSON that compresses to about a third."""
    noise, size = random.Random(size), max(1, size - _KEY - 8)
    values = []
    for _ in range(max(20, min(1_000, 20_000_000 // size))):
        digits = noise.randbytes(size // 10 + 1).hex()
        fields = (
            f'"a field of a record":"{digits[i : i + 20]}"' for i in range(0, len(digits), 20)
        )
        values.append(("{" + ",".join(fields) + "}").encode()[:size].ljust(size))
    return values


def _texts(size: int) -> list[dict[str, str]]:
    """Return the TEXTS of objects of about so many bytes."""
    noise, each = random.Random(size), max(4, (size - 8 * len(TEXTS)) // len(TEXTS) // 2)
    return [
        {name: f"{noise.randbytes(each // 2).hex():t<{2 * each}}" for name in TEXTS}
        for _ in range(1_000)
    ]


def _ends_of_json(size: int) -> list[bytes]:
    """Return the ends of JSON objects, whose other fields are before them."""
    return [
        ",".join(f'"{name}":"{text}"' for name, text in texts.items()).encode() + b"}"
        for texts in _texts(size)
    ]


def _ends_of_csv(size: int) -> list[bytes]:
    """Return the ends of lines of CSV."""
    return [",".join(texts.values()).encode() for texts in _texts(size)]


def _ends_of_avro(size: int) -> list[bytes]:
    """Return the ends of records of Avro."""
    return [
        b"".join(_avro_long(len(text)) + text.encode() for text in texts.values())
        for texts in _texts(size)
    ]


def _avro_long(number: int) -> bytes:
    """Return a positive number as Avro writes it: zigzag, seven bits a byte."""
    left, found = 2 * number, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


_ENDS = {"": _values, "json": _ends_of_json, "csv": _ends_of_csv, "avro": _ends_of_avro}
