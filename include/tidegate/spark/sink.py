"""The options of Spark's Kafka sink: which may be given, which are refused and why."""

from __future__ import annotations

from collections.abc import Mapping

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
# Nothing else is passed on: a client's option can run code, or change who is spoken to.
_KNOWN = {
    *_DEFAULTS,
    "buffer.memory",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.age.ms",
    "partitioner.class",
    "receive.buffer.bytes",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.ms",
    "send.buffer.bytes",
}
_REFUSED = {
    "transactional.id": "Spark's sink has no transactions: it would never commit one",
    "key.serializer": "keys are written as bytes: shape them by `columns`",
    "value.serializer": "values are written as bytes: shape them by `columns`",
    "client.id": "Tidegate names the run in it",
    "interceptor.classes": "an interceptor may change records",
}
_PARTITIONERS = {"org.apache.kafka.clients.producer.RoundRobinPartitioner"}
_ROOM = 64 * 1024  # in a request, beside its largest row


def complaints(given: Mapping[str, str]) -> list[str]:
    """Name all that is wrong with a pipeline's producer settings."""
    wrong = []
    for name in sorted(given):
        if name in _REFUSED:
            wrong.append(f"{name}: refused: {_REFUSED[name]}")
        elif name not in _KNOWN:
            wrong.append(f"{name}: not a producer setting that may be given; known: "
                         + ", ".join(sorted(_KNOWN)))  # fmt: skip
    settings = {**_DEFAULTS, **given}
    if settings["acks"] == "0":
        wrong.append("acks: 0 would lose records without a word; use all")
    elif settings["acks"] not in ("all", "-1", "1"):
        wrong.append(f"acks: {settings['acks']!r}: Kafka knows all and 1")
    if settings.get("partitioner.class", min(_PARTITIONERS)) not in _PARTITIONERS:
        wrong.append(f"partitioner.class: known: {', '.join(_PARTITIONERS)}")
    needed = _number(settings, "linger.ms", wrong) + _number(settings, "request.timeout.ms", wrong)
    if _number(settings, "delivery.timeout.ms", wrong) < needed:
        wrong.append(
            "delivery.timeout.ms: less than linger.ms + request.timeout.ms, "
            f"{needed}: the producer would not start"
        )
    return wrong


def warnings(given: Mapping[str, str]) -> list[str]:
    """Name what is allowed and weakens the guarantee."""
    settings = {**_DEFAULTS, **given}
    told = []
    if settings["acks"] == "1":
        told.append("acks: 1: a leader that dies takes records with it; the verification sees it")
    idempotent = settings["enable.idempotence"].lower() == "true"
    if not idempotent or settings["acks"] == "1":
        told.append("without idempotence a producer's retry can double and reorder records")
    return told


def render(
    connection: Mapping[str, str], given: Mapping[str, str], *, client_id: str, largest_row: int
) -> dict[str, str]:
    """Return the sink's options; `largest_row` is in bytes, and always fits into a request."""
    settings = {**_DEFAULTS, **given}
    if settings["acks"] == "1" and "enable.idempotence" not in given:
        settings["enable.idempotence"] = "false"  # they exclude each other
    request = max(1024 * 1024, largest_row + _ROOM)
    settings.setdefault("max.request.size", str(request))
    settings.setdefault("buffer.memory", str(max(32 * 1024 * 1024, 4 * request)))
    return {
        **connection,
        **{f"kafka.{name}": value for name, value in settings.items()},
        "kafka.client.id": client_id,
    }


def _number(settings: Mapping[str, str], name: str, wrong: list[str]) -> int:
    if not settings[name].isdecimal():
        wrong.append(f"{name}: {settings[name]!r} is not a number of milliseconds")
        return 0
    return int(settings[name])
