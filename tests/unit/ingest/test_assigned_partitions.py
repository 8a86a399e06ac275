"""Pipelines that read only some partitions (`assign`), by made-up answers of a broker.

`tests/integration/conformance/test_batch_source.py` shows the same on a real broker.
"""

from datetime import UTC, datetime, timedelta

import pytest

from support import ingest_world
from support.ingest_steps import explain, ingest, plan
from support.ingest_world import ranges
from support.kafka_answers import answer
from tidegate import flows
from tidegate.core.boundaries import Boundary, to_milliseconds
from tidegate.core.cluster_answers import Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Backfill, Dates, Replay
from tidegate.errors import PartitionsLeftOut, WindowRefused
from tidegate.ingest import backfill, status
from tidegate.ingest.topic_coverage import coverage_intervals


@pytest.fixture
def world(tmp_path, monkeypatch):
    marks = {p: Watermarks(0, 100, 100) for p in range(4)}
    world = ingest_world.make(tmp_path, monkeypatch, marks, max_records=1000)
    world.settings |= {"topics": [], "assign": {"t": [0, 2]}, "start": "latest"}
    answer(monkeypatch, survey=world.survey)
    answer(monkeypatch, open_since=lambda *_: {})
    return world


def grow(world, end):
    world.marks = {p: Watermarks(m.start, end, end) for p, m in world.marks.items()}


def run(world, run_id, **given):
    return ingest(world.run(run_id, **given), world.submit())


def test_only_assigned_partitions_are_read(world):
    """Whatever becomes of the others: here one expires, and one has no leader."""
    run(world, "one")
    grow(world, 150)
    world.marks[1] = Watermarks(120, 150, 150)
    world.leaderless = {3}
    done = run(world, "two")
    assert world.rows == {0: ranges((100, 150)), 2: ranges((100, 150))}
    assert world.ledger.fold.origins == {"id-t": {0: 100, 2: 100}}
    assert done.complete_through["t"]
    assert done.plan.left_out == ()


def test_a_partition_that_is_assigned_later_begins_where_start_says(world):
    """At its end, by `latest`: not at 0, as a partition that Kafka added."""
    run(world, "one")
    grow(world, 150)
    world.settings["assign"] = {"t": [0, 1, 2]}
    run(world, "two")
    assert world.ledger.fold.origins == {"id-t": {0: 100, 1: 150, 2: 100}}
    grow(world, 160)
    run(world, "three")
    assert world.rows == {p: ranges((100, 160)) if p != 1 else ranges((150, 160)) for p in range(3)}


def test_a_partition_that_is_no_longer_assigned(world):
    """It neither stops a run nor holds back its time; assigned again, it goes on at its cursor."""
    run(world, "one")
    grow(world, 150)
    world.settings["assign"] = {"t": [0]}
    assert run(world, "two").complete_through["t"]
    del world.marks[2]
    grow(world, 170)
    done = run(world, "three")
    assert done.complete_through["t"]
    assert done.plan.left_out == ()
    world.marks[2] = Watermarks(0, 180, 180)
    world.settings["assign"] = {"t": [2]}
    run(world, "four")
    assert world.rows == {0: ranges((100, 170)), 2: ranges((100, 180))}


def test_a_partition_that_does_not_exist(world):
    """It is excluded by name, and the others go on; it begins by `start` once it is there."""
    world.settings["assign"] = {"t": [0, 7]}
    with pytest.raises(PartitionsLeftOut, match=r"add partitions to the topic") as failed:
        run(world, "one")
    excluded = [{"topic": "t", "partition": 7, "reason": "no such partition"}]
    assert failed.value.numbers["left_out"] == excluded
    assert world.ledger.fold.origins == {"id-t": {0: 100}}
    world.marks[7] = Watermarks(0, 5, 5)
    run(world, "two")
    assert world.ledger.fold.origins == {"id-t": {0: 100, 7: 5}}


def test_an_assigned_partition_that_expired_is_excluded(world):
    """As every other partition: what is assigned is never passed over in silence."""
    run(world, "one")
    world.marks[2] = Watermarks(120, 150, 150)
    with pytest.raises(PartitionsLeftOut) as failed:
        run(world, "two")
    assert [each["partition"] for each in failed.value.numbers["left_out"]] == [2]


def test_what_explain_status_and_report_show(world):
    """The partitions that are read; coverage also shows what the lake has of others."""
    run(world, "one")
    grow(world, 150)
    done = run(world, "two")
    assert list(done.report.commits[0].topics["t"]) == [0, 2]
    world.settings["assign"] = {"t": [0, 1, 7]}
    explained = explain(world.run("three"))
    assert list(explained["topics"]["t"]["partitions"]) == ["0", "1"]
    spec = world.run("any").spec
    store = flows.store(spec)
    state = status.read_state(spec, store, world.run("any").kafka)
    shown = status.read_ingest_status(spec, store, world.run("any").kafka, state).to_json()
    lag = {p: each["lag"] for p, each in shown["topics"]["t"]["partitions"].items()}
    assert lag == {"0": 0, "1": 150}
    assert [(each["partition"], each["reason"]) for each in shown["problems"]] == [
        (7, "no such partition")
    ]
    covered = coverage_intervals(state)["t"]
    assert sorted(covered) == [0, 1, 2]
    assert [(each.start, each.end, each.state) for each in covered[2]] == [(100, 150, "covered")]


def test_a_topic_that_does_not_exist(world, monkeypatch):
    """The way out names the key that has it; of one that was read, too."""
    answer(monkeypatch, survey=lambda *_: Survey("cluster", {}, {}))
    for key in ("assign", "topics"):
        given = {"topics": ["t"], "assign": None} if key == "topics" else {}
        world.settings |= given
        spec = world.run("any").spec
        kafka = world.run("any").kafka
        (problem,) = status.read_ingest_status(spec, flows.store(spec), kafka).problems
        assert problem.fix.endswith(f"grant DESCRIBE on it, or correct `{key}`")


def test_windows(world):
    """Of the assigned partitions, unless some are named; never of others."""
    run(world, "one")
    asked = Backfill(topic="t", start="10", end="20")
    world.leaderless = {3}
    run(world, "window", asked=asked)
    assert world.rows == {0: ranges((10, 20)), 2: ranges((10, 20))}
    asked = Backfill(topic="t", start="20", end="30", partitions=(1, 2))
    with pytest.raises(WindowRefused, match=r"partitions \[1\] are not assigned: `assign` names"):
        plan(world.run("others", asked=asked))
    asked = Backfill(topic="t", fill_gaps=True)
    assert plan(world.run("gaps", asked=asked)).plan.chunks == ()


def test_exact_ranges(world):
    """Several of a partition, too, clipped by what is in the lake; everything wrong at once."""
    run(world, "one")
    given = tuple(OffsetRange("t", *each) for each in ((0, 10, 20), (2, 5, 7), (0, 15, 30)))
    with pytest.raises(WindowRefused, match=r"t-0 \[10, 20\) and t-0 \[15, 30\) overlap"):
        plan(world.run("overlap", asked=Backfill(ranges=given)))
    run(world, "ranges", asked=Backfill(ranges=(*given[:2], OffsetRange("t", 0, 40, 41))))
    assert world.rows == {0: [*ranges((10, 20)), 40], 2: [5, 6]}
    run(world, "again", asked=Backfill(ranges=(OffsetRange("t", 0, 18, 22),)))
    assert world.rows[0] == [*ranges((10, 22)), 40]
    wrong = OffsetRange("t", 1, 0, 5), OffsetRange("t", 2, 0, 500), OffsetRange("u", 0, 0, 5)
    with pytest.raises(WindowRefused) as refused:
        plan(world.run("wrong", asked=Backfill(ranges=wrong, start="5")))
    for each in ("there is no topic u", "give ranges, or a topic with start and end: not both"):
        assert each in str(refused.value)
    with pytest.raises(WindowRefused) as refused:
        plan(world.run("wrong", asked=Backfill(ranges=wrong[:2])))
    said = str(refused.value)
    assert "t: partitions [1] are not assigned" in said
    assert "t: partition 2: end 500 is beyond the end 100" in said


def test_a_replay(world):
    """Of the assigned partitions, whatever became of others; of any in the lake that is named."""
    run(world, "one")
    grow(world, 150)
    run(world, "two")
    world.leaderless = {3}
    window = {"topic": "t", "start": "100", "end": "150"}
    done = run(world, "again", asked=Replay(id="all", **window))
    assert sorted(r.partition for chunk in done.plan.chunks for r in chunk) == [0, 2]
    world.settings["assign"] = {"t": [0]}
    done = run(world, "again", asked=Replay(id="assigned", **window))
    assert sorted(r.partition for chunk in done.plan.chunks for r in chunk) == [0]
    done = run(world, "again", asked=Replay(id="named", partitions=(2,), **window))
    assert sorted(r.partition for chunk in done.plan.chunks for r in chunk) == [2]


def test_dates(world, monkeypatch):
    """A boundary is of all partitions, what is read of those that are assigned now."""
    days = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)
    boundaries = {
        day: Boundary("t", "id-t", to_milliseconds(day), dict.fromkeys(range(4), offset))
        for day, offset in zip(days, (30, 40), strict=True)
    }
    monkeypatch.setattr(backfill, "boundaries_at", lambda *_: boundaries)
    world.settings |= {"topics": ["t"], "assign": None}
    run(world, "one")
    world.settings |= {"topics": [], "assign": {"t": [0, 2]}}
    run(world, "dates", asked=Dates((days[0], days[0] + timedelta(days=1))))
    assert world.rows == {0: ranges((30, 40)), 2: ranges((30, 40))}


def test_from_all_partitions_to_some_and_back(world):
    """What was never assigned counts as added by Kafka: it begins at 0, and is not lost."""
    run(world, "one")
    grow(world, 110)
    world.settings |= {"topics": ["t"], "assign": None}
    run(world, "two")
    assert world.rows == {p: ranges((100, 110) if p in (0, 2) else (0, 110)) for p in range(4)}
    world.settings |= {"topics": [], "assign": {"t": [3]}}
    grow(world, 120)
    assert run(world, "three").complete_through["t"]
    assert world.rows[3] == ranges((0, 120))
    assert world.rows[0] == ranges((100, 110))
