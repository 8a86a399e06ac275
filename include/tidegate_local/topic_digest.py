"""A digest of the records of a topic, read by a client that the pipelines do not use."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import active_children, get_context

from confluent_kafka import Consumer, KafkaException, TopicPartition

_TIMEOUT = 30.0
_AT_ONCE = 10_000


@dataclass(frozen=True)
class TopicDigest:
    """The number of records of a topic, and a digest of their sequence per partition."""

    records: int
    digests: Mapping[int, str]


def read_all(bootstrap: str, topics: Sequence[str]) -> list[TopicDigest]:
    """Read topics at the same time, each in a process of its own."""
    with ProcessPoolExecutor(len(topics), get_context("spawn")) as pool:
        try:
            return list(pool.map(_read_all_of, [bootstrap] * len(topics), topics))
        except KeyboardInterrupt:
            for process in active_children():
                process.kill()
            raise


def _read_all_of(bootstrap: str, topic: str) -> TopicDigest:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that waits
    try:
        return read(bootstrap, topic)
    except KafkaException as error:  # which no other process can be given
        raise RuntimeError(f"{topic}: {error}") from None


def read(bootstrap: str, topic: str) -> TopicDigest:
    """Read keys, values and headers of all records, without the header of provenance."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tidegate-demo",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions
        read = {p: _read(consumer, topic, p) for p in sorted(partitions)}
    finally:
        consumer.close()
    return TopicDigest(
        sum(n for n, _ in read.values()), {p: digest for p, (_, digest) in read.items()}
    )


def _read(consumer: Consumer, topic: str, partition: int) -> tuple[int, str]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT)
    consumer.assign([TopicPartition(topic, partition, low)])
    digest, at, records = hashlib.sha256(), low, 0
    deadline = time.monotonic() + _TIMEOUT
    while at < high:
        # `consume` waits for as many as it is asked for: ask for no more than there are.
        messages = consumer.consume(min(_AT_ONCE, high - at), timeout=1.0)
        if messages:
            deadline = time.monotonic() + _TIMEOUT
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{topic}-{partition}: nothing for {_TIMEOUT:.0f} s at offset {at}")
        for message in messages:
            if error := message.error():
                raise RuntimeError(f"{topic}-{partition}: {error}")
            own = [h for h in message.headers() or () if h[0] != "tidegate"]
            digest.update(repr((message.key(), message.value(), own)).encode())
            at, records = message.offset() + 1, records + 1
    return records, digest.hexdigest()
