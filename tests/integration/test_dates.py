"""Backfills over dates on a real broker: intervals without overlaps or gaps."""

import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support import topic_records
from support.handed_in import HERE
from support.ingest_steps import explain, plan
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.requests import Dates, Live
from tidegate.errors import WindowRefused
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.runs.run import Run
from tidegate_local.kafka import Broker

DAY = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = [(DAY + timedelta(hours=h), DAY + timedelta(hours=h + 1)) for h in range(6)]

MakeRun = Callable[..., Run]


@pytest.fixture
def run_of(broker: Broker, tmp_path: Path) -> MakeRun:
    """Make runs of one pipeline: `run_of(topic, asked, run_id, **settings)`."""

    def make(topic: str, asked: Dates | Live, run_id: str, **settings: Any) -> Run:
        form = {"name": "dated", "kind": "ingest", "topics": [topic], "lake": str(tmp_path)}
        spec = parse_spec(form | {"start": "latest"} | settings)
        assert isinstance(spec, Ingest)
        kafka = KafkaCluster("kafka_default", {"bootstrap.servers": broker.bootstrap})
        return Run(
            spec,
            kafka,
            "tidegate__dated",
            run_id,
            date(2026, 1, 1),
            asked=asked,
            **HERE,
        )

    return make


def scattered(broker: Broker, topic: str, *, partitions: int = 2, count: int = 600) -> None:
    """Send records with random timestamps within six hours."""
    rng = random.Random(3)
    for p in range(partitions):
        start = int(DAY.timestamp() * 1000)
        topic_records.stamped(
            broker.bootstrap, topic, p, [start + rng.randrange(6 * 3_600_000) for _ in range(count)]
        )


def ranges(run: Run) -> dict[int, tuple[int, int]]:
    """Plan a run; return its range in each partition."""
    return {r.partition: (r.start, r.end) for w in plan(run).plan.chunks for r in w}


@pytest.mark.parametrize(
    "order", ["forwards", pytest.param("backwards", marks=pytest.mark.slow), "at once"]
)
def test_intervals_cover_each_offset_once(
    broker: Broker, topic: Callable[..., str], run_of: MakeRun, order: str
) -> None:
    """Planned in any order or in parallel, with late records in between: each offset below the
    cursor is in exactly one plan, which explain and a retry return, too.
    """
    name = topic(partitions=2, config={"retention.ms": "-1"})
    scattered(broker, name)
    plan(run_of(name, Live(), "live"))  # origin and cursor: the end
    runs = [run_of(name, Dates(each), each[0].isoformat()) for each in HOURS]
    if order == "backwards":
        runs.reverse()
    if order == "at once":
        with ThreadPoolExecutor(6) as pool:
            done = list(pool.map(ranges, runs))
    else:
        done = []
        for run in runs:
            explained = explain(run)
            done.append(ranges(run))
            assert explained["plan_id"] == plan(run).plan.id
            assert explained["lane"] == "backfill"
            topic_records.stamped(broker.bootstrap, name, 0, [int(DAY.timestamp() * 1000)] * 3)
    for p in (0, 1):
        planned = sorted(each[p] for each in done if p in each)
        assert planned[0][0] == 0
        assert planned[-1][1] == 600
        assert all(left[1] == right[0] for left, right in pairwise(planned))
    assert [ranges(run) for run in runs] == done


def test_offsets_above_the_cursor_are_left_to_the_live_lane(
    broker: Broker,
    topic: Callable[..., str],
    run_of: MakeRun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The run logs them; an interval that has not ended is refused."""
    name = topic(partitions=2, config={"retention.ms": "-1"})
    scattered(broker, name)
    half = {name: {"0": 200, "1": 200}}
    whole = (DAY, DAY + timedelta(hours=6))
    run = run_of(name, Dates(whole), "r", start={"offsets": half})
    with caplog.at_level(logging.WARNING):
        assert ranges(run) == {0: (0, 200), 1: (0, 200)}
    assert "left to the live lane" in caplog.text
    assert f"{name}-0 [200, 600)" in caplog.text
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(WindowRefused, match="in the future"):
        plan(run_of(name, Dates((DAY, tomorrow)), "s", start={"offsets": half}))


def test_a_run_keeps_the_lane_of_its_frozen_plan(
    broker: Broker,
    topic: Callable[..., str],
    run_of: MakeRun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A backfill with reprocessing changes the type of a scheduled run: it stays live, and logs
    what to use instead.
    """
    name = topic(partitions=2, config={"retention.ms": "-1"})
    scattered(broker, name)
    live = run_of(name, Live(HOURS[0]), "r", start="earliest")
    planned = plan(live).plan
    with caplog.at_level(logging.WARNING):
        again = plan(replace(live, asked=Dates(HOURS[0])))
    assert (again.plan, again.known) == (planned, True)
    assert "use `tidegate replay`" in caplog.text
    dated = run_of(name, Dates(HOURS[1]), "s", start="earliest")
    frozen = plan(dated).plan
    assert frozen.lane == "backfill"
    assert plan(replace(dated, asked=Live(HOURS[1]))).plan == frozen


@pytest.mark.parametrize("on_expired", ["fail", "skip"])
def test_on_expired_decides_about_expired_records(
    broker: Broker, topic: Callable[..., str], run_of: MakeRun, on_expired: str
) -> None:
    """Records that expire after their boundary was frozen are excluded by name, or become a gap
    with reason and run; so is what expired unread right below. The rest of the interval is planned.
    """
    name = topic(partitions=1, config={"retention.ms": "-1"})
    start = int(DAY.timestamp() * 1000)
    stamps = [start + number * 60_000 for number in range(360)]  # one a minute
    topic_records.stamped(broker.bootstrap, name, 0, stamps)
    plan(run_of(name, Dates(HOURS[0]), "first", on_expired=on_expired))
    topic_records.delete_records(broker.bootstrap, name, {0: 75})
    run = run_of(name, Dates(HOURS[1]), "second", on_expired=on_expired)
    assert ranges(run) == {0: (75, 120)}
    store = run.store()
    gaps = [(g.start, g.end, g.reason, g.by) for g in run.ledger(store).fold.gaps]
    left_out = [each.to_json() for each in plan(run).plan.left_out]
    if on_expired == "fail":
        gone = {
            "topic": name,
            "partition": 0,
            "reason": "expired",
            "start": 0,
            "end": 75,
            "offsets": 75,
        }
        assert (left_out, gaps) == ([gone], [])
    else:
        assert (left_out, gaps) == ([], [(0, 75, "expired", "second")])
