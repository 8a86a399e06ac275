"""Partitions without a leader, and logs that were cut off, by made-up answers of a broker.

`tests/integration/test_leaders.py` shows the same on three real brokers.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from kafka import TopicPartition

from support import ingest_world
from support.ingest_steps import ingest, plan
from support.ingest_world import ranges
from support.toy_engine import ToyEngine
from tidegate import flows
from tidegate.broker import epochs
from tidegate.broker.cluster import topic_id
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Backfill, Dates, Replay
from tidegate.errors import (
    BrokerError,
    BrokerTooOld,
    IdentityChanged,
    PartitionsLeftOut,
    ReplayRefused,
)
from tidegate.ingest import sealing, stage, truncation
from tidegate.ingest.verify import verify
from tidegate.lake import boundary_files, plans
from tidegate.lake.attempts import Attempt
from tidegate.runs.run import open_run


@pytest.fixture
def world(tmp_path, monkeypatch):
    marks = {0: Watermarks(0, 100, 100), 1: Watermarks(0, 100, 100)}
    return ingest_world.make(tmp_path, monkeypatch, marks, max_records=1000)


def grow(world, end):
    world.marks = {p: Watermarks(m.start, end, end) for p, m in world.marks.items()}


def left_out(world, run):
    """Carry a run out that excludes something; return what."""
    with pytest.raises(PartitionsLeftOut) as failed:
        ingest(run, world.submit())
    return failed.value.numbers["left_out"]


def test_a_partition_without_a_leader_is_excluded_by_name(world):
    """Its plan is made again without it, the other one goes on, and so does it when it is back."""
    ingest(world.run("one"), world.submit())
    grow(world, 200)
    run = world.run("two")
    plan(run)
    world.leaderless = {1}
    assert left_out(world, run) == [{"topic": "t", "partition": 1, "reason": "no leader"}]
    assert world.rows == {0: ranges((0, 200)), 1: ranges((0, 100))}
    world.leaderless = set()
    ingest(world.run("three"), world.submit())
    assert world.rows == {0: ranges((0, 200)), 1: ranges((0, 200))}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_new_topic_begins_when_all_its_partitions_have_leaders(world, start):
    """With `start: latest` a partition that nobody could ask would else begin at 0."""
    world.settings["start"] = start
    world.leaderless = {1}
    excluded = [{"topic": "t", "partition": None, "reason": "no leader", "partitions": [1]}]
    assert left_out(world, world.run("one")) == excluded
    assert world.ledger.fold.origins == {}
    world.leaderless = set()
    ingest(world.run("two"), world.submit())
    begins = 0 if start == "earliest" else 100
    assert world.ledger.fold.origins == {"id-t": {0: begins, 1: begins}}


def test_no_boundary_is_frozen_without_all_partitions(world, monkeypatch):
    """One that is not in it would be cut at 0, for ever; a run over dates excludes the topic."""
    ingest(world.run("one"), world.submit())
    monkeypatch.setattr("tidegate.ingest.backfill.resolve_boundaries", pytest.fail)
    world.leaderless = {1}
    start = datetime(2024, 5, 1, tzinfo=UTC)
    asked = Dates((start, start + timedelta(days=1)))
    assert left_out(world, world.run("dates", asked=asked)) == [
        {"topic": "t", "partition": None, "reason": "no leader", "partitions": [1]}
    ]
    window = {"topic": "t", "start": start.isoformat(), "end": "2024-05-02T00:00:00+00:00"}
    window["partitions"] = (0,)  # a boundary is of all
    for given in (Backfill(**window), Replay(id="r", **window)):
        with pytest.raises(BrokerError, match=r"partitions \[1\] have no leader"):
            plan(world.run("window", asked=given))
    assert boundary_files._timestamps(world.run("any").store(), "id-t") == []


def test_a_replay_waits_for_a_leader(world):
    """It has no next generation: it must not be refused for good."""
    ingest(world.run("one"), world.submit())
    asked = Replay(topic="t", id="again", start="0", end="100")
    run = world.run("replay", asked=asked)
    plan(run)
    world.leaderless = {1}
    with pytest.raises(BrokerError, match="t-1: no leader"):
        plan(run)
    world.leaderless = set()
    assert len(ingest(run, world.submit()).commits) == 1


def test_a_log_that_was_cut_off_below_the_cursor(world):
    """It is excluded although its log has passed the cursor, until a replay has read again."""
    ingest(world.run("one"), world.submit())
    world.epoch, world.began = 3, {3: 60}
    grow(world, 300)
    world.began = {3: 60}
    excluded = left_out(world, world.run("two"))
    assert excluded == [
        {"topic": "t", "partition": p, "reason": "truncated", "cursor": 100, "end": 300, "cut": 60}
        for p in (0, 1)
    ]
    assert world.rows == {0: ranges((0, 100)), 1: ranges((0, 100))}
    asked = Replay(topic="t", id="again", start="0", end="100")
    ingest(world.run("replay", asked=asked), world.submit())
    ingest(world.run("three"), world.submit())
    assert world.rows == {0: ranges((0, 300)), 1: ranges((0, 300))}


def test_a_leader_that_changes_without_loss_excludes_nothing(world):
    """As in a rolling restart: its epoch begins at or above what was read."""
    run = world.run("one")
    plan(run)
    world.epoch, world.began = 1, {1: 100}
    ingest(run, world.submit())
    for n, began in enumerate((100, 230), start=2):
        world.epoch = n
        world.began[n] = began
        grow(world, 100 * n)
        ingest(world.run(f"run-{n}"), world.submit())
    assert world.rows == {0: ranges((0, 300)), 1: ranges((0, 300))}


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda _: b'{"seen": []}'])
def test_a_damaged_manifest_of_a_commit_stops_no_run(world, caplog, damage):
    """Its epochs are not known, as those of a missing one; the run goes on, and `verify` names it.

    The other commit's manifest still shows that its partition was cut off.
    """
    world.marks = {0: Watermarks(0, 100, 100)}
    ingest(world.run("one"), world.submit())
    world.marks = {0: world.marks[0], 1: Watermarks(0, 100, 100)}
    ingest(world.run("two"), world.submit())
    first = world.ledger.fold.live[min(world.ledger.fold.live)]
    manifest = world.root / "p" / first.manifest.path
    manifest.write_bytes(damage(manifest.read_bytes()))
    grow(world, 200)
    world.epoch, world.began = 1, {1: 60}
    (excluded,) = left_out(world, world.run("three"))
    assert (excluded["partition"], excluded["reason"]) == (1, "truncated")
    assert world.ledger.fold.cursors("t") == {0: 200, 1: 100}
    assert str(manifest) in caplog.text
    found = verify(
        world.run("any").spec, flows.store(world.run("any").spec), None, lambda _: None
    ).to_json()
    assert str(manifest) in found["first"][0]["what"]


def test_a_log_that_is_cut_off_after_it_was_planned_is_read_as_it_is_now(world):
    """The manifest has the new epoch: what it holds is not taken for cut off later."""
    run = world.run("one")
    plan(run)
    world.epoch, world.began = 1, {1: 60}
    assert ingest(run, world.submit()).report.generation == 1
    grow(world, 200)
    ingest(world.run("two"), world.submit())
    assert world.rows == {0: ranges((0, 200)), 1: ranges((0, 200))}


def test_a_log_that_is_cut_off_below_a_plan_is_not_read(world):
    """It has other records below the plan than the lake; a commit of the plan would hide that."""
    ingest(world.run("one"), world.submit())
    grow(world, 200)
    run = world.run("two")
    plan(run)
    world.epoch, world.began = 1, {1: 60}
    excluded = left_out(world, run)
    assert [(each["reason"], each["cut"]) for each in excluded] == [("truncated", 60)] * 2
    assert world.rows == {0: ranges((0, 100)), 1: ranges((0, 100))}


def test_a_cut_below_a_chunk_of_what_nobody_has_read_stops_nothing(world):
    """The chunk before it is read of the same log, and the plan would be the same again."""
    world.settings["max_records"] = 100
    run = world.run("one")
    world.marks = {0: Watermarks(0, 200, 200)}
    assert len(plan(run).frozen.plan.chunks) == 2
    world.epoch, world.began = 1, {1: 60}
    assert ingest(run, world.submit()).report.generation == 1
    assert world.rows == {0: ranges((0, 100), (100, 200))}


def test_a_replay_of_a_log_that_was_cut_off_is_refused(world):
    """It would replace rows by other records."""
    ingest(world.run("one"), world.submit())
    run = world.run("replay", asked=Replay(topic="t", id="again", start="0", end="100"))
    plan(run)
    world.epoch, world.began = 1, {1: 60}
    with pytest.raises(ReplayRefused, match="was cut off at 60"):
        ingest(run, world.submit())


def test_a_log_that_is_cut_off_while_it_is_read_is_not_sealed(world):
    """Its rows may be of both logs."""

    def cut() -> None:
        world.epoch, world.began = 1, {1: 60}

    with pytest.raises(IdentityChanged, match=r"t-0 \[0, 100\) was cut off at 60"):
        ingest(world.run("one"), world.submit(then=cut))
    assert world.rows == {}
    assert world.ledger.fold.live == {}
    ingest(world.run("two"), world.submit())
    assert world.rows == {0: ranges((0, 100)), 1: ranges((0, 100))}


@pytest.mark.parametrize("told", [{}, {"topic_id": "00000000-0000-0000-0000-000000000000"}])
def test_brokers_without_topic_ids_are_refused_by_name(told):
    """Metadata of brokers before 2.8 has none; with an older inter-broker protocol it is zero."""
    with pytest.raises(BrokerTooOld, match=r"topic t has no topic id.*brokers of 2\.8 or later"):
        topic_id({"name": "t", **told}, "Kafka at old:9092")


def test_nothing_is_sealed_while_its_partition_has_no_leader(world):
    """Its log is cut off and written again before it has one: the finished attempt, which a seal
    without an epoch would have made a commit, is given up, and no new record is passed over.
    """

    def gone() -> None:
        world.leaderless = {0}

    with pytest.raises(BrokerError, match="t-0: no leader"):
        ingest(world.run("one"), world.submit(then=gone))
    assert world.rows == {}
    world.leaderless = set()
    world.epoch, world.began = 1, {1: 80}
    world.marks[0] = Watermarks(0, 130, 130)
    ingest(world.run("two"), world.submit())
    assert len(world.ledger.fold.barred) == 1
    assert world.rows == {0: ranges((0, 130)), 1: ranges((0, 100))}


def test_a_log_that_is_cut_off_while_spark_waits_for_a_leader_is_not_sealed(world):
    """Between the plan and the read there is no leader to ask: what the plan knew is compared."""
    run = world.run("one")
    plan(run)
    world.leaderless, world.epoch, world.began = {0}, 1, {1: 60}

    def back() -> None:
        world.leaderless = set()

    staged = plans.latest_plan(run.store(), run.key).plan
    mine = [Attempt(staged.id, 0, "mine")]
    before = world.survey()
    outcomes = sealing.Outcomes()
    opened = open_run(replace(run, engine=ToyEngine(world.submit(then=back))))
    failures = stage._stage(opened, staged, mine, before, outcomes)
    assert "t-0 [0, 100) was cut off at 60" in str(failures[0])


def test_a_partition_without_a_leader_keeps_no_other_chunk_from_its_seal(world):
    """Its own chunk is kept, and sealed without Spark once it has a leader again."""
    world.settings["max_records"] = 100
    world.marks = {0: Watermarks(0, 50, 50), 1: Watermarks(0, 250, 250)}

    def gone() -> None:
        world.leaderless = {0}

    run = world.run("one")
    with pytest.raises(BrokerError, match="chunk 0: t-0: no leader"):
        ingest(run, world.submit(then=gone))
    assert world.rows == {1: ranges((50, 250))}
    with pytest.raises(BrokerError, match="chunk 0: t-0: no leader"):
        ingest(run, world.submit())
    world.leaderless = set()
    ingest(run, world.submit())
    assert world.rows == {0: ranges((0, 50)), 1: ranges((0, 250))}
    assert world.started == 1


def test_the_end_of_an_epoch_is_not_known_without_a_leader():
    """It is not taken for a log that was not cut off."""

    class Admin:
        async def _async_get_leader_for_partitions(self, partitions):
            return {-1: set(partitions)}

    with pytest.raises(BrokerError, match="t-0: no leader now"):
        asyncio.run(epochs._request_ends(Admin(), {TopicPartition("t", 0): 3}))


def test_a_partition_that_has_no_epoch_now_is_asked_for_its_end(world):
    """No epoch is not the same epoch."""
    world.leaderless, world.epoch, world.began = {0}, 1, {1: 60}
    r = OffsetRange("t", 0, 0, 100)
    assert truncation.truncated_since(
        world.run("one").kafka, {("t", 0): 0}, world.survey(), [r]
    ) == {r: 60}
