"""A user whom the broker throttles is served later: nothing is lost, and nothing fails."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import oracle_client, spark_session, topic_reader, topic_records
from support.cli_user import Terminal
from support.secured_broker import PASSWORD, SecuredBroker

USER = "throttled"
RECORDS, SIZE = 800, 20_000  # 16 MB
RATE = 400_000.0  # bytes per second
SLOWER = 4.0  # seconds


@contextmanager
def quotas(secured: SecuredBroker, **rates: float | None) -> Iterator[None]:
    """Limit the user's bytes per second, by the names of Kafka's quotas."""
    if rates:
        set_quotas(secured, rates)
    try:
        yield
    finally:
        if rates:
            set_quotas(secured, dict.fromkeys(rates))


def set_quotas(secured: SecuredBroker, rates: Mapping[str, float | None]) -> None:
    jvm = spark_session.shared()._jvm
    quota, util = jvm.org.apache.kafka.common.quota, jvm.java.util
    properties = util.Properties()
    properties.put("bootstrap.servers", secured.admin)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    change = getattr(quota, "ClientQuotaAlteration$Op")
    changes = util.ArrayList()
    for name, rate in rates.items():
        changes.add(change(name, rate))
    entity = quota.ClientQuotaEntity(util.Collections.singletonMap("user", USER))
    altered = util.Collections.singletonList(quota.ClientQuotaAlteration(entity, changes))
    try:
        client.alterClientQuotas(altered).all().get()
    finally:
        client.close()


def fill(bootstrap: str, topic: str) -> None:
    topic_records.create(bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(RECORDS):
        producer.produce(topic, os.urandom(SIZE))
    assert producer.flush(60) == 0


def seconds(terminal: Terminal, pipeline: str) -> float:
    started = time.monotonic()
    assert terminal.json("run", pipeline)["rows"] == RECORDS
    return time.monotonic() - started


@pytest.mark.slow
def test_a_throttled_user_loses_nothing(secured: SecuredBroker, tmp_path: Path) -> None:
    """Both ways; a run of the same size without quotas is the measure."""
    secured.set_password(USER, PASSWORD)
    secured.allow(USER, "topic", "*", "DESCRIBE", "READ", "WRITE", "DESCRIBE_CONFIGS")
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": USER, "sasl_password": PASSWORD}
    extra = secured.connection("LOGIN", **login)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra)
    taken = {}
    limits = {"free": {}, "slow": dict.fromkeys(("consumer_byte_rate", "producer_byte_rate"), RATE)}
    for name, rates in limits.items():
        topic, target = f"quota-{name}", f"quota-{name}-out"
        fill(secured.admin, topic)
        topic_records.create(secured.admin, target, partitions=2)
        terminal.pipeline(name, [topic])
        terminal.egress(f"{name}_out", source={"lake": name}, target={"topic": target})
        with quotas(secured, **rates):
            taken[name] = seconds(terminal, name), seconds(terminal, f"{name}_out")
        oracle_client.agree(secured.admin, terminal.lake, name, [topic])
        sent = topic_reader.read(secured.admin, target)
        assert sorted(each.value for each in sent) == sorted(
            each.value for each in topic_reader.read(secured.admin, topic)
        )
    print(taken)
    for free, slow in zip(taken["free"], taken["slow"], strict=True):
        assert slow > free + SLOWER
