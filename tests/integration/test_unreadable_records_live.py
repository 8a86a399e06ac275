"""Records with a timestamp that Spark cannot convert are found, named and skipped one by one."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from support import oracle_client, topic_records
from support.cli_user import Terminal
from support.handed_in import HERE
from support.ingest_steps import plan
from support.kafka_answers import answer
from tidegate.broker import unreadable
from tidegate.broker.cluster import survey
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.intervals import Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable_records import LATEST_MS, Scan, Unreadable
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run
from tidegate_local.kafka import Broker

ANY_TIME = {
    "message.timestamp.after.max.ms": str(2**63 - 1),  # a broker's default up to 3.x
    "retention.ms": "-1",  # the timestamps are years old
}
NOW = 1_700_000_000_000
NANOSECONDS = 1_700_000_000_000_000_000
MIXED = [NOW, NOW + 5, LATEST_MS, NANOSECONDS, NOW, NOW, LATEST_MS + 1, NANOSECONDS, NOW, NOW]
"""Offsets 3, 6 and 7 are unreadable; the timestamp of offset 2 is far ahead, but readable."""


@pytest.fixture
def kafka(broker: Broker) -> KafkaCluster:
    return KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})


def aborted(broker: Broker, topic: str, timestamp: int) -> None:
    """Send and abort a record: two offsets, no visible record."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=0, timestamp=timestamp)
    producer.flush()
    producer.abort_transaction(30)


def test_they_are_found_by_an_independent_consumer(
    broker: Broker,
    kafka: KafkaCluster,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them, in any order of timestamps, except aborted ones; none in clean logs."""
    name = topic(partitions=2, config=ANY_TIME)
    aborted(broker, name, NANOSECONDS)
    topic_records.stamped(broker.bootstrap, name, 0, MIXED)
    topic_records.stamped(broker.bootstrap, name, 1, [NOW, LATEST_MS, NOW])
    dirty, clean = OffsetRange(name, 0, 0, 12), OffsetRange(name, 1, 0, 3)
    read = "read_committed"

    def find(*ranges: OffsetRange, isolation: str = read, first_only: bool = False) -> Any:
        too_late = survey(kafka, [name], isolation).too_late
        assert too_late == {name: {0: 0}}  # the aborted record: the time index includes it
        return unreadable.scan_unreadable(kafka, ranges, isolation, too_late, first_only=first_only)

    found = find(dirty, clean)
    assert found.keys() == {dirty}
    assert found[dirty] == Scan(12, Intervals(((5, 6), (8, 10))), Unreadable(5, NANOSECONDS))
    shown = find(dirty, isolation="read_uncommitted")[dirty]
    assert shown.offsets == Intervals(((0, 1), (5, 6), (8, 10)))
    assert find(dirty, first_only=True)[dirty].offsets == Intervals(((5, 6),))
    behind = OffsetRange(name, 0, 6, 8)
    assert find(behind)[behind] == Scan(8)
    monkeypatch.setattr(unreadable, "MOST_GAPS", 1)
    assert find(dirty)[dirty].end == 8
    monkeypatch.setattr(unreadable, "MOST_OFFSETS", 7)
    assert find(dirty)[dirty].end == 7


def test_a_plan_with_an_unreadable_record_is_replaced(
    broker: Broker,
    kafka: KafkaCluster,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Frozen before it was written: the plan stays, and the next generation excludes the record."""
    name = topic(partitions=1, config=ANY_TIME)
    topic_records.stamped(broker.bootstrap, name, 0, MIXED)
    form = {"name": "old", "kind": "ingest", "topics": [name], "lake": str(tmp_path)}
    run = Run(parse_spec(form), kafka, "dag", "run", date(2024, 5, 1), **HERE)
    with monkeypatch.context() as before:
        answer(before, unreadable=lambda *_, **__: {})
        old = plan(run).frozen
    assert old.plan.chunks == ((OffsetRange(name, 0, 0, 10),),)
    new = plan(run).frozen
    assert (old.generation, new.generation) == (1, 2)
    assert new.plan.chunks == ((OffsetRange(name, 0, 0, 3),),)
    assert [each.to_json() for each in new.plan.left_out] == [
        {"topic": name, "partition": 0, "reason": "unreadable", "offset": 3,
         "timestamp": NANOSECONDS}
    ]  # fmt: skip
    assert plan(run).known


def test_an_unreadable_record_does_not_stop_other_offsets(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """`fail` publishes all offsets before it, and names it; `gap` skips only these offsets, in one
    run, and also later ones; no backfill plans them.
    """
    terminal = Terminal(tmp_path, broker.bootstrap)
    name = topic(partitions=2, config=ANY_TIME)
    topic_records.stamped(broker.bootstrap, name, 0, MIXED)
    topic_records.stamped(broker.bootstrap, name, 1, [NOW] * 4)
    terminal.pipeline("clocks", [name])
    error = terminal.json("run", "clocks", code=3)["error"]
    assert error["name"] == "PartitionsLeftOut"
    assert error["numbers"]["left_out"] == [
        {"topic": name, "partition": 0, "reason": "unreadable", "offset": 3,
         "timestamp": NANOSECONDS}
    ]  # fmt: skip
    assert "on_unreadable: gap" in error["message"]
    assert _rows(terminal) == 3 + 4

    terminal.pipeline("clocks", [name], on_unreadable="gap")
    assert terminal.json("run", "clocks", "--run-id", "g")["rows"] == 4
    status = terminal.json("status", "clocks")
    assert _gaps(status) == [(3, 4, "unreadable", "g"), (6, 8, "unreadable", "g")]
    assert status["topics"][name]["partitions"]["0"]["lag"] == 0

    topic_records.stamped(broker.bootstrap, name, 0, [NOW, NANOSECONDS, NOW])
    assert terminal.json("run", "clocks", "--run-id", "h")["rows"] == 2
    assert _gaps(terminal.json("status", "clocks"))[2:] == [(11, 12, "unreadable", "h")]
    filled = terminal.json("backfill", "clocks", "--fill-gaps")
    assert (filled["rows"], filled["left_out"]) == (0, [])
    assert terminal.json("verify", "clocks", "--against-kafka")["differences"] == 0
    ranges = {name: {"0": [8, 11], "1": [0, 4]}}
    oracle_client.agree(broker.bootstrap, terminal.lake, "clocks", [name], ranges=ranges)


def _rows(terminal: Terminal) -> int:
    return sum(file["rows"] for file in terminal.json("files", "clocks"))


def _gaps(status: Any) -> list[tuple[int, int, str, str]]:
    return [(gap["start"], gap["end"], gap["reason"], gap["by"]) for gap in status["gaps"]]
