"""What the key `options` changes in a run, and what it never does: notices, job, group offsets."""

import logging
from pathlib import Path
from typing import Any

import pytest

from support import ingest_world
from support.ingest_steps import explain, ingest, plan, stage
from support.ingest_world import World
from support.kafka_answers import answer
from tidegate import faults
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cursor import Watermarks
from tidegate.errors import BrokerError, ConfigurationError, StageFailed
from tidegate.faults import FaultInjected
from tidegate.spark.ingest_job import IngestJob


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 30, 30)})


def test_notices_are_logged_when_a_plan_is_frozen(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, not by the run's retry."""
    world.settings["options"] = {"includeHeaders": False}
    with caplog.at_level(logging.WARNING):
        plan(world.run("r"))
        plan(world.run("r"))
    assert caplog.text.count("p: options: includeHeaders: it has no effect") == 1


@pytest.mark.parametrize(
    ("of_connection", "client_id"),
    [
        ({}, "tidegate-p-stage-manual__2024-05-01T10_00_00_00_00-{attempt}"),
        ({"client.id": "acme"}, "acme"),
    ],
)
def test_the_job_has_the_pipelines_options(
    world: World, of_connection: dict[str, str], client_id: str
) -> None:
    """Before those of the connection; the isolation level is the plan's, and the client id names
    pipeline, step, run and attempt, unless the connection has one.
    """
    world.settings["options"] = {
        "KAFKA.request.timeout.ms": 7000, "fetchOffset.numRetries": 9, "groupIdPrefix": "team",
    }  # fmt: skip
    run = world.run("manual__2024-05-01T10:00:00+00:00")
    extra = {**run.kafka.extra, "request.timeout.ms": "9000", **of_connection}
    object.__setattr__(run, "kafka", KafkaCluster("kafka_default", extra))
    jobs: list[IngestJob] = []

    def do(job: IngestJob, directory: Path) -> None:
        jobs.append(job)
        world.submit()(job, directory)

    ingest(run, do)
    (job,) = jobs
    attempt = Path(job.chunks[0].directory).name
    assert job.options == {
        "kafka.bootstrap.servers": "nowhere:1",
        "kafka.request.timeout.ms": "7000",
        "fetchOffset.numRetries": "9",
        "groupIdPrefix": "team",
        "kafka.isolation.level": "read_committed",
        "kafka.client.id": client_id.format(attempt=attempt),
    }


@pytest.mark.parametrize(("size", "notices"), [(10, 0), (9, 1)])
def test_tasks_that_are_too_many_are_a_notice(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int, notices: int
) -> None:
    """Of `explain`, with their number, also if the number of cores is unknown."""
    monkeypatch.setattr("tidegate.ingest.explain.MANY_TASKS", 3)
    world.settings["options"] = {"maxRecordsPerPartition": size}
    for tasks in (2, None):
        found = explain(world.run("r"), tasks=tasks)["notices"]
        assert len(found) == notices
        assert all(each.startswith("options: a chunk has 4 tasks: ") for each in found)


def test_options_do_not_change_a_plan(world: World) -> None:
    """They are read when a step runs: a plan that is frozen goes on with others."""
    planned = plan(world.run("r")).plan
    world.settings["options"] = {"maxRecordsPerPartition": 1, "kafka.max.poll.records": 1}
    assert plan(world.run("r")).plan.id == planned.id
    assert plan(world.run("other")).plan.chunks == planned.chunks


def test_an_option_that_contradicts_the_connection(world: World) -> None:
    """Spark's driver would refuse it: named by plan, by explain and by stage, without a broker."""
    plan(world.run("r"))
    world.settings["options"] = {"kafka.default.api.timeout.ms": 29_999}
    world.away = BrokerError("nobody is asked")
    refused = pytest.raises(ConfigurationError, match=r"default\.api\.timeout\.ms: less than")
    for step in (lambda: plan(world.run("other")), lambda: explain(world.run("other"))):
        with refused:
            step()
    world.away = None
    with refused:  # the option was given after the plan was frozen
        stage(world.run("r"), world.submit())


def test_the_isolation_level_is_the_plans(world: World) -> None:
    """A plan's ends were looked up with it."""
    planned = plan(world.run("r")).plan
    world.settings["options"] = {"kafka.isolation.level": "read_uncommitted"}
    jobs: list[IngestJob] = []

    def do(job: IngestJob, directory: Path) -> None:
        jobs.append(job)
        world.submit()(job, directory)

    stage(world.run("r"), do)
    assert (planned.isolation, jobs[0].options["kafka.isolation.level"]) == ("read_committed",) * 2


def test_no_group_offset_before_the_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most once is nothing that Tidegate does: wherever a run dies, the group's offsets are not
    ahead of the data.
    """
    shown: list[Any] = []
    answer(monkeypatch, commit=lambda *given: shown.append(given[1:]))
    world.settings["progress_group"] = "lag"
    run = world.run("r")
    with pytest.raises(StageFailed):
        ingest(run, world.submit(fail={0}))
    for point in ("plan.frozen", "seal.written", "publish.before"):
        monkeypatch.setenv(faults.VARIABLE, f"{point}:raise")
        with pytest.raises(FaultInjected):
            ingest(run if point != "plan.frozen" else world.run("other"), world.submit())
    assert shown == []
    monkeypatch.delenv(faults.VARIABLE)
    ingest(run, world.submit())
    assert shown == [("lag", {"t": {0: 30}})]
