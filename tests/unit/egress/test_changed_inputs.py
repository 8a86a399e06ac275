"""Files and targets that change between plan and commit."""

from pathlib import Path
from typing import Any

import pytest

from support.egress_world import World, dies_while_sending, sends_all, target_of
from tidegate.broker.target import TargetState, TargetSurvey
from tidegate.egress.publish import publish
from tidegate.errors import (
    ConfigurationError,
    IdentityChanged,
    NotSealed,
    SendFailed,
    SourceChanged,
)
from tidegate.spark.egress_job import EgressJob


def test_a_file_that_changed_before_the_claim_is_planned_again(world: World) -> None:
    world.put(a="1", b="2")
    first = world.plan().plan
    world.put(a="longer")
    assert world.send_and_publish()["files"] == ["a", "b"]
    assert world.ran[0].plan_id != first.id


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_file_that_changes_while_it_is_sent(world: World, how: str) -> None:
    """Nothing is sealed; the claim stands until the file is back, or it is released."""
    world.put(a="1", b="2")
    path = world.home / "in/a"
    aside = path.with_name(".a")

    def changes(job: EgressJob, directory: Path) -> None:
        path.rename(aside)
        if how == "changed":
            path.write_text("1")
        sends_all(job, directory)

    with pytest.raises(SourceChanged, match="1 of its files are gone or have changed, a") as seen:
        world.send(application=changes)
    assert seen.value.numbers["files"] == ["a"]
    with pytest.raises(SourceChanged):
        world.send()
    with pytest.raises(NotSealed):
        publish(world.open())
    aside.rename(path)
    assert world.send_and_publish()["files"] == ["a", "b"]
    assert len(world.ran) == 2


def test_a_pipeline_that_is_edited_meanwhile_does_not_move_a_claim(world: World) -> None:
    """The files are looked for where they were planned."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(application=dies_while_sending)
    (world.home / "elsewhere").mkdir()
    world.settings = {"source": {"path": str(world.home / "elsewhere"), "format": "json"}}
    assert world.send_and_publish()["files"] == ["a"]
    assert world.ran[1].source == world.ran[0].source


@pytest.mark.parametrize(
    "now",
    [
        TargetSurvey("cluster", {"t": TargetState("another", {0: 5}, 1, compacted=False)}),
        TargetSurvey("another", {"t": TargetState("id-t", {0: 5}, 1, compacted=False)}),
    ],
)
@pytest.mark.parametrize("claimed", [True, False])
def test_another_target_under_the_same_name(world: World, now: Any, claimed: bool) -> None:
    """A recreated topic, another cluster: refused at once, also in the middle."""
    world.put(a="1")
    if claimed:
        with pytest.raises(SendFailed):
            world.send(application=dies_while_sending)
    else:
        world.plan()
    world.target = now
    with pytest.raises(IdentityChanged):
        world.send()
    assert len(world.ran) == claimed


def test_rows_without_order_do_not_go_into_a_compacted_topic(world: World) -> None:
    """Which record of a key is the last would be chance. Refused before the claim."""
    world.target = target_of(compacted=True)
    world.put(a="1")
    with pytest.raises(ConfigurationError, match=r"t is compacted.* give order_by\. Nothing was"):
        world.send()
    assert (world.fold.n, world.ran) == (0, [])
    world.settings = {"order_by": ["value"], "columns": {"key": "value"}}
    assert world.send_and_publish("ordered")["files"] == ["a"]
