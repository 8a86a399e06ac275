"""The clock of the machine decides nothing about offsets: it may jump between any two steps."""

import importlib
import itertools
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support import ingest_world
from support.ingest_steps import plan, publish, stage, verdict
from support.ingest_world import World, ranges
from tidegate.core.cursor import Watermarks
from tidegate.lake import sweeping

ASK_THE_CLOCK = ("ingest.planning", "ingest.complete_through", "lake.ledger", "runs.report_store")
YEARS = timedelta(days=10 * 365)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 150, 150)})


def set_clock(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + ahead

    for name in ASK_THE_CLOCK:
        monkeypatch.setattr(importlib.import_module(f"tidegate.{name}"), "datetime", Clock)


@pytest.mark.parametrize("jumps", itertools.permutations([-YEARS, timedelta(0), YEARS]))
def test_a_jump_between_any_steps(
    world: World, monkeypatch: pytest.MonkeyPatch, jumps: tuple[timedelta, ...]
) -> None:
    """Ten years back or ahead, between plan, stage and publish, and before the next run."""
    at_plan, at_stage, at_publish = jumps
    for n, end in enumerate((150, 210, 333)):
        world.marks[0] = Watermarks(0, end, end)
        run = world.run(f"r{n}")
        set_clock(monkeypatch, at_plan)
        planned = plan(run).plan
        set_clock(monkeypatch, at_stage)
        stage(run, world.submit())
        set_clock(monkeypatch, at_publish)
        publish(run)
        verdict(run)
        assert plan(run).plan == planned
        assert world.rows == {0: ranges((0, end))}
    kept = sweeping.sweep(run.store(), world.ledger, run="sweep").attempts
    assert kept == []  # by the lake's own clock: readers may still hold what is staged


def test_the_same_work_is_the_same_plan_at_any_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan(world.run("r"))
    for ahead in (-YEARS, YEARS):
        set_clock(monkeypatch, ahead)
        again = plan(world.run("r"), replan=True)
        assert (again.plan, again.frozen.generation) == (first.plan, 1)
