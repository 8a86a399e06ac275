"""Maintenance commands on a real broker: adopt a topic, skip offsets, repair."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support import oracle_client, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


def recreate(broker: Broker, topic: str, count: int) -> None:
    """Delete a topic, create it again, and fill it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        pass
    topic_records.numbers(broker.bootstrap, topic, count)


@pytest.mark.blackbox
def test_a_recreated_topic_is_adopted(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Recreated with more records: excluded until it is adopted, then read from its log start,
    every record once; the rows of the old topic stay.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 400)
    terminal.pipeline("adopts", [name])
    assert terminal.json("run", "adopts")["rows"] == 400
    old = terminal.json("files", "adopts")
    recreate(broker, name, 900)
    error = terminal.json("run", "adopts", code=3)["error"]
    assert "tidegate offsets adopt adopts" in error["message"]
    refused = terminal.run(
        "offsets", "set", "adopts", name, "0", "300", "--reason", "x", code=3
    ).stderr
    assert f"tidegate offsets adopt adopts {name}" in " ".join(refused.split())
    adopted = terminal.json("offsets", "adopt", "adopts", name, "--reason", "restored")
    assert adopted["was"] == old[0]["topic_id"]
    assert terminal.json("run", "adopts")["rows"] == 900
    listed = terminal.json("files", "adopts")
    new = [each for each in listed if each["topic_id"] == adopted["topic_id"]]
    assert [each for each in listed if each not in new] == old
    only_new = terminal.home / "files.json"
    only_new.write_text(json.dumps(new))
    oracle_client.agree(broker.bootstrap, terminal.lake, "adopts", [name], files=only_new)
    assert terminal.json("verify", "adopts")["differences"] == 0


@pytest.mark.blackbox
def test_skipped_offsets_are_never_read(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """The next run begins at the new cursor; the gap has the reason."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 1_000)
    terminal.pipeline("skips", [name])
    terminal.run("run", "skips")
    topic_records.numbers(broker.bootstrap, name, 1_000, first=1_000)
    moved = terminal.json("offsets", "set", "skips", name, "0", "700", "--reason", "poison")
    assert (moved["was"], moved["cursor"]) == (500, 700)
    assert terminal.json("run", "skips")["rows"] == 800
    (gap,) = terminal.json("status", "skips")["gaps"]
    assert (gap["start"], gap["end"], gap["reason"]) == (500, 700, "poison")
    shown = terminal.json("offsets", "show", "skips")
    assert shown["offsets"] == {name: {"0": 1000, "1": 1000}}
    error = terminal.json("offsets", "set", "skips", name, "1", "1001", "--reason", "x", code=3)
    assert error["error"]["name"] == "BeyondEnd"
    report = oracle_client.ask(broker.bootstrap, terminal.lake, "skips", [name])
    assert (report["lake"], report["equal"]) == (1_800, False)
    assert terminal.json("verify", "skips", "--against-kafka")["differences"] == 0


@pytest.mark.blackbox
def test_repair_after_a_crash(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Without a broker, an unplaced commit is placed and an unknown file is quarantined."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 300)
    terminal.pipeline("mends", [name])
    terminal.end_at("publish.committed", "run", "mends", "--run-id", "r")
    unknown = terminal.lake / "mends/data/topic=x/copy.parquet"
    unknown.parent.mkdir(parents=True)
    unknown.write_bytes(b"not ours")
    terminal.bootstrap = "127.0.0.1:1"
    found = terminal.json("repair", "mends")
    assert (found["placed"], len(found["quarantined"])) == ([2], 1)
    assert not unknown.exists()
    oracle_client.agree(broker.bootstrap, terminal.lake, "mends", [name])
