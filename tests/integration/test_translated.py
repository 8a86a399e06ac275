"""Configurations as they are in the world, translated and run against a real broker."""

from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from support import topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

TRANSLATED = Path(__file__).parents[1] / "unit/pipelines/translated"

pytestmark = pytest.mark.slow


def stop_group(broker: Broker, group: str, topic: str, offset: int) -> None:
    """Commit one offset for both partitions of a topic, as a consumer that was stopped there."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [TopicPartition(topic, partition, offset) for partition in (0, 1)]
    asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
    asked[group].result(30)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("consumer.properties", {"orders": 60, "refunds": 40}),
        # its group has stopped at offset 10 of both partitions of orders
        ("s3_sink.json", {"orders": 40, "refunds": 40}),
        ("structured_stream.json", {"orders": 60}),
    ],
)
def test_a_translated_configuration_is_run(
    name: str, rows: dict[str, int], broker: Broker, tmp_path: Path
) -> None:
    """Only its topics and its lake are those of the test; a second run has nothing to read."""
    terminal = Terminal(tmp_path, broker.bootstrap)
    mark = name.partition("_")[0]
    text = (TRANSLATED / name).read_text()
    text = text.replace('"orders"', f'"orders.{mark}"').replace('"refunds"', f'"refunds.{mark}"')
    text = text.replace("orders,refunds", f"orders.{mark},refunds.{mark}")
    file = tmp_path / name
    file.write_text(text)
    for topic, count in (("orders", 60), ("refunds", 40)):
        topic_records.numbers(broker.bootstrap, f"{topic}.{mark}", count, partitions=2)
    stop_group(broker, "connect-orders-s3", f"orders.{mark}", 10)

    done = terminal.run("translate", str(file))
    lines = done.stdout.splitlines()
    (pipeline,) = (line.removeprefix("name: ") for line in lines if line.startswith("name: "))
    lines = [f"lake: {terminal.lake}" if line.startswith("lake: ") else line for line in lines]
    terminal.pipelines.mkdir()
    (terminal.pipelines / f"{pipeline}.yaml").write_text("\n".join(lines))
    assert terminal.json("run", pipeline)["rows"] == sum(rows.values())
    assert terminal.json("run", pipeline)["rows"] == 0
    found = dict.fromkeys(rows, 0)
    for each in terminal.json("files", pipeline):
        found[each["topic"].partition(".")[0]] += each["rows"]
    assert found == rows
    assert terminal.json("verify", pipeline, "--against-kafka")["differences"] == 0
