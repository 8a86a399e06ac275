"""Every setting of a producer that is accepted arrives at the producer, as it logs itself."""

from pathlib import Path

import pytest

from support import client_configs, topic_records
from support.cli_user import Terminal
from tidegate.settings import kafka_clients
from tidegate.settings.setting import Answer, Place
from tidegate.settings.sink_settings import READING
from tidegate.settings.table import TABLE
from tidegate_local.kafka import Broker

GIVEN = {
    "acks": "all",
    "auto.include.jmx.reporter": "false",
    "batch.size": "20000",
    "buffer.memory": "40000000",
    "compression.gzip.level": "5",
    "compression.lz4.level": "8",
    "compression.type": "gzip",
    "compression.zstd.level": "4",
    "connections.max.idle.ms": "300001",
    "delivery.timeout.ms": "90000",
    "enable.idempotence": "true",
    "enable.metrics.push": "false",
    "linger.ms": "11",
    "max.block.ms": "15000",
    "max.in.flight.requests.per.connection": "4",
    "max.request.size": "900000",
    "metadata.max.age.ms": "200000",
    "metadata.max.idle.ms": "200001",
    "metadata.recovery.strategy": "rebootstrap",
    "metrics.num.samples": "3",
    "metrics.recording.level": "DEBUG",
    "metrics.sample.window.ms": "20000",
    "partitioner.adaptive.partitioning.enable": "false",
    "partitioner.availability.timeout.ms": "5",
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    "partitioner.ignore.keys": "false",
    "receive.buffer.bytes": "40000",
    "reconnect.backoff.max.ms": "1500",
    "reconnect.backoff.ms": "60",
    "request.timeout.ms": "25000",
    "retries": "100",
    "retry.backoff.max.ms": "1200",
    "retry.backoff.ms": "110",
    "send.buffer.bytes": "140000",
    "socket.connection.setup.timeout.max.ms": "29000",
    "socket.connection.setup.timeout.ms": "9000",
}
READ = {
    "client.rack": "r1",
    "default.api.timeout.ms": "61000",
    "fetch.max.bytes": "1000001",
    "fetch.max.wait.ms": "12",
    "fetch.min.bytes": "2",
    "max.partition.fetch.bytes": "1000002",
    "max.poll.records": "7",
}


@pytest.mark.slow
def test_accepted_settings_reach_the_clients(broker: Broker, topic: str, tmp_path: Path) -> None:
    """The producer of the tasks, the consumers of the read-back, and the driver's admin client: by
    Spark's names in capitals, and by the short form, once each.
    """
    accepted = {
        each.name.removeprefix("kafka.")
        for each in TABLE
        if each.place is Place.SINK
        and each.answer is Answer.ACCEPTED
        and each.name.startswith("kafka.")
    }
    assert accepted == GIVEN.keys() | READ.keys()
    assert {f"kafka.{name}" for name in READ} == {n for n in READING if n.startswith("kafka.")}
    topic_records.create(broker.bootstrap, topic, partitions=2)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("x\ny\n")
    names = sorted(GIVEN)
    producer = {name.upper(): GIVEN[name] for name in names[::2]}
    options = {f"KAFKA.{name.upper()}": GIVEN[name] for name in names[1::2]}
    options |= {f"kafka.{name}": value for name, value in READ.items()}
    terminal = Terminal(tmp_path, broker.bootstrap, processes=True)
    terminal.egress(
        "out", source={"path": str(tmp_path / "in"), "format": "text"},
        target={"topic": topic, "producer": producer, "options": options},
        spark={"conf": {"spark.log.level": "INFO"}},
    )  # fmt: skip
    output = client_configs.output_of(terminal.run("run", "out"))
    (sender,) = client_configs.logged(output, "ProducerConfig")
    expected = {**GIVEN, "acks": "-1"}  # how the client writes `all`
    assert {name: sender[name] for name in GIVEN} == expected
    readers = client_configs.logged(output, "ConsumerConfig")
    assert readers
    for reader in readers:
        assert {name: reader[name] for name in READ} == READ
    of_driver = client_configs.logged(output, "AdminClientConfig")
    name = "default.api.timeout.ms"  # the only one of READ that an admin client has
    assert READ.keys() & (kafka_clients.COMMON.keys() | kafka_clients.ADMIN.keys()) == {name}
    assert {each[name] for each in of_driver} == {READ[name]}
