"""Topics that change during a run: recreated, expired, extended, or unreachable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

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
@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.slow)])
def test_a_recreated_topic_is_never_read_with_old_offsets(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], count: int
) -> None:
    """Recreated between plan and stage, with fewer or more records than planned (Spark alone would
    read the latter): neither the retry nor a new run commits anything.
    """
    name = topic()
    topic_records.numbers(broker.bootstrap, name, 4_000)
    terminal.pipeline("again", [name])
    terminal.run("run", "again", "--run-id", "r", code=86, TIDEGATE_FAULT="plan.frozen:exit")
    recreate(broker, name, count)
    for run_id in ("r", "other"):
        error = terminal.json("run", "again", "--run-id", run_id, code=3)["error"]
        assert error["name"] == "PartitionsLeftOut"
        (left_out,) = error["numbers"]["left_out"]
        assert (left_out["topic"], left_out["reason"]) == (name, "the topic was recreated")
    assert terminal.json("files", "again") == []
    assert not (terminal.lake / "again/data").exists()


@pytest.mark.blackbox
def test_records_that_expire_between_plan_and_stage(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Other partitions are published, and the run fails naming the expired range; with
    `on_expired: skip` the gap is recorded and the run goes on.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 2_000, partitions=2)
    terminal.pipeline("late", [name])
    terminal.run("run", "late", "--run-id", "r", code=86, TIDEGATE_FAULT="plan.frozen:exit")
    topic_records.delete_records(broker.bootstrap, name, {0: 300})
    error = terminal.json("run", "late", "--run-id", "r", code=3)["error"]
    assert error["numbers"]["left_out"] == [
        {"topic": name, "partition": 0, "reason": "expired", "start": 0, "end": 300, "offsets": 300}
    ]
    assert sum(f["rows"] for f in terminal.json("files", "late")) == 1_000
    terminal.pipeline("late", [name], on_expired="skip")
    assert terminal.json("run", "late", "--run-id", "s")["rows"] == 700
    (gap,) = terminal.json("status", "late")["gaps"]
    assert (gap["partition"], gap["start"], gap["end"]) == (0, 0, 300)
    assert (gap["reason"], gap["by"]) == ("expired", "s")
    oracle_client.agree(broker.bootstrap, terminal.lake, "late", [name])


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_partition_added_after_the_plan(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """The current plan does not change; the next one reads the partition from offset 0."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 100, partitions=1)
    terminal.pipeline("grown", [name], start="latest")
    terminal.json("run", "grown")
    topic_records.numbers(broker.bootstrap, name, 100, partitions=1)
    terminal.run("run", "grown", "--run-id", "r", code=86, TIDEGATE_FAULT="plan.frozen:exit")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
    while len(admin.list_topics(name, timeout=10).topics[name].partitions) < 2:
        pass
    topic_records.numbers(broker.bootstrap, name, 50)
    assert terminal.json("run", "grown", "--run-id", "r")["rows"] == 100
    assert terminal.json("run", "grown", "--run-id", "s")["rows"] == 50
    partitions = terminal.json("status", "grown")["topics"][name]["partitions"]
    assert [(p["origin"], p["lag"]) for p in partitions.values()] == [(100, 0), (0, 0)]


@pytest.mark.slow
@pytest.mark.blackbox
def test_publish_needs_no_broker(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Sealed chunks are committed although the broker is unreachable and their records expired."""
    name = topic(partitions=1)
    topic_records.numbers(broker.bootstrap, name, 500, partitions=1)
    terminal.pipeline("sealed", [name])
    terminal.end_at("publish.before", "run", "sealed", "--run-id", "r")
    topic_records.delete_records(broker.bootstrap, name, {0: 500})
    reachable, terminal.bootstrap = terminal.bootstrap, "127.0.0.1:1"
    assert terminal.json("run", "sealed", "--run-id", "r")["rows"] == 500
    terminal.bootstrap = reachable
    found = terminal.json("verify", "sealed", "--against-kafka")
    assert (found["differences"], found["rows"]) == (0, 500)
    assert found["against_kafka"] == {"rows": 0, "expired": 500}


@pytest.mark.leaves("file", "offsets", "unknown")
def test_verify_finds_changed_missing_and_unknown_files(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """A changed byte of a page, a missing and an unknown file: each is named, exit code 3."""
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 900, partitions=3)
    terminal.pipeline("checked", [name], options={"minPartitions": 3})  # a file for each
    terminal.json("run", "checked")
    assert terminal.json("verify", "checked")["differences"] == 0
    first, second, _ = sorted((terminal.lake / "checked/data").rglob("*.parquet"))
    changed = bytearray(first.read_bytes())
    changed[200] ^= 1
    first.unlink()  # the staged copy is a hard link of it
    first.write_bytes(changed)
    second.rename(second.with_name("unknown.parquet"))
    found = terminal.json("verify", "checked", code=3)
    said = [each["what"] for each in found["first"]]
    assert any("checksum" in what.lower() or "crc" in what.lower() for what in said), said
    assert "a file of the lake is missing" in said
    assert "a file that no live commit lists" in said
