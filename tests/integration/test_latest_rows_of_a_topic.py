"""The view `latest` of a compacted topic, beside a consumer that keeps a map."""

import random
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support import spark_session
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
ROWS = 'SELECT "partition", "offset", key, value FROM '


def send(broker: Broker, topic: str, numbers: range, *, keys: int, partitions: int) -> None:
    """Send records a millisecond apart; every ninth is a tombstone."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    draw = random.Random(numbers.start)
    for n in numbers:
        key = b"k%d" % draw.randrange(keys)
        value = None if n % 9 == 0 else b"value %d" % n
        partition = zlib.crc32(key) % partitions
        while True:
            try:
                producer.produce(topic, value, key, partition, timestamp=1_700_000_000_000 + n)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0


def kept_by_a_consumer(broker: Broker, topic: str, partitions: int) -> list[Any]:
    """Return partition, offset, key and value of what a map of all records has in the end."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "map", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    records: list[Message] = []
    ended = 0
    while ended < partitions:
        for message in consumer.consume(10_000, 10):
            if message.error():
                ended += 1
            else:
                records.append(message)
    consumer.close()
    kept = {each.key(): each for each in sorted(records, key=lambda each: each.timestamp()[1])}
    return sorted(
        (m.partition(), m.offset(), m.key(), m.value()) for m in kept.values() if m.value()
    )


@pytest.mark.parametrize(
    ("records", "keys"),
    [(20_000, 500), pytest.param(1_000_000, 10_000, marks=[pytest.mark.slow])],
)
def test_as_a_consumer_that_keeps_a_map(
    records: int, keys: int, broker: Broker, tmp_path: Path, topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A topic that got partitions between two runs: by the ledger, by DuckDB and by Spark."""
    name, user = topic(partitions=2, config=COMPACTED), Terminal(tmp_path, broker.bootstrap)
    user.pipeline("states", [name])
    half = records // 2
    send(broker, name, range(half), keys=keys, partitions=2)
    user.run("run", "states")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_partitions([NewPartitions(name, 5)]).values():
        done.result(30)
    time.sleep(2)  # a segment is over: the log may be compacted before the second run
    send(broker, name, range(half, records), keys=keys, partitions=5)
    user.run("run", "states")

    kept = kept_by_a_consumer(broker, name, 5)
    assert keys * 0.8 < len(kept) < keys
    begun = time.monotonic()
    answer = user.json("sql", "states", ROWS + "latest ORDER BY ALL")
    seconds = time.monotonic() - begun
    found = [(p, n, bytes.fromhex(k), bytes.fromhex(v)) for p, n, k, v in answer["rows"]]
    assert found == kept
    with duckdb.connect() as db:
        db.execute(user.run("view", "states", "--latest").stdout)
        assert db.execute(ROWS + "states_latest ORDER BY ALL").fetchall() == kept
    spark = spark_session.shared()
    text = user.run("view", "states", "--latest", "--engine", "spark").stdout
    for statement in text.strip().removesuffix(";").split(";\n"):
        spark.sql(statement)
    by_spark = spark.sql("SELECT partition, offset, key, value FROM states_latest").collect()
    assert sorted((p, n, bytes(k), bytes(v)) for p, n, k, v in by_spark) == kept
    with capsys.disabled():
        print(f"\n{len(kept):,} of {records:,} rows in {seconds:.1f} s")
