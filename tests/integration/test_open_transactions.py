"""Offsets behind an open transaction are shown with its start, and count as lag."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rich.console import Console

from support import topic_records
from tidegate import flows
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.open_transactions import open_since
from tidegate.core.cursor import Watermarks
from tidegate.doctor import pipeline_checks
from tidegate.ingest.status import read_ingest_status
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.terminal import console, render
from tidegate_local.kafka import Broker

BEGAN = datetime(2026, 1, 1, 8, 30, tzinfo=UTC)


def ms(spec_of: datetime) -> int:
    return int(spec_of.timestamp() * 1000)


@pytest.fixture
def hidden(broker: Broker, topic: Callable[..., str]) -> Iterator[str]:
    """Yield a topic with 10 records in each of two partitions; in the first one then three of an
    open transaction, the first at BEGAN, and five others.
    """
    name = topic(partitions=2, config={"retention.ms": "-1"})
    for p in (0, 1):
        topic_records.stamped(broker.bootstrap, name, p, [ms(BEGAN) - 1_000] * 10)
    opener = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    opener.init_transactions(30)
    opener.begin_transaction()
    for n in range(3):
        opener.produce(name, b"open", partition=0, timestamp=ms(BEGAN) + n)
    opener.flush(30)
    topic_records.stamped(broker.bootstrap, name, 0, [ms(BEGAN) + 5_000] * 5)
    yield name
    opener.abort_transaction(30)


def spec_of(topic: str, home: Path, **settings: str) -> Ingest:
    form = {"name": "p", "kind": "ingest", "topics": [topic], "lake": str(home), **settings}
    spec = parse_spec(form)
    assert isinstance(spec, Ingest)
    return spec


def kafka_of(broker: Broker) -> KafkaCluster:
    return KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})


def test_an_open_transaction(
    broker: Broker, hidden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status and doctor report eight offsets behind it, and its start."""
    kafka, spec = kafka_of(broker), spec_of(hidden, tmp_path)
    state = read_ingest_status(spec, flows.store(spec), kafka)
    zero, one = (state.topics[hidden].partitions[p] for p in (0, 1))
    assert (zero.end, zero.high, zero.lag) == (10, 18, 18)
    assert zero.open_since == "2026-01-01T08:30:00+00:00"
    assert (one.end, one.high, one.lag, one.open_since) == (10, 10, 10, None)
    said = Console(record=True, width=200)
    monkeypatch.setattr(console, "out", said)
    monkeypatch.setattr(console, "now", lambda: datetime(2026, 1, 1, 9, 31, tzinfo=UTC))
    render.print_status(state)
    age, problem, fix = said.export_text().splitlines()[-3:]
    assert age == f"{hidden}-0: 8 offsets behind a transaction that is open for 1h 1m"
    assert problem == f"{hidden}-0: open transaction (offsets 8)"
    assert "find-hanging" in fix
    lines = pipeline_checks.check_topics(spec_of(hidden, tmp_path), kafka)
    (line,) = [each for each in lines if each.check == "transactions"]
    assert line.state == "warning"
    assert "8 offsets behind open transactions, in partitions [0]" in line.says
    assert "since 2026-01-01T08:30:00+00:00" in line.says
    spec = spec_of(hidden, tmp_path, isolation="read_uncommitted")
    zero = read_ingest_status(spec, flows.store(spec), kafka).topics[hidden].partitions[0]
    assert (zero.end, zero.lag, zero.open_since) == (18, 18, None)


@pytest.mark.slow
def test_an_unknown_start_of_a_transaction(broker: Broker, topic: Callable[..., str]) -> None:
    """Without a record or a broker, the start is unknown after seconds, without an error; nothing
    is requested if no offset is hidden.
    """
    name = topic(partitions=1)
    marks = {name: {0: Watermarks(0, 0, 5)}}
    assert open_since(kafka_of(broker), marks, patience=0.5) == {}
    unreachable = KafkaCluster("k", {"bootstrap.servers": "127.0.0.1:1"})
    assert open_since(unreachable, marks, patience=0.5) == {}
    assert open_since(unreachable, {name: {0: Watermarks(0, 5, 5)}}) == {}
