"""`tidegate.plan` and `tidegate.run`, with made-up watermarks and attempts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support import ingest_world
from support.ingest_world import World
from support.toy_engine import submitting
from tidegate import api
from tidegate.cli import runs
from tidegate.core.cursor import Watermarks
from tidegate.errors import ConfigurationError, StageFailed
from tidegate.launch import spark_submit
from tidegate.launch.spark_submit import Submission

KAFKA = {"bootstrap.servers": "nowhere:1"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("SPARK", "KAFKA"):
        monkeypatch.delenv(f"AIRFLOW_CONN_{name}_DEFAULT", raising=False)
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 250, 250)})


@pytest.fixture
def masters(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The masters of the applications that were submitted."""
    found: list[str] = []

    def submit(given: Submission, *, master: str, log: Any) -> None:
        found.append(master)
        log("starts")
        submitting(world.submit())(given)

    monkeypatch.setattr(spark_submit, "submit", submit)
    return found


def test_a_plan_is_carried_out_by_its_id(world: World, masters: list[str]) -> None:
    """The same id has the same plan, also in the command line."""
    spec = world.run("any").spec
    plan = tidegate.plan(spec, "r", kafka=KAFKA, max_records=200)
    assert plan.chunks == (
        (tidegate.OffsetRange("t", 0, 0, 200),),
        (tidegate.OffsetRange("t", 0, 200, 250),),
    )
    world.marks[0] = Watermarks(0, 400, 400)
    assert tidegate.plan(spec, "r", kafka=KAFKA).id == plan.id
    lines: list[str] = []
    report = tidegate.run(spec, "r", kafka=KAFKA, master="local[3]", log=lines.append)
    assert (report["run"], report["plan_id"], report["rows"]) == ("r", plan.id, 250)
    assert (masters, lines) == (["local[3]"], ["starts"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "kafka", lambda _: world.run("any").kafka)
        assert (
            runs.new_run(spec, "r").key == api._run(spec, "r", KAFKA, None, None, resend=False).key
        )
    assert tidegate.run(spec, "r", kafka=KAFKA)["rows"] == 250
    assert masters == ["local[3]"], "nothing is staged twice"


def test_a_master_that_is_none_is_refused(world: World, masters: list[str]) -> None:
    """Before a plan is frozen."""
    spec = world.run("any").spec
    with pytest.raises(ConfigurationError, match="'lcoal' is no master of Spark"):
        tidegate.run(spec, "r", kafka=KAFKA, master="lcoal")
    assert masters == []
    assert not [path for path in Path(spec.lake).rglob("*") if path.is_file()]


def test_a_new_run_takes_what_is_new(world: World, masters: list[str]) -> None:
    """Without a Spark connection as the command line: `local[*]`."""
    spec = world.run("any").spec
    assert tidegate.run(spec, kafka=KAFKA, max_chunks=1)["rows"] == 100
    report = tidegate.run(spec, kafka=KAFKA)
    assert (report["rows"], report["run"][:8]) == (150, "manual__")
    assert masters == ["local[*]"] * 2
    assert not tidegate.plan(spec, "later", kafka=KAFKA).has_work


def test_a_spark_connection_of_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it; a master that is given is used in its place."""
    spec = world.run("any").spec
    form = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {"spark.cores.max": 3}}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(form))
    found: list[tuple[str, str | None]] = []

    def submit(given: Submission, *, master: str, log: Any) -> None:
        found.append((master, given.conf.get("spark.cores.max")))
        submitting(world.submit())(given)

    monkeypatch.setattr(spark_submit, "submit", submit)
    tidegate.run(spec, kafka=KAFKA, max_chunks=1)
    tidegate.run(spec, kafka=KAFKA, max_chunks=1, master="local[1]")
    assert found == [("local[2]", "3"), ("local[1]", None)]


def test_what_is_not_found_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = world.run("any").spec
    with pytest.raises(ConfigurationError, match="Kafka connection 'kafka_default' is not defined"):
        tidegate.plan(spec, "r")
    with pytest.raises(ConfigurationError, match="resend is for egress pipelines"):
        tidegate.run(spec, kafka=KAFKA, resend=True)


@pytest.mark.parametrize("value", [0, -1, "2", 1.5, True])
@pytest.mark.parametrize("option", ["max_records", "max_chunks"])
def test_a_limit_is_a_whole_number(world: World, option: str, value: Any) -> None:
    """Of a negative `max_chunks` all chunks but the last would be planned."""
    spec = world.run("any").spec
    said = f"{option}: {value!r} is no whole number of at least 1"
    for call in (tidegate.plan, tidegate.run):
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            call(spec, "r", kafka=KAFKA, **{option: value})
    assert not list(world.root.rglob("*"))


def test_an_empty_run_id(world: World) -> None:
    """As from a variable that is not set: each repetition would be a run of its own."""
    with pytest.raises(ConfigurationError, match="the run id is empty"):
        tidegate.plan(world.run("any").spec, "", kafka=KAFKA)


def test_an_application_that_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sealed is published; the same id does the rest."""
    spec = world.run("any").spec
    monkeypatch.setattr(spark_submit, "submit", submitting(world.submit(fail=[2])))
    with pytest.raises(StageFailed):
        tidegate.run(spec, "r", kafka=KAFKA, master="local[1]")
    assert sum(file["rows"] for file in tidegate.files(spec)) == 200
    monkeypatch.setattr(spark_submit, "submit", submitting(world.submit()))
    assert tidegate.run(spec, "r", kafka=KAFKA, master="local[1]")["rows"] == 250
