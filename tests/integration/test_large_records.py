"""Records of 20 MB, with the memory that Spark has by default."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import topic_records
from support.cli_user import Terminal
from tidegate_local import kafka
from tidegate_local.kafka import Broker

LARGE = "30000000"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    home = tmp_path_factory.mktemp("large")
    try:
        yield kafka.start(home, settings={"message.max.bytes": LARGE})
    finally:
        kafka.stop(home)


@pytest.mark.slow
def test_records_of_20_mb(large: Broker, tmp_path: Path) -> None:
    """Eight of them in two partitions: Parquet looked at the size of a page first after 100 rows,
    and Java ran out of memory at each retry.
    """
    topic_records.create(
        large.bootstrap, "large", partitions=2, config={"max.message.bytes": LARGE}
    )
    producer = Producer({"bootstrap.servers": large.bootstrap, "message.max.bytes": int(LARGE)})
    for n in range(8):
        producer.produce("large", os.urandom(20_000_000), partition=n % 2)
        producer.flush()
    terminal = Terminal(tmp_path, large.bootstrap, processes=True)
    terminal.pipeline("large", ["large"])
    assert terminal.json("run", "large")["rows"] == 8
    found = terminal.json("verify", "large", "--against-kafka")
    assert (found["differences"], found["against_kafka"]) == (0, {"rows": 8, "expired": 0})
