"""A run's plan is frozen: what the pipeline's file says later is of the next run, and is told."""

import logging
from pathlib import Path
from typing import Any

import pytest

from support import ingest_world
from support.ingest_steps import ingest, plan, publish, stage
from support.ingest_world import World, ranges
from tidegate.core.cursor import Watermarks
from tidegate.errors import StageFailed


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 150, 150)})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"isolation": "read_uncommitted"},
            "had isolation: read_uncommitted, was read_committed; the next run has that",
        ),
        ({"max_records": 20}, "had max_records: 20, the largest chunk has 100 offsets;"),
        ({"topics": ["u"]}, "had topics: without t;"),
        ({"max_records": 1_000}, None),
        ({}, None),
    ],
)
def test_a_retry_keeps_its_plan(
    world: World, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], says: str | None
) -> None:
    """And says what it does not have. A finished run has nothing to say."""
    planned = plan(world.run("r")).plan
    with pytest.raises(StageFailed):
        stage(world.run("r"), world.submit(fail=[1]))
    world.settings |= settings
    assert plan(world.run("r")).plan == planned
    keeps = "p: this run keeps its frozen plan " + planned.id
    assert (keeps in caplog.text, (says or "keeps") in caplog.text) == (bool(says), bool(says))
    ingest(world.run("r"), world.submit())
    assert world.rows == {0: ranges((0, 150))}
    caplog.clear()
    plan(world.run("r"))
    assert "keeps" not in caplog.text


def test_a_new_plan_of_the_same_work_is_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """`--replan` while nothing has changed: the same plan, the same generation, and what is sealed
    of it counts.
    """
    first = plan(world.run("r"))
    with pytest.raises(StageFailed):
        stage(world.run("r"), world.submit(fail=[1]))
    world.marks[0] = Watermarks(0, 150, 150)
    again = plan(world.run("r"), replan=True)
    # Chunk 0 was sealed: it is published first, and the rest is another plan.
    assert world.rows == {0: ranges((0, 100))}
    assert again.plan.id != first.plan.id
    assert plan(world.run("r"), replan=True).plan.id == again.plan.id
    caplog.set_level(logging.INFO)
    stage(world.run("r"), world.submit())
    publish(world.run("r"))
    assert world.rows == {0: ranges((0, 150))}


def test_replanning_an_untouched_plan(world: World) -> None:
    first = plan(world.run("r"))
    again = plan(world.run("r"), replan=True)
    assert (again.plan, again.frozen.generation) == (first.plan, first.frozen.generation)
