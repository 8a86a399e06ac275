"""Topic patterns, progress groups and starting at a group's offsets, on a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support import oracle_client, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


def group_offsets(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(30).topic_partitions
    return {(tp.topic, tp.partition): tp.offset for tp in found}


def set_group(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [TopicPartition(topic, p, offset) for (topic, p), offset in offsets.items()]
    asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
    asked[group].result(30)


@pytest.mark.blackbox
def test_added_and_deleted_topics(terminal: Terminal, broker: Broker) -> None:
    """New topics and partitions are read from their first record; a deleted topic is reported until
    `exclude` has it, and never stops the others.
    """
    for name in ("tides.north", "tides.south", "tides.test", "other.north"):
        topic_records.numbers(broker.bootstrap, name, 200, partitions=2)
    form: dict[str, Any] = {"pattern": r"tides\..*", "exclude": r".*\.test"}
    terminal.pipeline("tides", [], **form)
    assert terminal.json("run", "tides")["rows"] == 400
    topic_records.numbers(broker.bootstrap, "tides.east", 300, partitions=3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("tides.north", 3)])["tides.north"].result(30)
    topic_records.numbers(broker.bootstrap, "tides.north", 90, first=200)
    report = terminal.json("run", "tides", "--run-id", "grown")
    assert report["rows"] == 390
    topics = report["commits"][0]["topics"]
    assert {t: sorted(partitions) for t, partitions in topics.items()} == {
        "tides.east": ["0", "1", "2"],
        "tides.north": ["0", "1", "2"],
    }
    plan = terminal.lake / "tides/_tidegate/plans" / f"{report['plan_id']}.note.json"
    assert '"taken_up":{"tides.east":[0,1,2],"tides.north":[2]}' in plan.read_text()
    status = terminal.json("status", "tides")["topics"]
    assert set(status) == {"tides.east", "tides.north", "tides.south"}
    seen = ["tides.east", "tides.north", "tides.south"]
    oracle_client.agree(broker.bootstrap, terminal.lake, "tides", seen)

    gone = status["tides.south"]["topic_id"]
    admin.delete_topics(["tides.south"])["tides.south"].result(30)
    topic_records.numbers(broker.bootstrap, "tides.east", 30, first=300)
    refused = terminal.json("run", "tides", code=3)["error"]
    assert refused["numbers"]["left_out"] == [
        {"topic": "tides.south", "partition": None, "reason": "no such topic", "was": gone}
    ]
    assert "add it to `exclude`" in refused["message"]
    assert terminal.json("status", "tides")["topics"]["tides.east"]["partitions"]["0"]["lag"] == 0
    form["exclude"] = r".*\.(test|south)"
    terminal.pipeline("tides", [], **form)
    assert terminal.json("run", "tides")["rows"] == 0
    assert sum(each["rows"] for each in terminal.json("files", "tides")) == 820
    assert terminal.json("verify", "tides")["differences"] == 0


def test_a_pattern_that_matches_nothing(terminal: Terminal, broker: Broker) -> None:
    """A pattern without topics is an error."""
    terminal.pipeline("typo", [], pattern=r"tydes\..*")
    error = terminal.json("run", "typo", code=3)["error"]
    assert error["name"] == "UnknownTopic"
    assert r"/tydes\..*/" in error["message"]
    assert not terminal.lake.exists()


@pytest.mark.slow
def test_cursors_for_lag_tools(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """A group's offsets follow the commits; a group with members does not fail the run, and
    `reconcile` without Airflow rewrites offsets that were reset.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 100, partitions=2)
    terminal.pipeline("lag", [name], progress_group="watch-lag")
    terminal.run("run", "lag")
    ends = {(name, 0): 50, (name, 1): 50}
    assert group_offsets(broker, "watch-lag") == ends
    set_group(broker, "watch-lag", {(name, 0): 7})
    found = terminal.json("reconcile", "lag")
    drift = {"topic": name, "partition": 0, "shown": 7, "ledger": 50}
    assert found["group"] == {"name": "watch-lag", "drifts": [drift], "error": None}
    assert found["variables"] is None
    assert group_offsets(broker, "watch-lag") == ends
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "watch-lag"}
    )  # fmt: skip
    try:
        member.subscribe([name])
        while not member.assignment():
            member.poll(0.1)
        topic_records.numbers(broker.bootstrap, name, 20, first=100)
        done = terminal.run("run", "lag", "--json")
    finally:
        member.close()
    assert "group watch-lag" in done.stderr
    assert terminal.json("status", "lag")["topics"][name]["partitions"]["0"]["cursor"] == 60


def test_starting_where_a_group_stopped(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Only for a topic's first plan; a partition without a committed offset begins at the log
    start.
    """
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=3)
    set_group(broker, "legacy", {(name, 0): 40, (name, 1): 100})
    terminal.pipeline("takes-over", [name], start={"group": "legacy"})
    assert terminal.json("run", "takes-over")["rows"] == 60 + 0 + 100
    set_group(broker, "legacy", {(name, 0): 0, (name, 1): 0})
    assert terminal.json("run", "takes-over")["rows"] == 0
    origins = terminal.json("offsets", "show", "takes-over")["topics"][name]["origins"]
    assert origins == {"0": 40, "1": 100, "2": 0}
