"""Source files and lakes to send, and the proof that a topic holds what they do."""

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from contenders import pipeline, tidegate
from workload import Void

FILES = 8
Rows = tuple[int, int]
"""The number of rows, and the sum of the hashes of their keys and values."""


def files(directory: Path, rows: int, size: int) -> Rows:
    """Write Parquet files of rows of `size` bytes, half of them noise."""
    directory.mkdir()
    noise = random.Random(size)
    digest, left = 0, rows
    for number in range(FILES):
        here = left // (FILES - number)
        keys = [b"%020d" % noise.getrandbits(60) for _ in range(here)]
        values = [(noise.randbytes((size - 20) // 2).ljust(size - 20, b"t")) for _ in range(here)]
        digest = (digest + sum(hash(pair) for pair in zip(keys, values, strict=True))) % (1 << 61)
        pq.write_table(pa.table({"key": keys, "value": values}), directory / f"{number}.parquet")
        left -= here
    return rows, digest


def lake(home: Path, broker: str, rows: int, size: int, partitions: int = 4) -> tuple[Path, Rows]:
    """Make the lake of a pipeline "feed", whose records have one header; return its data."""
    source = home / "source"
    sent = files(source, rows, size)
    topic = targets(broker, home, "feed", partitions)(0).name
    first = {
        "name": "first", "kind": "egress", "lake": str(home / "first"), "settle": 0,
        "source": {"path": str(source), "format": "parquet"},
        "target": {"topic": topic}, "columns": {"key": "key", "value": "value"},
    }  # fmt: skip
    feed = {"name": "feed", "kind": "ingest", "topics": [topic], "lake": str(home / "lake")}
    for form in (first, feed):
        tidegate("run", form["name"], env=pipeline(home, broker, form))
    return home / "lake/feed/data", sent


def targets(broker: str, home: Path, prefix: str, partitions: int = 4) -> Callable[[int], Path]:
    """Make a topic for each result; its name is that of a directory that does not matter."""
    admin = AdminClient({"bootstrap.servers": broker})

    def make_topic(number: int) -> Path:
        name = f"{prefix}-{number}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        (home / name).mkdir()
        return home / name

    return make_topic


def check(broker: str, topic: str, sent: Rows) -> None:
    """Raise Void unless the topic holds exactly what the files do; then delete it."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "check"})
    places, ends = [], {}
    for p in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)
        if high > low:
            places.append(TopicPartition(topic, p, low))
            ends[p] = high
    consumer.assign(places)
    rows = digest = 0
    while rows < sum(ends.values()):
        messages = consumer.consume(min(10_000, sum(ends.values()) - rows), timeout=30)
        if not messages:
            raise Void(f"{topic}: no more after {rows} records")
        rows += len(messages)
        digest = (digest + sum(hash((m.key(), m.value())) for m in messages)) % (1 << 61)
    consumer.close()
    if (rows, digest) != sent:
        raise Void(f"{topic} holds {rows} records, and sent were {sent[0]}; or others")
    admin = AdminClient({"bootstrap.servers": broker})  # must outlive what it was asked
    admin.delete_topics([topic])[topic].result(30)
