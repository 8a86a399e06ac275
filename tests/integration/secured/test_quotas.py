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
RECORDS, SIZE = 400, 20_000  # 8 MB
RATE = 400_000.0  # bytes per second
SLOWER = 4.0  # seconds
WINDOW = 12.0  # seconds; the broker counts what was read and sent in the last 11


@contextmanager
def quotas(secured: SecuredBroker, **rates: float | None) -> Iterator[None]:
    """Limit the user's bytes per second, by the names of Kafka's quotas."""
    if rates:
        time.sleep(WINDOW)
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


def throttled(secured: SecuredBroker, home: Path, *, processes: bool = False) -> Terminal:
    """Return a terminal of the user whose quotas are set."""
    secured.set_password(USER, PASSWORD)
    secured.allow(USER, "topic", "*", "DESCRIBE", "READ", "WRITE", "DESCRIBE_CONFIGS")
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": USER, "sasl_password": PASSWORD}
    extra = secured.connection("LOGIN", **login)
    return Terminal(home, extra["bootstrap.servers"], extra, processes=processes)


@pytest.mark.slow
def test_a_user_with_little_time_of_the_brokers_threads(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    """Every request is throttled, the planner's too: nothing fails, and no broker is called
    unreachable.
    """
    terminal = throttled(secured, tmp_path)
    topic_records.numbers(secured.admin, "quota-requests", 400, partitions=2)
    topic_records.create(secured.admin, "quota-requests-out", partitions=2)
    options = {"kafkaConsumer.pollTimeoutMs": 120_000}
    terminal.pipeline("requests", ["quota-requests"], options=options)
    target = {"topic": "quota-requests-out", "options": options}
    terminal.egress("requests_out", source={"lake": "requests"}, target=target)
    with quotas(secured, request_percentage=0.5):
        said = ""
        for command in ("doctor", "run", "status"):
            for name in ("requests", "requests_out"):
                done = terminal.run(command, name, code=None if command == "doctor" else 0)
                said += done.stdout + done.stderr
    assert "nreachable" not in said
    assert len(topic_reader.read(secured.admin, "quota-requests-out")) == 400


@pytest.mark.slow
def test_a_throttle_that_is_longer_than_the_time_out_of_a_poll(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    """A record of 200 KB at 40 KB a second holds the next one back for 5 s: a time-out of 3 s is
    too short, and `pollTimeoutMs` is the way out, for an ingest and for the read-back of an egress.
    """
    terminal = throttled(secured, tmp_path, processes=True)  # as runs with other options are
    topic, target = "quota-poll", "quota-poll-out"
    for name in (topic, target):
        topic_records.create(secured.admin, name, partitions=1)
    producer = Producer({"bootstrap.servers": secured.admin})
    for _ in range(3):
        producer.produce(topic, os.urandom(200_000))
        assert producer.flush(60) == 0  # a batch of its own
    short, longer = {"kafkaConsumer.pollTimeoutMs": 3_000}, {"kafkaConsumer.pollTimeoutMs": 300_000}
    fetched = {"kafka.max.partition.fetch.bytes": 100_000}  # a record in each response

    def ingest(given: dict[str, int]) -> None:
        terminal.pipeline("slow", [topic], options=given | fetched)

    def egress(given: dict[str, int]) -> None:
        options = given | fetched
        sent_to = {"topic": target, "options": options}
        terminal.egress("slow_out", source={"lake": "slow"}, target=sent_to)

    with quotas(secured, consumer_byte_rate=40_000.0):
        ingest(short)
        failed = terminal.run("run", "slow", code=None)
        assert failed.returncode not in (0, 2)
        assert "nreachable" not in failed.stderr
        ingest(longer)
        assert terminal.json("run", "slow")["rows"] == 3
        egress(short)
        failed = terminal.run("run", "slow_out", code=None)
        assert failed.returncode not in (0, 2)
        egress(longer)
        report = terminal.json("run", "slow_out")
    assert (report["rows"], report["duplicates"]) == (3, 0)
    assert len(topic_reader.read(secured.admin, target)) == 3


@pytest.mark.slow
def test_a_throttled_user_loses_nothing(secured: SecuredBroker, tmp_path: Path) -> None:
    """Both ways; a run of the same size without quotas is the measure."""
    terminal = throttled(secured, tmp_path)
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
