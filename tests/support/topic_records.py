"""Fill topics with records: plain numbers, or everything a lake can get wrong."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka import KafkaProducer

PARTITIONS = 6
SKEWED, ENDS_IN_NOTHING, ABORTED, EMPTY = 0, 3, 4, 5
"""Nine records of ten; aborted ones at the end; only aborted ones; none at all."""
OPEN = (0, 1)
"""Partitions on which a transaction stays open."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_BIG = 1_000_000
_MOMENTS = (
    1,
    946_684_799_999,  # the last millisecond of 1999
    1_700_000_000_000,
    253_402_300_799_999,  # the last millisecond of the year 9999
    253_402_300_800_000,  # and the next, which no Python datetime holds
)


def create(
    bootstrap: str, topic: str, *, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until the broker has it."""
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive what it was asked
    for done in admin.create_topics([new]).values():
        done.result(30)
    until = time.monotonic() + 30
    while len(admin.list_topics(topic, timeout=30).topics[topic].partitions) < partitions:
        assert time.monotonic() < until, topic  # the controller has it, the broker not yet
        time.sleep(0.01)


def names(bootstrap: str) -> set[str]:
    """Return the names of all topics."""
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def group_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a consumer group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(30).topic_partitions
    return {(each.topic, each.partition): each.offset for each in found}


def numbers(bootstrap: str, topic: str, count: int, *, partitions: int = 4, first: int = 0) -> None:
    """Send the numbers from `first` on, round robin; the topic is created if it is not there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    known = admin.list_topics(timeout=30).topics.get(topic)
    if known is None:
        create(bootstrap, topic, partitions=partitions)
    width = len(known.partitions) if known else partitions
    producer = _producer(bootstrap, "none")
    for number in range(first, first + count):
        text = str(number).encode()
        _send(producer, topic, number % width, {"key": text, "value": b"n" + text})
    _flush(producer)


def stamped(bootstrap: str, topic: str, partition: int, stamps: Iterable[int]) -> None:
    """Send one record for each timestamp (ms since the epoch), in this order."""
    producer = _producer(bootstrap, "none")
    for number, stamp in enumerate(stamps):
        _send(producer, topic, partition, {"value": b"%d" % number, "timestamp": stamp})
    _flush(producer)


def configure(bootstrap: str, topic: str, **config: str) -> None:
    """Set topic settings; `_` in a name stands for `.`."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, value in config.items():
        entry = ConfigEntry(
            name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET
        )
        resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Move the log start of partitions to the given offsets, as retention would."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records(places).values():
        done.result(30)


@dataclass
class Filled:
    """A filled topic, with a transaction left open until `close`.

    Records per partition: `visible` are those that read_committed shows while it is open,
    `aborted` and `open` it never shows, `hidden` are committed behind the open ones and appear
    with `close`. read_uncommitted shows all of them.
    """

    bootstrap: str
    topic: str
    visible: Counter[int] = field(default_factory=Counter)
    aborted: Counter[int] = field(default_factory=Counter)
    open: Counter[int] = field(default_factory=Counter)
    hidden: Counter[int] = field(default_factory=Counter)
    _opener: Producer | None = None

    def close(self) -> None:
        """Abort the open transaction: the records behind it become visible."""
        if self._opener is not None:
            self._opener.abort_transaction(30)
            self._opener = None
            self.visible += self.hidden
            self.aborted += self.open
            self.hidden, self.open = Counter(), Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def fill(
    bootstrap: str,
    topic: str,
    *,
    seed: int = 7,
    records: int = 20_000,
    config: Mapping[str, str] | None = None,
) -> Filled:
    """Create a topic of six partitions with at least `records` visible ones, all of them nasty.

    Plain, committed and aborted batches of every codec follow and interleave with each other;
    `config` adds settings of the topic. The same seed gives the same records, though
    the markers of transactions may land between others.
    """
    settings = {
        "max.message.bytes": str(2 * _BIG),
        # The far future is allowed, and neither it nor the past rolls or expires a segment.
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "retention.ms": "-1",
        "segment.ms": str(2**63 - 1),
    }
    create(bootstrap, topic, partitions=PARTITIONS, config=settings | dict(config or {}))
    filled = Filled(bootstrap, topic)
    rng = random.Random(seed)
    nasty = _nasty(rng)
    plain = [_producer(bootstrap, codec) for codec in _CODECS]
    transactional = [_producer(bootstrap, codec, f"{topic}-{codec}") for codec in _CODECS]
    for producer in transactional:
        producer.init_transactions(30)

    def send(producer: Producer, partition: int, count: int, tally: Counter[int]) -> None:
        for _ in range(count):
            _send(producer, topic, partition, next(nasty))
        tally[partition] += count
        _flush(producer)  # keeps what several producers send in this order

    _ancient(bootstrap, topic, filled.visible)
    while (total := filled.visible.total()) < records:
        skewed = filled.visible[SKEWED] <= 0.92 * total  # ends above 0.9
        partition = SKEWED if skewed else rng.choice((1, 2, 3))
        most = 400 if skewed else 60
        commits = rng.random() < 0.7
        tally = filled.visible if commits else filled.aborted
        producer = rng.choice(transactional)
        producer.begin_transaction()
        send(producer, partition, rng.randint(1, most), tally)
        send(rng.choice(plain), partition, rng.randint(1, most), filled.visible)
        send(producer, partition, rng.randint(1, most), tally)
        if not commits:
            send(producer, ABORTED, rng.randint(1, 20), tally)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)

    last, opener, *_ = transactional
    last.begin_transaction()
    send(last, ENDS_IN_NOTHING, 10, filled.aborted)
    last.abort_transaction(30)
    opener.begin_transaction()
    for partition in OPEN:
        send(opener, partition, 30, filled.open)
        send(plain[-1], partition, 20, filled.hidden)
    filled._opener = opener
    return filled


def _nasty(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Make records without end; one of 1,500 has a value of a megabyte."""
    for number in itertools.count(1):
        headers: list[list[tuple[str, bytes | None]] | None] = [
            None,
            [],
            [("a", b"1")],
            [("a", b"1"), ("b", b"2"), ("a", b"2"), ("a", b"1")],
            [("null", None), ("empty", b""), ("", b"no name")],
            [("ключ", b"\xff\xfe"), ("traceparent", rng.randbytes(16))],
        ]
        value = rng.choice(
            [None, b"", b"\x00", b"\xff\xfe\xc3\x28", b"plain %d" % number, rng.randbytes(60)]
        )
        if number % 1500 == 0:
            value = rng.randbytes(_BIG // 100) * 100
        yield {
            "key": rng.choice([None, b"", b"\x00", b"key-%d" % number, rng.randbytes(8)]),
            "value": value,
            "headers": rng.choice(headers),
            "timestamp": rng.choice((*_MOMENTS, 1_700_000_000_000 + number)),
        }


def _ancient(bootstrap: str, topic: str, tally: Counter[int]) -> None:
    """Send records with timestamp 0, which librdkafka takes for now, and with none (-1)."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for partition in (SKEWED, 1, 2, 3):
        for timestamp in (0, -1):
            producer.send(topic, b"1970", partition=partition, timestamp_ms=timestamp).get(30)
            tally[partition] += 1
    producer.close()


def _producer(bootstrap: str, codec: str, transactional_id: str | None = None) -> Producer:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "log_level": 3,
        "linger.ms": 5,
        "message.max.bytes": 2 * _BIG,
        "enable.idempotence": True,
    }
    if transactional_id is not None:
        config |= {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    return Producer(config)


def _send(producer: Producer, topic: str, partition: int, record: Mapping[str, Any]) -> None:
    given = {name: value for name, value in record.items() if value is not None}
    while True:
        try:
            producer.produce(topic, partition=partition, on_delivery=_delivered, **given)
            return
        except BufferError:
            producer.poll(1)


def _delivered(error: object, _: object) -> None:
    if error is not None:
        raise RuntimeError(f"not delivered: {error}")


def _flush(producer: Producer) -> None:
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records were not delivered in time")
