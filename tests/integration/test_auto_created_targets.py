"""A target that is deleted while rows are sent to it, on a broker with Kafka's own default of
`auto.create.topics.enable`: the producer makes it anew, and what it sends is in another topic.
"""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from support import topic_reader, topic_records
from support.cli_user import Terminal
from tidegate_local import kafka
from tidegate_local.kafka import Broker

ROWS = 60_000
SLOW = {"batch.size": 200, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    home = tmp_path_factory.mktemp("creating")
    try:
        yield kafka.start(home, settings={"auto.create.topics.enable": "true"})
    finally:
        kafka.stop(home)


@pytest.mark.faults
def test_a_target_that_comes_back_is_noticed_and_counted(creating: Broker, tmp_path) -> None:
    """Within seconds, with the number of records that are in the wrong topic; the claim stands."""
    terminal = Terminal(tmp_path, creating.bootstrap)
    topic_records.create(creating.bootstrap, "target", partitions=4)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("".join(f"row {n}\n" for n in range(ROWS)))
    source = {"path": str(tmp_path / "in"), "format": "text"}
    terminal.egress("out", source=source, target={"topic": "target", "producer": SLOW})
    said = [each["says"] for each in terminal.json("doctor", "out")["checks"]]
    assert any(each.startswith("the brokers make missing topics") for each in said), said
    with terminal.start("run", "out", "--run-id", "r") as process:
        give_up = time.monotonic() + 120
        while sum(topic_reader.ends(creating.bootstrap, "target").values()) < 500:
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": creating.bootstrap})
        admin.delete_topics(["target"])["target"].result(30)
        deleted = time.monotonic()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert time.monotonic() - deleted < 40
    assert "IdentityChanged" in err
    found = sum(topic_reader.ends(creating.bootstrap, "target").values())
    assert 0 < found < ROWS
    assert f"The new topics hold {found:,} record" in err
    assert len(terminal.json("status", "out")["open_claims"]) == 1


@pytest.mark.slow
def test_a_missing_target_is_not_made_by_asking(creating: Broker, tmp_path) -> None:
    """Neither by explain, nor by plan, nor by the doctor."""
    terminal = Terminal(tmp_path, creating.bootstrap)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("row\n")
    source = {"path": str(tmp_path / "in"), "format": "text"}
    terminal.egress("out", source=source, target={"topic": "missing"})
    for command in (("explain", "out"), ("run", "out"), ("doctor", "out"), ("status", "out")):
        terminal.run(*command, code=None)
    assert "missing" not in topic_records.names(creating.bootstrap)
