"""Options of Spark's source on a real broker, read back from the clients that work with them."""

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from support import client_configs, oracle_client, spark_cluster, topic_records
from support.cli_user import Terminal
from support.spark_cluster import Cluster
from tidegate.settings import kafka_clients
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE
from tidegate_local import kafka
from tidegate_local.kafka import Broker

# Each differs from the defaults of Kafka, Spark and Tidegate; together they are valid, and fast.
CONSUMER = {
    "kafka.allow.auto.create.topics": "false",
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.check.crcs": "true",  # the only value
    "kafka.client.rack": "rack-1",
    "kafka.connections.max.idle.ms": "540001",
    "kafka.default.api.timeout.ms": "60001",
    "kafka.enable.metrics.push": "false",
    "kafka.exclude.internal.topics": "false",
    "kafka.fetch.max.bytes": "52428801",
    "kafka.fetch.max.wait.ms": "11",
    "kafka.fetch.min.bytes": "2",
    "kafka.group.protocol": "classic",
    "kafka.heartbeat.interval.ms": "3001",
    "kafka.isolation.level": "read_committed",
    "kafka.max.partition.fetch.bytes": "1048577",
    "kafka.max.poll.interval.ms": "300001",
    "kafka.max.poll.records": "501",
    "kafka.metadata.max.age.ms": "300001",
    "kafka.metadata.recovery.strategy": "rebootstrap",
    "kafka.metrics.num.samples": "3",
    "kafka.metrics.recording.level": "DEBUG",
    "kafka.metrics.sample.window.ms": "30001",
    "kafka.receive.buffer.bytes": "65537",
    "kafka.reconnect.backoff.max.ms": "1001",
    "kafka.reconnect.backoff.ms": "51",
    "kafka.request.timeout.ms": "30001",
    "kafka.retry.backoff.max.ms": "1002",
    "kafka.retry.backoff.ms": "101",
    "kafka.send.buffer.bytes": "131073",
    "kafka.session.timeout.ms": "45001",
    "kafka.socket.connection.setup.timeout.max.ms": "30001",
    "kafka.socket.connection.setup.timeout.ms": "10001",
}
SAYS_CONFIGS = """\
rootLogger.level=WARN
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%p %c{1}: %m%n
logger.consumer.name=org.apache.kafka.clients.consumer.ConsumerConfig
logger.consumer.level=INFO
"""


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


def test_there_is_a_value_for_every_setting() -> None:
    """Of the consumer; a new one of the table must be read back, too."""
    passing = (Answer.ACCEPTED, Answer.WARNED)
    names = {
        each.name
        for each in TABLE
        if each.place is Place.SOURCE and each.name.startswith("kafka.") and each.answer in passing
    }
    assert names - {"kafka.group.id"} == CONSUMER.keys() - {"kafka.isolation.level"}


@pytest.mark.slow
def test_every_setting_arrives_at_an_executors_consumer(
    spark: Cluster, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Read from the log of a consumer in another process, and, as far as it knows them, of the
    driver's admin client (section 5 of the requirements).
    """
    connection = {"conn_type": "spark", "host": spark.master}
    terminal = Terminal(
        tmp_path, broker.bootstrap,
        environ={"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
                 "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    log4j = tmp_path / "log4j2.properties"
    log4j.write_text(SAYS_CONFIGS)
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 400, partitions=2)
    conf = {
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        "spark.log.level": "INFO",
    }
    terminal.pipeline(
        "options", [name], options={**CONSUMER, "groupIdPrefix": "team-a"}, spark={"conf": conf}
    )
    done = terminal.run("run", "options", "--run-id", "the run", "--json")
    report = json.loads(done.stdout)
    assert report["rows"] == 400
    logs = [path.read_text() for path in spark.home.glob("work/app-*/*/stderr")]
    group = f"team-a-{report['plan_id']}"
    found = [
        each
        for log in logs
        for each in client_configs.logged(log, "ConsumerConfig")
        if each["group.id"] == group
    ]
    assert found
    expected = {name.removeprefix("kafka."): value for name, value in CONSUMER.items()}
    for each in found:
        assert {name: each[name] for name in expected} == expected
        # What no option can change.
        assert (each["auto.offset.reset"], each["enable.auto.commit"]) == ("none", "false")
        assert re.fullmatch(r"tidegate-options-stage-the_run-[0-9a-f]{16}", each["client.id"])
    of_driver = client_configs.logged(client_configs.output_of(done), "AdminClientConfig")
    known = kafka_clients.COMMON.keys() | kafka_clients.ADMIN.keys()
    expected = {name: value for name, value in expected.items() if name in known}
    assert len(expected) > 10
    assert of_driver
    for each in of_driver:
        assert {name: each[name] for name in expected} == expected
    oracle_client.agree(broker.bootstrap, terminal.lake, "options", [name])


def test_tasks_are_those_of_the_options(terminal: Terminal, topic: Callable[..., str]) -> None:
    """What `explain` counts is what Spark writes: one file for each task."""
    name = topic(partitions=2)
    topic_records.numbers(terminal.bootstrap, name, 1_000, partitions=2)
    options = {"minPartitions": 5, "maxRecordsPerPartition": 400}
    terminal.pipeline("tasks", [name], options=options)
    explained = terminal.json("explain", "tasks")
    assert explained["splits"] >= 5
    assert terminal.json("run", "tasks")["rows"] == 1_000
    assert len(terminal.json("files", "tasks")) == explained["files"]


def test_a_group_id_of_the_user(terminal: Terminal, topic: Callable[..., str]) -> None:
    """Accepted, with Spark's warning, once; nothing is committed to the group."""
    name = topic(partitions=1)
    topic_records.numbers(terminal.bootstrap, name, 50, partitions=1)
    terminal.pipeline("grouped", [name], options={"kafka.group.id": "theirs"})
    done = terminal.run("run", "grouped")
    assert done.stderr.count("kafka.group.id: Spark warns about it") == 1
    assert group_offsets(terminal.bootstrap, "theirs") == {}
    oracle_client.agree(terminal.bootstrap, terminal.lake, "grouped", [name])


@pytest.mark.slow
def test_no_run_has_a_member_of_a_group(terminal: Terminal, topic: Callable[..., str]) -> None:
    """Neither while two runs read nor after them: the consumers only read, and are closed; also
    with a group id of the user, and a group that shows the progress.
    """
    terminal = Terminal(terminal.home, terminal.bootstrap, processes=True)  # as runs are
    name = topic(partitions=2)
    lag = f"lag-{name}"
    terminal.pipeline("leaves", [name], options={"kafka.group.id": "theirs"}, progress_group=lag)
    seen: list[set[str]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            seen.append(members(terminal.bootstrap))
            ended.wait(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for first in (0, 2_000):
            topic_records.numbers(terminal.bootstrap, name, 2_000, partitions=2, first=first)
            assert terminal.json("run", "leaves")["rows"] == 2_000
    finally:
        ended.set()
        watcher.join()
    assert len(seen) > 2
    assert {*seen[0]}.union(*seen, members(terminal.bootstrap)) == set()
    assert group_offsets(terminal.bootstrap, lag) == {(name, 0): 2_000, (name, 1): 2_000}
    # A consumer that joins is found.
    joining = Consumer(
        {"bootstrap.servers": terminal.bootstrap, "group.id": lag, "client.id": "joins"}
    )
    joining.subscribe([name])
    until = time.monotonic() + 30
    while members(terminal.bootstrap) != {"joins"}:
        assert time.monotonic() < until
        joining.poll(0.1)
    joining.close()


def members(bootstrap: str) -> set[str]:
    """Return the client ids of the members of all consumer groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    groups = [each.group_id for each in admin.list_consumer_groups().result(30).valid]
    asked = admin.describe_consumer_groups(groups) if groups else {}
    return {member.client_id for each in asked.values() for member in each.result(30).members}


@pytest.mark.faults
def test_no_group_offsets_before_the_commit(terminal: Terminal, topic: Callable[..., str]) -> None:
    """Wherever a run is killed before its data is committed, the group has no offset."""
    name = topic(partitions=1)
    topic_records.numbers(terminal.bootstrap, name, 50, partitions=1)
    group = f"lag-{name}"
    terminal.pipeline("late", [name], progress_group=group)
    for point in ("plan.frozen", "seal.written", "publish.before", "ledger.judged"):
        terminal.run("run", "late", "--run-id", "r", code=86, TIDEGATE_FAULT=f"{point}:exit")
        assert group_offsets(terminal.bootstrap, group) == {}
    terminal.run("run", "late", "--run-id", "r")
    assert group_offsets(terminal.bootstrap, group) == {(name, 0): 50}


def group_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(tp.topic, tp.partition): tp.offset for tp in asked[group].result(30).topic_partitions}


def test_a_first_address_that_is_dead(
    broker: Broker, tmp_path: Path, topic: Callable[..., str]
) -> None:
    """Planner, Spark's source and sink, and the doctor go on to the next one: each time, though
    kafka-python draws the address that it begins with.
    """
    with socket.socket() as bound:  # nobody listens, and nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        terminal = Terminal(tmp_path, f"127.0.0.1:{bound.getsockname()[1]},{broker.bootstrap}")
        source, target = topic(partitions=2), topic(partitions=2)
        topic_records.numbers(broker.bootstrap, source, 100, partitions=2)
        terminal.pipeline("inwards", [source])
        assert terminal.json("run", "inwards")["rows"] == 100
        terminal.egress("outwards", source={"lake": "inwards"}, target={"topic": target})
        assert terminal.json("run", "outwards")["rows"] == 100
        lines = terminal.json("doctor", "inwards")["checks"]
        assert [each["state"] for each in lines if each["check"] == "kafka"] == ["ok"]
    oracle_client.agree(broker.bootstrap, terminal.lake, "inwards", [source])


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Broker]:
    home = tmp_path / "mortal"
    try:
        yield kafka.start(home)
    finally:
        with contextlib.suppress(ProcessLookupError):
            kafka.stop(home)


@pytest.mark.faults
@pytest.mark.parametrize(("tries", "code"), [(8, 0), (2, 4)], ids=["within", "beyond"])
def test_an_outage_when_it_plans(tmp_path: Path, mortal: Broker, tries: int, code: int) -> None:
    """The planner tries to connect as often as the options say."""
    terminal = Terminal(tmp_path, mortal.bootstrap, processes=True)
    topic_records.numbers(mortal.bootstrap, "outage", 100, partitions=1)
    options: dict[str, Any] = {"fetchOffset.numRetries": tries, "fetchOffset.retryIntervalMs": 500}
    terminal.pipeline("outage", ["outage"], options=options)
    kafka.kill(mortal.home)
    # Each try has 8 s to connect: two of them have ended before the broker is back, eight have not.
    back = threading.Timer(25, lambda: kafka.start(mortal.home))
    back.start()
    began = time.monotonic()
    try:
        done = terminal.run("run", "outage", "--run-id", "r", code=code)
        took = time.monotonic() - began
    finally:
        back.join()
    if code:
        assert "BrokerUnreachable" in done.stderr
        assert 16 <= took < 25
        assert terminal.json("run", "outage", "--run-id", "r")["rows"] == 100
    oracle_client.agree(mortal.bootstrap, terminal.lake, "outage", ["outage"])
