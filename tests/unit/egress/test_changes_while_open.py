"""What changes between the opening of an egress run and the first record that it sends."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from support.egress_world import (
    World,
    commit_range,
    dies_before_sending,
    replay_of,
    sends_all,
    sends_window,
)
from tidegate.egress import planning as planning
from tidegate.egress import send as sending
from tidegate.egress.egress_run import egress
from tidegate.egress.planning import plan
from tidegate.egress.publish import publish
from tidegate.egress.send import send
from tidegate.errors import LedgerCorrupt, ReplayRefused, SendFailed, SourceChanged
from tidegate.spark.egress_job import EgressJob

CORRECTED = replay_of(start="0", end="40")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str, Callable[[], Any]], None]:
    """Have something happen when a function is called: `meanwhile(module, name, action)`."""

    def once(module: object, name: str, action: Callable[[], Any]) -> None:
        real = getattr(module, name)

        def function(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(module, name, real)
            result = real(*args, **options)
            action()
            return result

        monkeypatch.setattr(module, name, function)

    return once


@pytest.mark.usefixtures("lake")
def test_a_lake_that_was_unmounted(world: World, meanwhile: Any) -> None:
    """The claim must not go into an empty directory: the next run would send the rows again."""
    egress(world.run("first", engine=world.engine(sends_window)))
    commit_range(world, "new", 1, 50, 60)
    lake, away = world.home / "lake", world.home / "away"

    def unmount() -> None:
        lake.rename(away)
        lake.mkdir()

    meanwhile(sending, "refuse_unordered", unmount)
    with pytest.raises(LedgerCorrupt, match="is missing since it was read"):
        egress(world.run("second", engine=world.engine(sends_window)))
    assert len(world.ran) == 1
    assert not list(lake.rglob("*.json"))
    shutil.rmtree(lake)
    away.rename(lake)
    egress(world.run("third", engine=world.engine(sends_window)))
    assert len(world.ran) == 2


def test_a_file_that_was_replaced(world: World, meanwhile: Any) -> None:
    """Its new rows are not sent as those of the plan; the next run plans and sends them."""
    world.put(a="one\n")
    meanwhile(sending, "check_same_target", lambda: world.put(a="other rows\n"))
    with pytest.raises(SourceChanged):
        world.send()
    assert world.ran == []
    assert world.fold.egress.claims == {}
    assert world.send_and_publish("next", sends_all)["files"] == ["a"]


@pytest.fixture
def refused(world: World, lake: None) -> None:
    """A replay x whose first attempt sent nothing: a corrected request under its id is allowed."""
    with pytest.raises(SendFailed):
        world.send("a", dies_before_sending, **replay_of())
    world.ran.clear()


def send_whole(world: World, sent: list[EgressJob], run_id: str, request: Any) -> None:
    def application(job: EgressJob, directory: Any) -> None:
        sent.append(job)
        sends_window(job, directory)

    world.send_and_publish(run_id, application, **request)


@pytest.mark.usefixtures("refused")
def test_a_corrected_replay_is_planned_while_the_first_is_sent(
    world: World, meanwhile: Any
) -> None:
    """One of the two requests is sent, and the other one is refused before its first record."""
    sent: list[EgressJob] = []
    meanwhile(planning, "draft_plan", lambda: send_whole(world, sent, "a", replay_of()))
    corrected = world.open("b", engine=world.engine(sends_window), **CORRECTED)
    plan(corrected)
    with pytest.raises(ReplayRefused, match="of another request under replay id 'x', came first"):
        send(corrected)
    assert (len(sent), world.fold.egress.claims) == (1, {})
    assert len(world.ran) == 1


@pytest.mark.usefixtures("refused")
def test_the_first_is_sent_after_the_corrected_replay_was_opened(world: World) -> None:
    corrected = world.open("b", **CORRECTED)
    world.send_and_publish("a", sends_window, **replay_of())
    with pytest.raises(ReplayRefused):
        plan(corrected)
    assert len(world.ran) == 1


@pytest.mark.usefixtures("refused")
def test_a_corrected_replay_is_sent_before_the_first_claims_again(
    world: World, meanwhile: Any
) -> None:
    first = world.open("a", engine=world.engine(sends_window), **replay_of())
    meanwhile(
        sending, "refuse_unordered", lambda: world.send_and_publish("b", sends_window, **CORRECTED)
    )
    with pytest.raises(ReplayRefused, match="give it an id of its own"):
        send(first)
    assert (len(world.ran), world.fold.egress.claims) == (1, {})
    assert publish(world.open("b", **CORRECTED)).report.rows > 0


@pytest.mark.usefixtures("lake")
def test_two_first_requests_under_one_id(world: World, meanwhile: Any) -> None:
    """The one that loses the plan does not send the other one's window as its own."""
    meanwhile(planning, "draft_plan", lambda: world.plan("a", **replay_of()))
    with pytest.raises(ReplayRefused):
        world.send("b", sends_window, **CORRECTED)
    assert world.ran == []
