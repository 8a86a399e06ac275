"""The keeper's commands on a real broker: a topic is adopted, offsets are skipped, all is told."""

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
    """Delete a topic, make it again, and fill it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        pass
    topic_records.numbers(broker.bootstrap, topic, count)


def test_a_recreated_topic_is_adopted(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """With more records than before: left out until it is adopted, then read from its own start,
    every record once, while the rows of the old topic stay.
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


def test_skipped_offsets_are_never_read(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """The next run begins at the cursor that was set; the gap says why."""
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


def test_repair_after_a_crash(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """A commit that was not placed, and a copy that somebody made: both are put right, by a
    command that needs no broker.
    """
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 300)
    terminal.pipeline("mends", [name])
    terminal.run("run", "mends", code=86, TIDEGATE_FAULT="publish.committed:exit")
    stranger = terminal.lake / "mends/data/topic=x/copy.parquet"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"not ours")
    terminal.bootstrap = "127.0.0.1:1"
    found = terminal.json("repair", "mends")
    assert (found["placed"], len(found["quarantined"])) == ([2], 1)
    assert not stranger.exists()
    oracle_client.agree(broker.bootstrap, terminal.lake, "mends", [name])
