"""The producer settings of Spark's Kafka sink: defaults, which may be given, which are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.spark.option_table import Check, OptionTable

_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": str(512 * 1024),  # 16 KiB: a request for every 160 records of 100 bytes
    "max.block.ms": "20000",  # else a target that is gone is noticed after a minute
    "delivery.timeout.ms": "120000",
    "request.timeout.ms": "30000",
}
_INT, _LONG = 2**31 - 1, 2**63 - 1
# The least and the greatest value with which the producer starts and sends.
_NUMBERS = {
    "batch.size": (0, _INT),
    "buffer.memory": (1, _LONG),
    "delivery.timeout.ms": (1, _INT),
    "linger.ms": (0, _LONG),
    "max.block.ms": (1, _LONG),
    "max.in.flight.requests.per.connection": (1, _INT),
    "max.request.size": (1, _INT),
    "metadata.max.age.ms": (0, _LONG),
    "receive.buffer.bytes": (-1, _INT),
    "reconnect.backoff.ms": (0, _LONG),
    "request.timeout.ms": (1, _INT),
    "retries": (0, _INT),
    "retry.backoff.ms": (0, _LONG),
    "send.buffer.bytes": (-1, _INT),
}


def _number(least: int, most: int) -> Check:
    def check(value: str) -> str | None:
        if not re.fullmatch("-?[0-9]{1,19}", value):
            return f"{value!r} is not a whole number"
        if not least <= int(value) <= most:
            return f"{value}: from {least} to {most}, or the producer fails"
        return None

    return check


def _word(*known: str) -> Check:
    return lambda value: None if value in known else f"{value!r}; known: {', '.join(known)}"


def _acks(value: str) -> str | None:
    if value == "0":
        return "0 would lose records without a word; use all"
    return _word("all", "-1", "1")(value)


# No other setting is passed on: it could run code, or change which cluster is used.
_OPTIONS = OptionTable(
    kind="a producer setting",
    refused={
        "transactional.id": "Spark's sink has no transactions: it would never commit one",
        "key.serializer": "keys are written as bytes: shape them by `columns`",
        "value.serializer": "values are written as bytes: shape them by `columns`",
        "client.id": "Tidegate names the run in it",
        "interceptor.classes": "an interceptor may change records",
    },
    allowed={
        **{name: _number(least, most) for name, (least, most) in _NUMBERS.items()},
        "acks": _acks,
        "compression.type": _word("none", "gzip", "snappy", "lz4", "zstd"),
        "enable.idempotence": _word("true", "false"),
        "partitioner.class": _word("org.apache.kafka.clients.producer.RoundRobinPartitioner"),
    },
)
_ROOM = 64 * 1024  # in a request, besides its largest row


def complaints(given: Mapping[str, str]) -> list[str]:
    """Return all that is wrong with a pipeline's producer settings."""
    return _OPTIONS.complaints(given) or _contradictions(_settings(given))


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    settings = {**_DEFAULTS, **given}
    if settings["acks"] == "1" and "enable.idempotence" not in given:
        settings["enable.idempotence"] = "false"  # they exclude each other
    return settings


def _contradictions(settings: Mapping[str, str]) -> list[str]:
    """Return what would keep the producer from starting."""
    wrong = []
    needed = int(settings["linger.ms"]) + int(settings["request.timeout.ms"])
    if int(settings["delivery.timeout.ms"]) < needed:
        wrong.append(
            "delivery.timeout.ms: less than linger.ms + request.timeout.ms, "
            f"{needed}: the producer would not start"
        )
    memory, batch = settings.get("buffer.memory"), settings["batch.size"]
    if memory is not None and int(memory) < int(batch):
        wrong.append(
            f"buffer.memory: {memory} is less than batch.size, {batch}: no record could be sent; "
            "give both"
        )
    if settings["enable.idempotence"] == "false":
        return wrong
    idempotent = "enable.idempotence, which is on unless it is set to false"
    if settings["acks"] == "1":
        wrong.append("acks: 1 excludes enable.idempotence: true")
    if settings.get("retries") == "0":
        wrong.append(f"retries: 0 excludes {idempotent}")
    if int(settings.get("max.in.flight.requests.per.connection", 5)) > 5:
        wrong.append(f"max.in.flight.requests.per.connection: more than 5 excludes {idempotent}")
    return wrong


def disorders(given: Mapping[str, str], *, by_key: bool) -> list[str]:
    """Return what would break the order of records, with the remedy.

    `by_key`: Kafka chooses the partitions, and the order is that within a key.
    """
    settings = _settings(given)
    found = []
    if by_key and "partitioner.class" in given:
        found.append(
            "partitioner.class: it would send the rows of a key to many partitions, and their "
            "order is promised: leave it out, or give columns.partition"
        )
    in_flight = settings.get("max.in.flight.requests.per.connection")
    if settings["enable.idempotence"] == "false" and in_flight != "1":
        found.append(
            "without idempotence (acks: 1 switches it off) a producer's retry reorders records, "
            "and their order is promised: use acks: all with enable.idempotence: true, or "
            "max.in.flight.requests.per.connection: 1"
        )
    return found


def warnings(given: Mapping[str, str]) -> list[str]:
    """Return what is allowed and weakens the guarantees."""
    settings = _settings(given)
    found = []
    if settings["acks"] == "1":
        found.append("acks: 1: a leader that dies takes records with it; the verification sees it")
    if settings["enable.idempotence"] == "false":
        found.append("without idempotence a producer's retry can double and reorder records")
    return found


def compression(given: Mapping[str, str]) -> str:
    """Return the codec of these settings."""
    return _settings(given)["compression.type"]


def largest_record(given: Mapping[str, str]) -> int | None:
    """Return the maximum size of a record in bytes by these settings; None: no maximum."""
    limits = [int(given[n]) for n in ("max.request.size", "buffer.memory") if n in given]
    return min(limits, default=None)


def render(
    connection: Mapping[str, str],
    given: Mapping[str, str],
    *,
    client_id: str,
    largest_row: int,
    largest_batch: int,
) -> dict[str, str]:
    """Return the sink's options; requests have room for a record of `largest_row` bytes.

    `largest_batch` is the size in bytes that every target topic accepts. The producer splits a
    batch that the broker refuses, and a flush then returns before the pieces are sent: Spark would
    take that for the end.
    """
    settings = _settings(given)
    settings["batch.size"] = str(min(int(settings["batch.size"]), largest_batch))
    request = max(1024 * 1024, largest_row + _ROOM)
    settings.setdefault("max.request.size", str(request))
    room = max(32 * 1024 * 1024, 4 * request, 2 * int(settings["batch.size"]))
    settings.setdefault("buffer.memory", str(room))
    return {
        **connection,
        **{f"kafka.{name}": value for name, value in settings.items()},
        "kafka.client.id": client_id,
    }
