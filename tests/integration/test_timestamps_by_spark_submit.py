"""The class that keeps timestamps reaches the JVM of a run."""

from collections.abc import Callable
from pathlib import Path

from support import topic_reader, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


def test_there_and_back(broker: Broker, tmp_path: Path, topic: Callable[..., str]) -> None:
    name, target = topic(partitions=2), topic(partitions=2)
    user = Terminal(tmp_path, broker.bootstrap, processes=True)
    topic_records.numbers(broker.bootstrap, name, 40, partitions=2)
    user.pipeline("there", [name])
    user.run("run", "there")
    user.egress("back", source={"lake": "there"}, target={"topic": target, "timestamps": "source"})
    user.run("run", "back")
    there, back = (
        [(each.partition, each.offset, each.value, each.timestamp)
         for each in topic_reader.read(broker.bootstrap, each_topic)]
        for each_topic in (name, target)
    )  # fmt: skip
    assert back == there
