"""Fixtures of the egress tests: a world without a broker, and lakes to send."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.egress_world import World, commit_range, lake_ledger, target_of
from support.kafka_answers import answer
from tidegate.core.cluster_answers import TargetSurvey
from tidegate.core.entries import Adoption, Origin
from tidegate.lake.ledger import Ledger


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A sender is alive while its attempt is in `alive`; topics are made only if that is asked."""
    world = World(tmp_path, target_of())
    (tmp_path / "in").mkdir()
    (tmp_path / "pipelines").mkdir()
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "pipelines"))

    def survey(_: Any, names: Any, **__: Any) -> TargetSurvey:
        assert set(names) == set(world.target.topics)
        return world.target

    def dead(_: Mapping[str, Any], attempt: str, *__: Any, **___: Any) -> bool:
        return attempt not in world.alive

    answer(monkeypatch, survey_target=survey)
    monkeypatch.setattr("tidegate.egress.takeover.is_dead", dead)
    monkeypatch.setattr(
        "tidegate.egress.release.is_alive", lambda _, attempt: attempt in world.alive
    )
    return world


@pytest.fixture
def lake(world: World) -> None:
    """What an ingest pipeline `lake` has: [0, 100) and [120, 200) of partition 0 of `src`, [0, 50)
    of partition 1, in files of 20 offsets; and [0, 300) of `src` before it was recreated. The
    pipeline `out` sends it.
    """
    ledger = _source(world)
    ledger.append(Origin("src", "old", {0: 0}), run="r")
    commit_range(world, "old", 0, 0, 300)
    adopted = Adoption("old", "recreated", "me")
    ledger.append(Origin("src", "new", {0: 0, 1: 0}, adopted), run="r")
    for partition, start, end in ((0, 0, 100), (0, 120, 200), (1, 0, 50)):
        commit_range(world, "new", partition, start, end)


@pytest.fixture
def lake_with_hole(world: World) -> None:
    """The lake of `lake`: [0, 100) of partition 0 of `src`, then nothing, then [120, 200), which
    was committed ahead; its origin is 60. The pipeline `out` sends it.
    """
    ledger = _source(world)
    ledger.append(Origin("src", "id", {0: 60}), run="r")
    for start, end in ((60, 100), (120, 200)):
        commit_range(world, "id", 0, start, end)


def _source(world: World) -> Ledger:
    """Make the ingest pipeline `lake` the source of `out`; return its ledger."""
    form = {"name": "lake", "kind": "ingest", "topics": ["src"], "lake": str(world.home / "of")}
    (world.home / "pipelines/lake.yaml").write_text(json.dumps(form))
    world.settings = {"source": {"lake": "lake"}}
    return lake_ledger(world)[1]
