"""Chunks that Spark has finished: what may be wrong with them, and what is no proof of that."""

import os
from pathlib import Path

import pytest

from support import ingest_world
from support.ingest_steps import plan, publish, stage
from support.ingest_world import ranges
from tidegate.core.cursor import Watermarks
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.ingest.run import ingest


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
    assert len(world.ledger.fold.abandoned) == 1
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
    assert world.ledger.fold.abandoned == set()
    assert stage(run, world.submit()).chunks == (0, 1, 2)
    assert publish(run).report["rows"] == 300
    assert world.started == 1
