"""When the claim of a sender whose driver runs on YARN may be taken over."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.egress_world import World, dies_while_sending, sends_all
from tidegate import flows
from tidegate.core.entries import Claim
from tidegate.egress.release import release_claim
from tidegate.egress.sender import (
    has_ended,
    hold_attempt,
    is_alive,
    is_dead,
    sender_identity,
)
from tidegate.egress.takeover import ProcessSenders
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    SenderAlive,
    SendFailed,
    StageFailed,
)
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import LocalStore
from tidegate.launch import yarn_client, yarn_cluster
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.launch.yarn_cluster import end_application
from tidegate.runs.engine_protocol import Ended, Unknown
from tidegate.spark.answers import DRIVER, JOB, WITHDRAWN
from tidegate.spark.egress_job import SENDING, EgressJob

ATTEMPT = "5d0c3f7e9b8a4c61a2e4d7f00b916c38"  # no other process has it in its command line
OWN = Attempt("f00d", 0, ATTEMPT)
TAG = f"tidegate-{ATTEMPT}"
CONTAINER = {"id": "container_17_0001_01_000001", "node": "node-1:8042", "started": 1}
YARN = SparkConnection("spark_yarn", "yarn", deploy_mode="cluster")
APPLICATION = {"master": "yarn", "tag": TAG}
ENGINE = SparkEngine()
TASK = {"dag": "d", "run": "r", "task": "send", "try": 1, "deployment": "0123 http://af"}


class Yarn:
    """Answers `not_ended` one after the other, and keeps what it was asked to kill."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.killed: list[str] = []
        self.away = False

    def kill(self, tag: str, _: Any) -> list[str]:
        if self.away:
            raise OSError("no answer within 60 s")
        self.killed.append(tag)
        return ["application_17_0001"]

    def not_ended(self, tag: str, driver: Any, _: Any) -> str | None:
        assert tag.startswith("tidegate-")
        assert driver.to_json() == CONTAINER
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Yarn]:
    def made(*answers: str | None) -> Yarn:
        fake = Yarn(*answers)
        monkeypatch.setattr(yarn_client, "kill_applications", fake.kill)
        monkeypatch.setattr(yarn_client, "not_ended", fake.not_ended)
        monkeypatch.setattr(yarn_client, "running_ids", lambda *_: [])
        monkeypatch.setattr(yarn_cluster, "LOOKS_AT_DRIVER_APART", 0.01)
        return fake

    return made


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake/out")


def ended(task: Mapping[str, Any]) -> bool:
    assert task == TASK
    return True


def never(_: Mapping[str, Any]) -> bool:
    raise AssertionError("Airflow is not asked")


def name_driver(store: LocalStore, attempt: Attempt = OWN) -> None:
    store.create(attempt.directory + DRIVER, json.dumps(CONTAINER).encode())


def test_a_driver_that_has_not_named_itself_never_starts(
    store: LocalStore, yarn: Callable[..., Yarn]
) -> None:
    """Its job is withdrawn first, and nobody can give it another one; YARN need not be asked."""
    asked = yarn("it is not asked")
    store.create(OWN.directory + JOB, b"encrypted")
    assert end_application(OWN, TAG, store, None) == Ended()
    assert store.get(OWN.directory + JOB) == WITHDRAWN
    assert not store.create(OWN.directory + JOB, b"another")
    assert asked.killed == [TAG]
    asked.away = True
    assert end_application(OWN, TAG, store, None) == Ended()


def test_a_driver_is_killed_and_its_end_is_awaited(
    store: LocalStore, yarn: Callable[..., Yarn]
) -> None:
    name_driver(store)
    asked = yarn("application_17_0001 is RUNNING", "its container is KILLING", None)
    assert end_application(OWN, TAG, store, None) == Ended()
    assert asked.killed == [TAG] * 3


def test_the_wait_ends(
    store: LocalStore, yarn: Callable[..., Yarn], caplog: pytest.LogCaptureFixture
) -> None:
    """What is the same each time is said once."""
    name_driver(store)
    caplog.set_level("INFO")
    asked = yarn("YARN cannot be asked")
    asked.away = True
    began = time.monotonic()
    assert end_application(OWN, TAG, store, None, patience=0.5) == Unknown("YARN cannot be asked")
    assert 0.5 < time.monotonic() - began < 5
    assert [record.getMessage() for record in caplog.records] == [
        f"the YARN application with the tag {TAG} may still run: no answer within 60 s",
        f"attempt {ATTEMPT}: YARN cannot be asked; looking again",
    ]
    assert store.get(OWN.directory + JOB) == WITHDRAWN


def claim(sender: Mapping[str, Any]) -> Claim:
    return Claim("live", "f00d", ATTEMPT, dict(sender), (), {}, (), {}, "4.0")


def test_while_its_submitter_may_run_nothing_is_ended(
    store: LocalStore, yarn: Callable[..., Yarn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application may be what it waits for: the job stays, and YARN is not asked."""
    asked = yarn(None)
    monkeypatch.setattr("tidegate.egress.sender.held_attempts", {ATTEMPT})
    store.create(OWN.directory + JOB, b"encrypted")
    why = ProcessSenders(None, never).doubt(
        claim(sender_identity(None, APPLICATION)), ENGINE, store
    )
    assert why is not None
    assert why.startswith("its submitter, process ")
    assert store.get(OWN.directory + JOB) == b"encrypted"
    assert asked.killed == []


def test_a_dead_submitter_leaves_the_proof_to_yarn(
    store: LocalStore, yarn: Callable[..., Yarn]
) -> None:
    name_driver(store)
    of_task = {**sender_identity(TASK, APPLICATION), "host": "elsewhere", "processes": "pid:[9]"}
    asked = yarn("container_17_0001_01_000001 on node-1:8042 is KILLING", None)
    assert ProcessSenders(None, ended).doubt(claim(of_task), ENGINE, store) is None
    assert asked.killed == [TAG] * 2
    assert ProcessSenders(None, lambda _: False).doubt(claim(of_task), ENGINE, store) is not None


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (None, "process 7 on elsewhere may still run"),
        (TASK,
         "process 7 on elsewhere may still run (try 1 of task send of d, run r): only tasks of its "
         "Airflow deployment, 0123 http://af, can take over"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_known_to_have_ended_names_its_deployment(
    store: LocalStore, task: Any, says: str
) -> None:
    """Of a submitter, too."""
    sender = {**sender_identity(task), "host": "elsewhere", "processes": "pid:[9]", "pid": 7}
    assert ProcessSenders(None, lambda _: False).doubt(claim(sender), ENGINE, store) == says
    on_yarn = {**sender_identity(task, APPLICATION), **sender}
    why = ProcessSenders(None, lambda _: False).doubt(claim(on_yarn), ENGINE, store)
    assert why == "its submitter, " + says.replace("elsewhere may", "elsewhere, may")


def test_the_end_of_a_submitter_is_not_that_of_its_driver() -> None:
    own = sender_identity(TASK)
    sender = sender_identity(TASK, APPLICATION)
    assert sender == {**own, "application": {"master": "yarn", "tag": TAG}}
    assert is_dead(own, ATTEMPT, never, patience=0)
    assert not is_dead(sender, ATTEMPT, never, patience=0)
    assert is_alive(sender, ATTEMPT)
    with hold_attempt() as attempt:
        assert not has_ended(own, attempt, never)


@pytest.fixture
def on_yarn(world: World, monkeypatch: pytest.MonkeyPatch, yarn: Callable[..., Yarn]) -> Yarn:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    asked = yarn(None)
    world.put(a="1")
    return asked


def played(
    world: World, application: Callable[[EgressJob, Path], None], given: list[EgressJob]
) -> Callable[[Any], None]:
    """Return what submits an application that is played: the job is not decrypted."""

    def submit(call: Any) -> None:
        flag, directory = call.args
        assert flag == "--in-lake"
        # The tag is in the ledger before the application is submitted.
        (open_claim,) = world.fold.egress.claims.values()
        assert open_claim.sender["application"]["tag"] == call.conf["spark.yarn.tags"]
        place = Path(directory)
        assert (place / JOB).read_bytes()
        (place / JOB).unlink()
        (place / DRIVER).write_text(json.dumps(CONTAINER))
        application(given[-1], place)

    return submit


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[EgressJob]:
    """Return the jobs that were made."""
    made: list[EgressJob] = []
    from tidegate.egress import send as module

    job_of = module.job_of

    def kept(*args: Any) -> EgressJob:
        made.append(job_of(*args))
        return made[-1]

    monkeypatch.setattr(module, "job_of", kept)
    return made


def send(world: World, application: Callable[[EgressJob, Path], None], jobs: list[Any]) -> Any:
    from tidegate.egress.send import send as step
    from tidegate.runs.run import open_run

    run = world.run(engine=SparkEngine(world.kafka, YARN, played(world, application, jobs)))
    return step(open_run(run))


def staged(world: World) -> Sequence[str]:
    root = world.home / "lake/out/_tidegate/staging"
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_answers_come_back_by_the_lake(world: World, on_yarn: Yarn, jobs: list[EgressJob]) -> None:
    """Of a success nothing is left in staging."""
    delivery = send(world, sends_all, jobs)
    assert delivery.rows == 1
    assert staged(world) == []
    assert on_yarn.killed == []


def test_a_driver_that_died_while_sending_keeps_its_claim(
    world: World, on_yarn: Yarn, jobs: list[EgressJob]
) -> None:
    with pytest.raises(SendFailed, match="killed"):
        send(world, dies_while_sending, jobs)
    (kept,) = world.fold.egress.claims.values()
    assert kept.sender["application"]["tag"] == f"tidegate-{kept.attempt}"
    assert {DRIVER, SENDING} <= {*staged(world)}
    assert on_yarn.killed


def lost(_: EgressJob, __: Path) -> None:
    raise StageFailed("connection to the resource manager lost")


def says_nothing(_: EgressJob, __: Path) -> None:
    pass


@pytest.mark.parametrize(("ends", "said"), [(lost, "manager lost"), (says_nothing, "no answer")])
def test_nothing_is_released_while_the_driver_may_run(
    world: World, yarn: Callable[..., Yarn], jobs: list[EgressJob], on_yarn: Yarn,
    monkeypatch: pytest.MonkeyPatch, ends: Callable[[EgressJob, Path], None], said: str,
) -> None:  # fmt: skip
    """spark-submit has ended before the first record: the driver may still send it."""

    yarn("application_17_0001 is RUNNING")
    monkeypatch.setattr(yarn_cluster, "end_application", partial(end_application, patience=0.0))
    with pytest.raises(SendFailed, match=f"{said}; and its driver is not proven to have ended: "):
        send(world, ends, jobs)
    assert len(world.fold.egress.claims) == 1
    yarn(None)
    with pytest.raises(SendFailed, match="resource manager lost"):
        # The first claim is taken over as soon as the end is proven: not before.
        send_again(world, lost, jobs, monkeypatch)


def send_again(
    world: World, application: Any, jobs: list[EgressJob], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setattr("tidegate.egress.takeover.has_ended", lambda *_: True)
    return send(world, application, jobs)


@pytest.mark.parametrize("error", [StageFailed("no container"), BrokerUnreachable("away")])
def test_a_driver_that_has_ended_before_it_sent_releases_its_claim(
    world: World, on_yarn: Yarn, jobs: list[EgressJob], error: Exception
) -> None:
    def fails(_: EgressJob, __: Path) -> None:
        raise error

    with pytest.raises((SendFailed, BrokerUnreachable)):
        send(world, fails, jobs)
    assert world.fold.egress.claims == {}
    assert staged(world) == []


def test_a_release_is_refused_while_yarn_shows_the_application(
    world: World, on_yarn: Yarn, jobs: list[EgressJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SendFailed):
        send(world, dies_while_sending, jobs)
    monkeypatch.setattr(yarn_client, "running_ids", lambda *_: ["application_17_0001"])
    with pytest.raises(SenderAlive, match="yarn application -kill application_17_0001"):
        release_claim(
            world.spec, flows.store(world.spec), None, "resend", "x", engine=ENGINE, run="r"
        )
    monkeypatch.setattr(yarn_client, "running_ids", lambda *_: [])
    release_claim(world.spec, flows.store(world.spec), None, "resend", "x", engine=ENGINE, run="r")
    assert world.fold.egress.claims == {}


def test_an_application_of_another_engine_is_never_known_to_have_ended(
    world: World, on_yarn: Yarn, jobs: list[EgressJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its claim released: its driver might send beside the next one."""
    with monkeypatch.context() as patched:
        patched.setattr(yarn_cluster, "MASTER", "later")
        with pytest.raises(SendFailed):
            send(world, dies_while_sending, jobs)
    monkeypatch.undo()
    monkeypatch.setattr("tidegate.egress.takeover.has_ended", lambda *_: True)
    monkeypatch.setattr("tidegate.egress.release.is_alive", lambda *_: False)
    (open_claim,) = world.fold.egress.claims.values()
    assert open_claim.sender["application"]["master"] == "later"
    why = ProcessSenders(None, never).doubt(open_claim, ENGINE, world.open().store)
    assert why == "master 'later' is not known here"
    for how in ("resend", "declare sent"):
        with pytest.raises(ConfigurationError, match="'later' is not known here: release"):
            release_claim(
                world.spec, flows.store(world.spec), None, how, "x", engine=ENGINE, run="r"
            )
    assert [*world.fold.egress.claims.values()] == [open_claim]
    assert on_yarn.killed == []


def test_a_release_withdraws_the_job(
    world: World, on_yarn: Yarn, jobs: list[EgressJob], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """YARN cannot be asked, and starts the driver later: it must not send what others send."""
    left = b"encrypted"

    def killed(_: EgressJob, place: Path) -> None:
        (place / DRIVER).unlink()
        (place / JOB).write_bytes(left)
        raise KeyboardInterrupt

    def away(*_: Any) -> list[str]:
        raise OSError("no answer within 60 s")

    with monkeypatch.context() as patched:  # the submitter was killed: it cleans nothing up
        patched.setattr(LocalStore, "delete", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            send(world, killed, jobs)
    monkeypatch.setattr(yarn_client, "running_ids", away)
    (open_claim,) = world.fold.egress.claims.values()
    place = LocalStore(world.home / "lake/out")
    job = Attempt(open_claim.plan_id, 0, open_claim.attempt).directory + JOB
    assert place.get(job) == left
    release_claim(world.spec, flows.store(world.spec), None, "resend", "x", engine=ENGINE, run="r")
    assert place.get(job) == WITHDRAWN
    assert "YARN cannot be asked whether the application with the tag" in caplog.text
