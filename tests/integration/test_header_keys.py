"""Header keys that are not UTF-8, as producers in Go and C write them."""

from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaProducer

from support import topic_records
from support.cli_user import Terminal
from tidegate.broker.consumer import open_reader, probe_holes
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import NotUtf8
from tidegate.core.offsets import OffsetRange
from tidegate_local.kafka import Broker


class Key(str):
    """A key that is written as these bytes."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        return b"a\xff\xed\xa0\x80b"


def fill(bootstrap: str, topic: str) -> None:
    """Write an aborted transaction, then records with such keys and one with U+FFFD itself."""
    topic_records.create(bootstrap, topic, partitions=1)
    aborted = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    for _ in range(3):
        aborted.produce(topic, b"aborted", partition=0)
    aborted.flush(30)
    aborted.abort_transaction(30)
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    for n in range(5):
        headers = [(Key("k") if n % 2 else "k\ufffd", b"v"), ("plain", b"w")]
        producer.send(topic, b"%d" % n, partition=0, headers=headers)
    producer.close()


def test_such_a_record_stops_no_run(broker: Broker, tmp_path: Path) -> None:
    """Behind an aborted transaction, whose offsets are probed; `verify` counts it, and finds no
    difference.
    """
    topic = "keys-of-headers"
    fill(broker.bootstrap, topic)
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.pipeline("keys", [topic])
    assert terminal.json("run", "keys")["rows"] == 5
    done = terminal.run("verify", "keys", "--against-kafka")
    assert "2 records with header keys that are not UTF-8" in done.stderr
    assert "0 differences" in done.stdout


def test_what_a_consumer_has_of_it(broker: Broker) -> None:
    topic = "keys-that-are-read"
    fill(broker.bootstrap, topic)
    settings = KafkaCluster("k", {"bootstrap.servers": broker.bootstrap})
    (hole,) = probe_holes(settings, [OffsetRange(topic, 0, 0, 4)], "read_committed")
    assert hole.outcome == "empty"
    with open_reader(settings) as read:
        found = [*read(OffsetRange(topic, 0, 0, 9), "read_committed")]
    assert [[key for key, _ in each.headers] for each in found] == [
        ["a\ufffd\ufffd\ufffd\ufffdb" if n % 2 else "k\ufffd", "plain"] for n in range(5)
    ]
    marked = [isinstance(each.headers[0][0], NotUtf8) for each in found]
    assert marked == [False, True, False, True, False]
    assert [each.value for each in found] == [b"%d" % n for n in range(5)]
