"""Random windows of a big topic, in one Spark session: explained, ingested, compared."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support import oracle_client, topic_records
from support.handed_in import HERE
from support.ingest_steps import explain, ingest
from support.toy_engine import Do
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.requests import Asked, Backfill
from tidegate.errors import WindowRefused
from tidegate.ingest.report import IngestReport
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.runs.run import Run
from tidegate.spark import ingest_driver as spark_ingest
from tidegate.spark.ingest_job import IngestJob
from tidegate.spark.session import configure_session
from tidegate_local.kafka import Broker

PARTITIONS = 3
SEED, WINDOWS = 5, 200
DAY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def submit(spark: SparkSession) -> Do:
    """Stage in this process's session, without code generation, which is slower for some hundred
    rows.
    """
    session = configure_session(spark.newSession())
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

    def stage(job: IngestJob, _: Path) -> None:
        for chunk in job.chunks:
            spark_ingest.stage_chunk(session, job, chunk)

    return stage


def run_of(broker: Broker, topic: str, lake: Path, asked: Asked, run_id: str, **more: Any) -> Run:
    form = {"name": "any", "kind": "ingest", "topics": [topic], "lake": str(lake)}
    spec = parse_spec(form | {"start": "latest", "max_records": 20_000} | more)
    assert isinstance(spec, Ingest)
    kafka = KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})
    return Run(
        spec,
        kafka,
        "tidegate_backfill",
        run_id,
        date(2026, 1, 2),
        asked=asked,
        **HERE,
    )


def big_topic(broker: Broker, topic: str) -> list[int]:
    """Fill a topic with 100,000 records with shuffled, equal and append-time timestamps; return its
    ends.
    """
    ends = [34_000, 33_000, 33_000]
    topic_records.create(
        broker.bootstrap, topic, partitions=PARTITIONS, config={"retention.ms": "-1"}
    )
    hour, rng = 3_600_000, random.Random(11)
    start = int(DAY.timestamp() * 1000)
    shuffled = [start + rng.randrange(10 * hour) for _ in range(20_000)]
    equal = [start + 5 * hour] * 20_000
    steps = [start + number // 2_000 * hour for number in range(20_000)]
    for p, stamps in enumerate((shuffled, equal, steps)):
        topic_records.stamped(broker.bootstrap, topic, p, stamps)
    topic_records.configure(broker.bootstrap, topic, message_timestamp_type="LogAppendTime")
    for p, end in enumerate(ends):
        topic_records.stamped(broker.bootstrap, topic, p, [start] * (end - 20_000))
    return ends


def random_window(
    rng: random.Random, topic: str, ends: list[int], cuts: list[datetime]
) -> Backfill:
    """Return a random window by offsets or by adjacent timestamps; some are invalid."""
    partitions = rng.choice([None, None, (rng.randrange(PARTITIONS),), (0, 2)])
    size = rng.choice([None, 700, 5_000])
    kind = rng.random()
    if kind < 0.25:
        place = rng.randrange(len(cuts) - 1)
        start, end = cuts[place].isoformat(), cuts[place + 1].isoformat()
    elif kind < 0.5:
        low = [rng.randrange(0, e) for e in ends]
        high = [min(e, o + rng.randrange(0, 600)) for o, e in zip(low, ends, strict=True)]
        start, end = (json.dumps({topic: dict(enumerate(edge))}) for edge in (low, high))
        partitions = None
    else:
        at = rng.randrange(0, 34_500)
        start, end = str(at), str(at + rng.randrange(-200, 600))
    return Backfill(topic, partitions, start, end, chunk_size=size)


@pytest.mark.slow
def test_any_window(
    spark: SparkSession,
    submit: Do,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    """A run does what explain says: plan id, ranges and rows, or the refusal. No row is ingested
    twice, the live cursor stays, and the oracle agrees.
    """
    rng, ends = random.Random(SEED), big_topic(broker, topic)
    seconds = sorted(rng.randrange(0, 36_000) for _ in range(11))
    cuts = [DAY + timedelta(seconds=each) for each in seconds]
    lake: dict[int, set[int]] = {p: set() for p in range(PARTITIONS)}
    refused = 0
    for number in range(WINDOWS):
        run = run_of(broker, topic, tmp_path, random_window(rng, topic, ends, cuts), f"r{number}")
        try:
            explained = explain(run)
        except WindowRefused as error:
            refused += 1
            with pytest.raises(WindowRefused) as again:
                ingest(run, submit)
            same = again.value.numbers == error.numbers
            assert same
            continue
        done = ingest(run, submit)
        assert done.plan.id == explained["plan_id"], run.asked
        partitions = explained["topics"][topic]["partitions"]
        planned = 0
        for p, taken in lake.items():
            ranges = partitions[str(p)]["ranges"]
            assert done_ranges(done.report, topic, p) == ranges
            new = {o for start, end in ranges for o in range(start, end)}
            assert not new & taken
            assert all(o in taken for s, e in partitions[str(p)]["covered"] for o in range(s, e))
            taken |= new
            planned += len(new)
            assert partitions[str(p)]["cursor"] == partitions[str(p)]["cursor_after"] == ends[p]
        assert [c["records"] for c in explained["chunks"]] == [c.rows for c in done.report.commits]
        assert planned == done.report.rows == explained["records"]
    assert 0 < refused < WINDOWS / 2
    left = 100_000 - sum(map(len, lake.values()))
    assert 0 < left < 100_000 - 100 * WINDOWS
    whole = Backfill(topic, None, "0", json.dumps({topic: dict(enumerate(ends))}))
    assert ingest(run_of(broker, topic, tmp_path, whole, "rest"), submit).report.rows == left
    oracle_client.agree(broker.bootstrap, tmp_path, "any", [topic])


def done_ranges(report: IngestReport, topic: str, p: int) -> list[list[int]]:
    """Return the merged ranges of a partition that the commits of a run cover."""
    accounts = [c.topics.get(topic, {}).get(p) for c in report.commits]
    return spans({o for a in accounts if a for o in range(a.start, a.end)})


def spans(offsets: set[int]) -> list[list[int]]:
    merged: list[list[int]] = []
    for offset in sorted(offsets):
        if merged and merged[-1][1] == offset:
            merged[-1][1] += 1
        else:
            merged.append([offset, offset + 1])
    return merged
