"""Timestamps resolved by a real broker: before 1970, between records, and as a start."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from support import topic_records
from support.handed_in import HERE
from support.ingest_steps import plan
from tidegate.broker.cluster import Cluster
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.runs.run import Run
from tidegate_local.kafka import Broker

DAY = datetime(2026, 1, 1, tzinfo=UTC)
MS = int(DAY.timestamp() * 1000)
STAMPS = [MS, MS + 1_000, MS + 1_001, MS + 500, MS + 2_000]


@pytest.fixture
def stamped(broker: Broker, topic: Callable[..., str]) -> str:
    """A topic with STAMPS in partition 0, and nothing in partition 1."""
    name = topic(partitions=2, config={"retention.ms": "-1"})
    topic_records.stamped(broker.bootstrap, name, 0, STAMPS)
    return name


def kafka_of(broker: Broker) -> KafkaCluster:
    return KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})


@pytest.mark.parametrize("ms", [0, -1, -2, -3, -4, -5, -62_135_596_800_000])
def test_before_any_record(broker: Broker, stamped: str, ms: int) -> None:
    """Resolved to the log start, although negative timestamps are special in Kafka's protocol."""
    topic_records.delete_records(broker.bootstrap, stamped, {0: 2})
    with Cluster(kafka_of(broker)) as cluster:
        assert cluster.offsets_at({stamped: [0]}, ms) == {stamped: {0: 2}}


@pytest.mark.parametrize(
    ("timestamp", "origin"),
    [
        ("2026-01-01T00:00:00Z", 0),
        ("2026-01-01T01:00:00.001+01:00", 1),
        ("2026-01-01T00:00:01.001Z", 2),
        ("2026-01-01T00:00:01.5Z", 4),  # offset 3 is earlier
        ("2026-01-01T00:00:03Z", 5),
        ("1969-12-31T23:59:59.999Z", 0),
        ("1950-06-01T00:00:00Z", 0),
    ],
)
def test_start_at_a_timestamp(
    broker: Broker, stamped: str, tmp_path: Path, timestamp: str, origin: int
) -> None:
    """The first record at or after it is the first planned one; later changes have no effect."""
    form: dict[str, Any] = {
        "name": "p", "kind": "ingest", "topics": [stamped], "lake": str(tmp_path),
        "start": {"timestamp": timestamp},
    }  # fmt: skip

    def run(run_id: str) -> Run:
        spec = parse_spec(form)
        assert isinstance(spec, Ingest)
        return Run(
            spec,
            kafka_of(broker),
            "tidegate__p",
            run_id,
            date(2026, 1, 1),
            **HERE,
        )

    ranges = [(r.partition, r.start, r.end) for w in plan(run("r")).plan.chunks for r in w]
    assert ranges == ([(0, origin, 5)] if origin < 5 else [])
    store = run("r").store()
    (origins,) = run("r").ledger(store).fold.origins.values()
    assert origins == {0: origin, 1: 0}
    form["start"] = {"timestamp": "2026-01-01T00:00:02Z"}
    again = [(r.partition, r.start, r.end) for w in plan(run("s")).plan.chunks for r in w]
    assert again == ranges
