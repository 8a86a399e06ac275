"""Chunks that Spark has finished: what may be wrong with them, and what is no proof of that."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from support import ingest_world, staged_attempts
from support.ingest_steps import ingest, plan, publish, stage
from support.ingest_world import ranges
from tidegate.core.cursor import Watermarks
from tidegate.core.requests import Backfill, Replay
from tidegate.errors import (
    BrokerUnreachable,
    LakeUnavailable,
    PlanDead,
    ReplayRefused,
    StageFailed,
)
from tidegate.ingest import publish as publishing
from tidegate.ingest import sealing
from tidegate.lake.sweeping import sweep
from tidegate.runs.run import open_run


@pytest.fixture
def world(tmp_path, monkeypatch):
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 300, 300)})


def kept(world):
    """Carry a run out up to its seals: Spark has finished, and the broker is away."""

    def away() -> None:
        world.away = BrokerUnreachable("away")

    with pytest.raises(BrokerUnreachable):
        ingest(world.run("one"), world.submit(then=away))
    world.away = None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format":2,"rows":"x"}'])
def test_a_damaged_record_of_an_attempt_wedges_no_run(world, text):
    """Nothing can restore it: the attempt is wrong, abandoned and staged again by its own run."""
    kept(world)
    run = world.run("one")
    done = sorted((world.root / "p/_tidegate/staging").rglob("_done.json"))
    done[0].write_text(text)
    ingest(run, world.submit())
    assert world.rows == {0: ranges((0, 300))}
    assert len(world.ledger.fold.barred) == 1
    assert world.started == 2


def test_one_error_of_reading_costs_no_finished_attempt(world, monkeypatch):
    """While it is sealed: its files stay, nothing is abandoned, and the retry seals them."""
    run, opened = world.run("one"), Path.open

    def fails(self, *args, **options):
        file = opened(self, *args, **options)
        if self.suffix == ".parquet" and "r" in args[0]:
            directory = os.open(self.parent, os.O_RDONLY)
            os.dup2(directory, file.fileno())  # each read fails from now on: EISDIR
            os.close(directory)
        return file

    plan(run)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", fails)
        with pytest.raises(LakeUnavailable, match="Is a directory"):
            stage(run, world.submit())
    assert world.ledger.fold.barred == set()
    assert stage(run, world.submit()).chunks == (0, 1, 2)
    assert publish(run).report.rows == 300
    assert world.started == 1


def test_a_chunk_that_others_have_committed_in_part(world):
    """The run is not done: what is left is read by a new plan, and its publish alone refuses."""
    first = plan(world.run("one")).plan
    with pytest.raises(StageFailed):
        stage(world.run("one"), world.submit(fail=[0]))
    ingest(world.run("b", asked=Backfill("t", start="0", end="50")), world.submit())
    with pytest.raises(PlanDead, match=f"plan {first.id}, chunk 0: others have committed t-0"):
        publish(world.run("one"))
    ingest(world.run("one"), world.submit())
    assert world.rows == {0: ranges((0, 300))}


def test_a_publisher_that_another_one_has_overtaken(world):
    """What it does is done: it neither refuses nor says that chunks are missing."""
    plan(world.run("one"))
    stage(world.run("one"), world.submit())
    slow = open_run(world.run("one"))
    publish(world.run("one"))
    sweep(slow.store, world.ledger, run="sweep", grace=0)
    assert publishing.publish(slow).missing == ()


def test_a_sealed_attempt_is_not_deleted_or_given_up(world):
    """Another process has sealed it; to this one it is unfinished, or it seems to be wrong."""
    run = world.run("one")
    planned = plan(run).plan
    opened = open_run(run)
    attempt = staged_attempts.seal(opened.store, planned).attempt
    record = Path(opened.store.native(attempt.done_path))
    record.write_text("{}")
    sealing.seal(opened, planned, [attempt], {}, outcomes := sealing.Outcomes())
    assert [*outcomes.wrong] == [attempt]
    record.unlink()
    sealing.delete_unfinished_attempt(opened, attempt)
    record.touch()
    assert opened.ledger.refresh().barred == set()
    ingest(run, world.submit())
    assert world.rows == {0: ranges((0, 300))}
    assert world.ledger.commit(min(world.ledger.fold.live)).attempt == attempt.name


def test_a_replay_that_others_were_quicker_than(world):
    """Its sealed chunks are brought to the ledger, which says why they are not taken."""
    ingest(world.run("one"), world.submit())
    asked = Replay(topic="t", id="slow", start="0", end="300")
    plan(world.run("r", asked=asked))
    stage(world.run("r", asked=asked), world.submit())
    ingest(world.run("q", asked=replace(asked, id="quick")), world.submit())
    with pytest.raises(ReplayRefused, match="others have replaced"):
        publish(world.run("r", asked=asked))
