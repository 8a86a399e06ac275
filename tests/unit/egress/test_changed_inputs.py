"""Files and targets that change between plan and commit."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.egress_world import World, dies_while_sending, sends_all, target_of
from support.handed_in import TOY
from tidegate import flows
from tidegate.core.cluster_answers import TargetState, TargetSurvey
from tidegate.egress.publish import publish
from tidegate.egress.release import release_claim
from tidegate.errors import (
    ConfigurationError,
    IdentityChanged,
    NotSealed,
    SendFailed,
    SourceChanged,
    SourceUnavailable,
)
from tidegate.lake import sources
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
            os.utime(path, (1, 1))
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


def restore(path: Path) -> None:
    """Put a copy in a file's place, as a restore does: another inode, the same size and time."""
    copy = path.with_name(".copy")
    shutil.copy2(path, copy)
    copy.replace(path)


def test_a_restored_file_was_sent(world: World) -> None:
    world.put(a="1")
    world.send_and_publish("one")
    restore(world.home / "in/a")
    planned = world.plan("two").plan
    assert (planned.files, planned.left_out) == ((), ())


def test_a_claim_outlives_a_restore(world: World) -> None:
    """The plan's files are still what they were when it was frozen."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(application=dies_while_sending)
    restore(world.home / "in/a")
    assert world.send_and_publish()["files"] == ["a"]


@pytest.mark.parametrize("resend", [False, True])
@pytest.mark.parametrize(("text", "sent"), [("1", True), ("2", False), ("longer", False)])
def test_where_times_differ_content_decides(
    world: World, text: str, sent: bool, resend: bool
) -> None:
    """A copy without times is no other file: neither excluded, nor sent again by --resend."""
    world.put(a="1", b="x")
    world.send_and_publish("one")
    world.put(a=text)
    os.utime(world.home / "in/a", (1, 1))
    planned = world.plan("two", resend=resend).plan
    names = [each.file for each in planned.left_out], [each.name for each in planned.files]
    changed = [] if sent else ["a"]
    assert names == (([], changed) if resend else (changed, []))


def test_a_content_that_was_not_recorded(world: World) -> None:
    """Of a claim that was declared sent: the file stays excluded, by name."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(application=dies_while_sending)
    release_claim(
        world.spec, flows.store(world.spec), None, "declare sent", "looked", engine=TOY, run="me"
    )
    os.utime(world.home / "in/a", (1, 1))
    (excluded,) = world.plan("two").plan.left_out
    assert excluded.file == "a"


def touched(world: World, name: str, text: str, time: float) -> None:
    world.put(**{name: text})
    os.utime(world.home / f"in/{name}", (time, time))


def excluded(world: World, run_id: str, **others: Any) -> tuple[list[str], list[str]]:
    planned = world.plan(run_id, **others).plan
    return [each.file for each in planned.left_out], [each.name for each in planned.files]


def test_an_older_content_is_not_the_one_that_was_sent_last(world: World) -> None:
    """Its place was taken by another one, which was declared sent: without a record of it, no
    content of this name is known.
    """
    touched(world, "a", "A", 1)
    world.send_and_publish("one")
    touched(world, "a", "B", 2)
    with pytest.raises(SendFailed):
        world.send("two", dies_while_sending, resend=True)
    release_claim(
        world.spec, flows.store(world.spec), None, "declare sent", "looked", engine=TOY, run="me"
    )
    touched(world, "a", "A", 3)
    assert excluded(world, "three") == (["a"], [])
    assert excluded(world, "four", resend=True) == ([], ["a"])


def test_a_file_that_cannot_be_read_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the one that was sent: excluded by name."""
    world.put(a="1")
    world.send_and_publish("one")
    touched(world, "a", "1", 1)
    world.put(b="2")

    def fails(*_: object) -> str:
        raise SourceUnavailable("a: Permission denied")

    monkeypatch.setattr(sources, "digest_content", fails)
    assert excluded(world, "two") == (["a"], ["b"])


def test_a_lost_manifest_says_nothing_of_its_own_files_alone(world: World) -> None:
    world.put(a="1")
    world.send_and_publish("one")
    world.put(b="2")
    world.send_and_publish("two")
    first = world.fold.live[min(world.fold.live)]
    world.run().store().delete(first.manifest.path)
    touched(world, "a", "1", 1)
    touched(world, "b", "2", 1)
    assert excluded(world, "three") == (["a"], [])


def test_a_file_of_another_root_is_another_file(world: World) -> None:
    """Of the same name and content: excluded by name, as what was sent is known by its name."""
    world.put(a="1")
    world.send_and_publish("one")
    other = world.home / "other"
    other.mkdir()
    (other / "a").write_text("1")
    os.utime(other / "a", (1, 1))
    world.settings = {"source": {"path": str(other), "format": "text"}}
    assert excluded(world, "two") == (["a"], [])


def test_a_plan_keeps_its_settings(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Of its own run and of one that finishes it, and both say what the plan does not have."""
    world.put(a="1")
    plan = world.plan("one").plan
    world.settings = {"order_by": ["1"], "columns": {"key": "'k'"}}
    says = f"out: plan {plan.id} is frozen, and is sent with its own columns.key, order_by;"
    assert world.plan("one").plan == plan
    assert caplog.text.count(says) == 1
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending)
    caplog.clear()
    assert world.plan("two").plan == plan
    assert caplog.text.count(says) == 1
    world.send_and_publish("two")
    assert [job.columns["key"] for job in world.ran] == ["null", "null"]
    caplog.clear()
    world.plan("two")
    assert "is frozen" not in caplog.text
