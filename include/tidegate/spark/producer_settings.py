"""The producer settings of Spark's Kafka sink: which contradict each other, and the rendering.

Names are Kafka's, without `kafka.`. A value is the pipeline's, else the connection's, else
Tidegate's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tidegate.settings.client_answers import setup_timeouts
from tidegate.settings.kafka_clients import COMMON
from tidegate.settings.setting import UNSET, Place, without_unset
from tidegate.settings.sink_settings import DEFAULTS, READING
from tidegate.settings.table import Verdict, judge_settings

NOTHING: Mapping[str, str] = MappingProxyType({})
SOURCE_TIMESTAMPS = "tidegate.SourceTimestamps"
"""The class in `launch/jars/source-timestamps.jar`."""
_ROOM = 64 * 1024  # in a request, besides its largest row


def judge_producer(given: Mapping[str, str]) -> Verdict:
    """Return the answers to settings by their short names, as `target.producer` has them."""
    by_name = sorted(given.items())
    found = judge_settings(Place.SINK, {f"kafka.{name}": value for name, value in by_name})
    reading = [f"{_short(name)}: of the consumer that reads back what was sent; use target.options"
               for name in found.settings if name in READING]  # fmt: skip
    return Verdict(
        found.settings,
        tuple(map(_short, found.notices)),
        (*map(_short, found.complaints), *reading),
    )


def _short(text: str) -> str:
    return re.sub(r"(?<![\w.])kafka\.", "", text)


def client_settings(
    given: Mapping[str, str], connection: Mapping[str, str] = NOTHING
) -> dict[str, str]:
    """Return the producer's settings. `connection` has options for Spark, as `kafka.…`.

    Of a connection only what all clients know holds here: the rest of it is not of this producer.
    """
    shared = {n: connection[f"kafka.{n}"] for n in COMMON if f"kafka.{n}" in connection}
    found = {**DEFAULTS, **shared, **given}
    if found["acks"] == "1" and "enable.idempotence" not in given:
        found["enable.idempotence"] = "false"  # they exclude each other
    if "request.timeout.ms" in shared.keys() - given.keys() and "delivery.timeout.ms" not in given:
        least = int(found["linger.ms"]) + int(found["request.timeout.ms"])
        found["delivery.timeout.ms"] = str(max(int(found["delivery.timeout.ms"]), least))
    return found


def producer_contradictions(
    given: Mapping[str, str], connection: Mapping[str, str] = NOTHING
) -> list[str]:
    """Return what would keep the producer from starting, or from sending."""
    known = without_unset(given)
    found = {
        n: v for n, v in client_settings(known, connection).items() if n in known or n not in given
    }
    wrong = setup_timeouts(found)
    names = ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
    times = [int(found[name]) for name in names if name in found]
    if len(times) == 3 and times[0] < times[1] + times[2]:
        wrong.append(
            "delivery.timeout.ms: less than linger.ms + request.timeout.ms: the producer would not "
            "start"
        )
    memory, batch = found.get("buffer.memory"), found.get("batch.size")
    if memory and batch and int(memory) < int(batch):
        wrong.append("buffer.memory: less than batch.size: no record could be sent; give both")
    if "acks" not in found or found.get("enable.idempotence") != "true":
        return wrong
    idempotent = "enable.idempotence, which is on unless it is set to false"
    if found["acks"] == "1":
        wrong.append("acks: 1 excludes enable.idempotence: true")
    if found.get("retries") == "0":
        wrong.append(f"retries: 0 excludes {idempotent}")
    if int(found.get("max.in.flight.requests.per.connection", 5)) > 5:
        wrong.append(f"max.in.flight.requests.per.connection: more than 5 excludes {idempotent}")
    return wrong


def numbers_records(given: Mapping[str, str], connection: Mapping[str, str] = NOTHING) -> bool:
    """Return whether brokers number the records of a producer: idempotence, all acknowledged."""
    found = client_settings(given, connection)
    return found["enable.idempotence"] == "true" and found["acks"] in ("all", "-1")


def order_complaints(given: Mapping[str, str], *, by_key: bool) -> list[str]:
    """Return what would break the order of records, with the remedy.

    `by_key`: Kafka chooses the partitions, and the order is that within a key.
    """
    chosen, found = client_settings(given), []
    if by_key and "partitioner.class" in given:
        found.append(
            "partitioner.class: it would send the rows of a key to many partitions, and their "
            "order is promised: leave it out, or give columns.partition"
        )
    in_flight = chosen.get("max.in.flight.requests.per.connection", "5")
    reorders = in_flight != "1" and not UNSET.search(in_flight)
    if chosen["enable.idempotence"] == "false" and reorders:
        found.append(
            "without idempotence (acks: 1 switches it off) a producer's retry reorders records, "
            "and their order is promised: use acks: all with enable.idempotence: true, or "
            "max.in.flight.requests.per.connection: 1"
        )
    return found


def weakened_guarantees(given: Mapping[str, str]) -> list[str]:
    """Return what is allowed and weakens the guarantees."""
    chosen, found = client_settings(given), []
    if chosen["acks"] == "1":
        found.append("acks: 1: a leader that dies takes records with it; the verification sees it")
    if chosen["enable.idempotence"] == "false":
        found.append("without idempotence a producer's retry can duplicate and reorder records")
    return found


def compression_codec(given: Mapping[str, str]) -> str:
    """Return the codec of these settings."""
    return client_settings(given)["compression.type"]


def largest_record(given: Mapping[str, str]) -> int | None:
    """Return the maximum size of a record in bytes by these settings. None: no maximum."""
    limits = [int(given[n]) for n in ("max.request.size", "buffer.memory") if n in given]
    return min(limits, default=None)


def sink_options(
    connection: Mapping[str, str],
    given: Mapping[str, str],
    *,
    client_id: str,
    largest_row: int,
    largest_batch: int,
    keeps_time: bool = False,
) -> dict[str, str]:
    """Return the sink's options. Requests have room for a record of `largest_row` bytes.

    `largest_batch` is the size in bytes that every target topic accepts. The producer splits a
    batch that the broker refuses, and a flush then returns before the pieces are sent: Spark would
    take that for the end. `keeps_time`: each record gets the timestamp in its header.
    """
    found = client_settings(given, connection)
    found["batch.size"] = str(min(int(found["batch.size"]), largest_batch))
    request = max(1024 * 1024, largest_row + _ROOM)
    found.setdefault("max.request.size", str(request))
    room = max(32 * 1024 * 1024, 4 * request, 2 * int(found["batch.size"]))
    found.setdefault("buffer.memory", str(room))
    return {
        **connection,
        **{f"kafka.{name}": value for name, value in found.items()},
        "kafka.client.id": client_id,
        **({"kafka.interceptor.classes": SOURCE_TIMESTAMPS} if keeps_time else {}),
    }
