"""Airflow's database is away when the Variables are written: what is committed stays so."""

import json
from pathlib import Path

import pytest

from support import ingest_world
from support.ingest_steps import plan, publish, stage
from support.ingest_world import World, ranges
from tidegate.core.cursor import Watermarks
from tidegate.errors import AirflowUnavailable, CursorAhead
from tidegate.maintenance.reconcile import reconcile_pipeline
from tidegate.runs.run import Run


class Variables:
    """The Variables of an Airflow, which may be `away`."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.away = False

    def read(self, name: str) -> str | None:
        self._ask()
        return self.kept.get(name)

    def write(self, name: str, text: str) -> None:
        self._ask()
        self.kept[name] = text

    def _ask(self) -> None:
        if self.away:
            raise AirflowUnavailable("the metadata database does not answer")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 150, 150)})


def shown(variables: Variables) -> dict[str, dict[str, int]]:
    return {name: json.loads(text)["t"] for name, text in variables.kept.items()}


def not_shown(world: World) -> tuple[Variables, Run]:
    """Return Variables that were away when a run published, and the run."""
    variables = Variables()
    run = world.run("r", mirror=variables)
    plan(run)
    stage(run, world.submit())
    variables.away = True
    with pytest.raises(AirflowUnavailable):
        publish(run)
    return variables, run


def test_publish_fails_transiently_and_its_retry_reads_nothing(world: World) -> None:
    variables, run = not_shown(world)
    assert world.rows == {0: ranges((0, 150))}
    entries, started = world.ledger.fold.n, world.started
    variables.away = False
    published = publish(run)
    assert shown(variables) == {"tidegate__p__t": {"0": 150}}
    assert published.offsets == {"t": {0: 150}}
    assert (world.ledger.fold.n, world.started) == (entries, started)


def test_without_a_retry_the_next_plan_writes_them(world: World) -> None:
    """Also where they were set back, as by a restored database; not where they are ahead."""
    variables, run = not_shown(world)
    variables.away = False
    for stale in ({}, {"tidegate__p__t": '{"t": {"0": 100}}'}):
        variables.kept = dict(stale)
        assert not plan(world.run("next", mirror=variables)).plan.has_work
        assert shown(variables) == {"tidegate__p__t": {"0": 150}}
    variables.kept = {"tidegate__p__t": '{"t": {"0": 100}}'}
    (drift,) = reconcile_pipeline(run.spec, variables, None).to_json()["variables"]
    assert (drift["state"], drift["mended"]) == ("behind", True)
    variables.kept = {"tidegate__p__t": '{"t": {"0": 151}}'}
    with pytest.raises(CursorAhead):
        plan(world.run("later", mirror=variables))
