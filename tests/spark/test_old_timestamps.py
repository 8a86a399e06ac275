"""Timestamps before the Gregorian calendar: a limit of Spark's, which `verify` names."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer

from support import topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.slow
def test_a_timestamp_before_15_october_1582(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Days off in the lake; later ones, also before 1970, are right."""
    times = [datetime(year, 3, 14, tzinfo=UTC) for year in (1400, 1583, 1900, 1969, 2026)]
    topic_records.create(broker.bootstrap, topic, partitions=1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for at in times:
        producer.send(topic, b"x", timestamp_ms=int((at - EPOCH).total_seconds() * 1000)).get(30)
    producer.close()
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.pipeline("old", [topic])
    assert terminal.json("run", "old")["rows"] == len(times)
    (file,) = (terminal.lake / "old/data").rglob("*.parquet")
    found = pq.read_table(file, columns=["timestamp"]).column(0).to_pylist()
    assert found[1:] == times[1:]
    assert timedelta(days=2) <= abs(found[0] - times[0]) <= timedelta(days=10)
    said = terminal.json("verify", "old", "--against-kafka", code=3)
    assert [(each["offset"], each["what"]) for each in said["first"]] == [
        (0, "the row is not the record")
    ]
