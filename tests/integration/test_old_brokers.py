"""Real brokers, from the oldest that Tidegate takes to the newest; one that is too old is refused.

The table of docs/how-to/install.md names these versions.
"""

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from support import old_broker, oracle_client, topic_reader, topic_records
from support.cli_user import Terminal

pytestmark = pytest.mark.slow

RECORDS = 1_000
IN_TRANSACTIONS = 50


@pytest.mark.parametrize("version", [*old_broker.LOCKED, old_broker.LOCAL])
def test_both_ways(tmp_path: Path, version: str) -> None:
    """Ingest of plain and transactional records, egress into a topic that it creates, `verify`,
    progress group, doctor; a topic that was recreated is not read with old offsets.
    """
    with old_broker.running(tmp_path / "broker", version) as bootstrap:
        terminal = Terminal(tmp_path, bootstrap)
        terminal.lake.mkdir()
        topic_records.numbers(bootstrap, "source", RECORDS, partitions=2)
        transactions(bootstrap, "source")
        terminal.pipeline("in", ["source"], max_records=400, progress_group="progress")
        terminal.egress("out", source={"lake": "in"}, target={"topic": "back", "partitions": 2})
        line = version.rpartition(".")[0]
        rows = RECORDS + IN_TRANSACTIONS

        assert terminal.json("run", "in")["rows"] == rows
        oracle_client.agree(bootstrap, terminal.lake, "in", ["source"])
        found = terminal.json("verify", "in", "--against-kafka")
        assert (found["differences"], found["against_kafka"]["rows"]) == (0, rows)
        ends = topic_reader.ends(bootstrap, "source")
        group = topic_records.group_offsets(bootstrap, "progress")
        assert group == {("source", p): end for p, end in ends.items()}

        assert terminal.json("run", "out")["rows"] == rows
        assert sum(topic_reader.ends(bootstrap, "back").values()) == rows
        assert terminal.json("verify", "out", "--against-kafka")["differences"] == 0

        lines = terminal.json("doctor")["checks"]
        assert {each["state"] for each in lines} == {"ok"}
        kafka = [each["says"] for each in lines if each["check"] == "kafka"]
        assert [f": brokers {line}, kafka-python" in says for says in kafka] == [True, True]

        recreate(bootstrap, "source")
        error = terminal.json("run", "in", code=3)["error"]
        (left_out,) = error["numbers"]["left_out"]
        assert (left_out["topic"], left_out["reason"]) == ("source", "the topic was recreated")


def test_a_broker_without_topic_ids(tmp_path: Path) -> None:
    """It is refused by name before anything is planned or created, and by the doctor."""
    with old_broker.running(tmp_path / "broker", old_broker.TOO_OLD) as bootstrap:
        terminal = Terminal(tmp_path, bootstrap)
        terminal.lake.mkdir()
        topic_records.numbers(bootstrap, "source", 10, partitions=1)
        terminal.pipeline("in", ["source"])
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "a.txt").write_text("a\n")
        source = {"path": str(tmp_path / "files"), "format": "text"}
        terminal.egress("out", source=source, target={"topic": "back", "partitions": 1})
        for pipeline in ("in", "out"):
            error = terminal.json("run", pipeline, code=3)["error"]
            assert error["name"] == "BrokerTooOld"
            assert "Metadata up to version 9, as Kafka 2.7 does" in error["message"]
        assert topic_records.names(bootstrap) == {"source"}
        assert not list(terminal.lake.rglob("_tidegate/runs/**/*.json"))  # nothing is planned
        lines = terminal.json("doctor", code=3)["checks"]
        failed = {each["check"]: each["says"] for each in lines if each["state"] == "failure"}
        assert set(failed) == {"kafka", "target"}
        assert "as Kafka 2.7 does" in failed["kafka"]


def transactions(bootstrap: str, topic: str) -> None:
    """Send records of an aborted and of a committed transaction; return once both have ended."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(IN_TRANSACTIONS):
            producer.produce(topic, key=b"k", value=b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0  # what is still queued is never sent when it is aborted
        end(30)
    until, written = time.monotonic() + 30, RECORDS + 2 * IN_TRANSACTIONS + 4  # with their markers
    while sum(topic_reader.ends(bootstrap, topic).values()) < written:
        assert time.monotonic() < until
        time.sleep(0.05)


def recreate(bootstrap: str, topic: str) -> None:
    """Delete a topic and fill a new one of its name with more records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive what it was asked
    admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + 30
    while True:
        try:
            topic_records.create(bootstrap, topic, partitions=2)
            break
        except KafkaException:  # the old one is still being deleted
            assert time.monotonic() < until
            time.sleep(0.2)
    topic_records.numbers(bootstrap, topic, 2 * RECORDS, partitions=2)
