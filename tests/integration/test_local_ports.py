"""Ports of the local servers that another process took while they were down."""

import json
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate_local import kafka


@pytest.mark.slow
def test_a_controller_port_that_is_taken(tmp_path: Path) -> None:
    """The broker starts on another port with its data, and later on that port again."""
    broker = kafka.start(tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"before")
        assert producer.flush(30) == 0
        kafka.stop(tmp_path)
        node = json.loads((tmp_path / "node.json").read_text())
        with socket.socket() as other:
            other.bind(("127.0.0.1", node["controller_port"]))
            other.listen()
            assert kafka.start(tmp_path).bootstrap == broker.bootstrap
            now = json.loads((tmp_path / "node.json").read_text())
            assert now["controller_port"] != node["controller_port"]
            assert {**now, "controller_port": node["controller_port"]} == node
            kafka.stop(tmp_path)
            kafka.start(tmp_path)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"after")
        assert producer.flush(30) == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("u", 1)])["u"].result(30)
        assert values(broker.bootstrap) == [b"before", b"after"]
    finally:
        kafka.stop(tmp_path)


def values(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["t"])
        found: list[bytes | None] = []
        while len(found) < 2:
            messages = consumer.consume(2, timeout=30)
            if not messages:
                pytest.fail(f"only {found}")
            found += [message.value() for message in messages if not message.error()]
        return found
    finally:
        consumer.close()
