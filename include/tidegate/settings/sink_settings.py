"""The options of Spark's Kafka sink, as `target.options` of an egress pipeline takes them.

Source: Spark's integration guide for Kafka, and `KafkaWriter` of the connector 4.0. Some options of
the source are valid here too: what is sent is read back.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.settings.client_answers import client_answers
from tidegate.settings.kafka_clients import PRODUCER
from tidegate.settings.setting import Answer, Place, Setting, check_boolean, check_words
from tidegate.settings.source import SOURCE

DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": str(512 * 1024),  # 16 KiB: a request for every 160 records of 100 bytes
    "max.block.ms": "20000",  # else a target that is gone is noticed after a minute
    "delivery.timeout.ms": "120000",
    "request.timeout.ms": "30000",
}
"""Tidegate's own values for the producer. A given option wins."""
READING = frozenset(
    {
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafka.client.rack",
        "kafka.default.api.timeout.ms",
        "kafka.fetch.max.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.fetch.min.bytes",
        "kafka.max.partition.fetch.bytes",
        "kafka.max.poll.records",
        "kafkaConsumer.pollTimeoutMs",
    }
)
"""The options of the source, by which a target is read back."""
_OUTSIDE = {
    "acks": "all",
    "batch.size": "16384",
    "buffer.memory": "33554432",
    "compression.type": "none",
    "delivery.timeout.ms": "120000",
    "enable.idempotence": "true",
    "linger.ms": "0",
    "max.block.ms": "60000",
    "max.in.flight.requests.per.connection": "5",
    "max.request.size": "1048576",
    "request.timeout.ms": "30000",
    "retries": "2147483647",
}


def _refused(name: str, why: str, use: str = "") -> Setting:
    return Setting(name=f"kafka.{name}", place=Place.SINK, answer=Answer.REFUSED, why=why, use=use)


def _acks(value: str) -> str | None:
    if value == "0":
        return "0 would lose records silently; use all"
    if value.isdecimal() and value != "1":
        return "a number of replicas is of Kafka 0.8; use all"
    return check_words("all", "-1", "1")(value)


def _no_other_keys(value: str) -> str | None:
    if check_boolean(value) is None and value.lower() == "false":
        return None
    return "true would send the rows of a key to many partitions; give columns.partition"


_OWN = {
    each.name.removeprefix("kafka."): each
    for each in (
        Setting(
            name="kafka.acks", place=Place.SINK, check=_acks, default="all", outside="all",
            values={"-1": "all"},
            why="with 1 a leader that dies takes records with it; the verification sees it",
        ),
        Setting(
            name="kafka.partitioner.class", place=Place.SINK,
            check=check_words("org.apache.kafka.clients.producer.RoundRobinPartitioner"),
            why="other classes would run code of their own",
        ),
        Setting(
            name="kafka.partitioner.ignore.keys", place=Place.SINK, check=_no_other_keys,
            outside="false", why="the order within a key is promised",
        ),
        _refused("transactional.id", "Spark's sink has no transactions: it would never commit one"),
        Setting(
            name="kafka.transaction.timeout.ms", place=Place.SINK, answer=Answer.WARNED,
            why="it has no effect: Spark's sink has no transactions",
        ),
        _refused("key.serializer", "keys are written as bytes", "`columns` to shape them"),
        _refused("value.serializer", "values are written as bytes", "`columns` to shape them"),
        _refused("client.id", "Tidegate names the run in it", "`client.id` of the connection"),
        _refused("interceptor.classes", "an interceptor may change records"),
    )
}  # fmt: skip

SINK: tuple[Setting, ...] = (
    *client_answers(Place.SINK, PRODUCER, DEFAULTS, _OUTSIDE, _OWN),
    *(
        replace(each, place=Place.SINK, why="for reading back what was sent")
        for each in SOURCE
        if each.name in READING
    ),
    Setting(
        name="topic", place=Place.SINK, answer=Answer.REFUSED,
        why="the target's topic is a key of the pipeline's file", use="`target.topic`",
    ),
    Setting(
        name="includeHeaders", place=Place.SINK, answer=Answer.WARNED,
        why="it has no effect: headers are always sent",
    ),
)  # fmt: skip
