"""Whether an earlier attempt may have sent anything: its mark, or its manifest."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.egress_world import (
    World,
    begins,
    dies_before_sending,
    dies_while_sending,
    is_killed,
)
from tidegate import flows
from tidegate.core import canonical
from tidegate.core.requests import FileReplay
from tidegate.egress import send as sending
from tidegate.egress.send import send
from tidegate.errors import SendFailed, StageFailed
from tidegate.launch.spark_connection import LOCAL
from tidegate.launch.spark_engine import SparkEngine
from tidegate.launch.submission import Submission
from tidegate.maintenance.sweep import sweep_pipeline as swept
from tidegate.spark.egress_job import SENDING, EgressJob
from tidegate_check.lake import Checker, Stored

AGAIN = {"asked": FileReplay("x", ("a",))}


def before_the_claim(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something once, when a process has seen that its plan is not sealed, before it claims."""
    real, done = sending.check_same_target, []

    def check(*given: Any) -> Any:
        if not done:
            done.append(True)
            do()
        return real(*given)

    monkeypatch.setattr(sending, "check_same_target", check)


@pytest.mark.parametrize("is_replay", [True, False])
def test_a_sealed_attempt_has_sent(
    world: World, monkeypatch: pytest.MonkeyPatch, is_replay: bool
) -> None:
    """Another process seals the plan and ends between this one's look and its claim: its rows are
    looked for, and the claim is not released as if nothing was sent.
    """
    world.put(a="1")
    given = AGAIN if is_replay else {}
    if is_replay:
        world.send_and_publish("one")
    else:
        with pytest.raises(KeyboardInterrupt):
            world.send("one", is_killed)
    before_the_claim(monkeypatch, lambda: world.send("two", **given))
    with pytest.raises(SendFailed):
        world.send("three", dies_before_sending, **given)
    assert world.ran[-1].resumed
    assert world.fold.egress.claims
    world.send_and_publish("four", **given)
    assert world.ran[-1].resumed


def test_nothing_is_left_of_a_mark(world: World) -> None:
    world.put(a="1")
    world.send_and_publish("one")
    assert not list((world.home / "lake").rglob(SENDING))
    staging = world.home / "lake/out/_tidegate/staging"
    assert [path for path in staging.rglob("*") if path.is_file()] == []


def test_a_mark_that_a_killed_process_has_left_is_swept(world: World) -> None:
    """Between the seal and the deletion of its mark."""
    world.put(a="1")
    world.send_and_publish("one")
    mark = Path(str(world.ran[-1].mark), SENDING)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    assert swept(world.spec, flows.store(world.spec), run="s").swept == ()
    os.utime(mark, (1, 1))
    (gone,) = swept(world.spec, flows.store(world.spec), run="s").swept
    assert (gone.why, mark.exists()) == ("placed", False)


def test_the_mark_of_an_attempt_that_was_superseded_stays(world: World) -> None:
    """It may have sent: until its plan is committed, no sweep takes the mark, however old it is.

    One file is sent by an attempt that ends without a word; the next one fails before its first
    record. Without the mark its claim would be released as if nothing was sent.
    """
    world.put(a="1")

    def is_killed_while_sending(job: EgressJob, directory: Path) -> None:
        begins(job, directory)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.send("one", is_killed_while_sending)
    with pytest.raises(SendFailed):
        world.send("two", dies_before_sending)
    mark = Path(str(world.ran[0].mark), SENDING)
    os.utime(mark, (1, 1))
    assert swept(world.spec, flows.store(world.spec), run="s").swept == ()
    with pytest.raises(SendFailed):
        world.send("three", dies_before_sending)
    assert world.fold.egress.claims
    world.send_and_publish("four")
    assert world.ran[-1].resumed


@pytest.mark.usefixtures("lake")
def test_the_checker_finds_two_senders_of_a_partition(world: World) -> None:
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending)
    (first,) = (world.home / "lake/out/_tidegate/log").iterdir()
    form = json.loads(first.read_text())
    for each in form["topics"].values():
        each["ranges"] = {p: [end, end + 10] for p, (_, end) in each["ranges"].items()}
    previous = hashlib.sha256(first.read_bytes()).hexdigest()
    other = {**form, "n": 2, "previous": previous, "plan": "f" * 16, "attempt": "z"}
    first.with_name(f"{2:020d}.json").write_bytes(canonical.encode(other))
    found = Checker(Stored(str(world.home / "lake/out"))).run()
    said = f"plan {form['plan']} sends of [('old', 0)]"
    assert said in [each.what for each in found if each.name == "claim"]


def test_the_checker_finds_a_release_of_what_was_sent(world: World) -> None:
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("one", dies_before_sending)
    assert Checker(Stored(str(world.home / "lake/out"))).run() == []
    (release,) = (world.home / "lake/out/_tidegate/log").glob("*2.json")
    form = json.loads(release.read_text())
    name = f"{form['plan']}-0-{form['attempt']}.json"
    manifest = world.home / f"lake/out/_tidegate/manifests/{name}"
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text("{}")
    found = Checker(Stored(str(world.home / "lake/out"))).run()
    assert [each.what for each in found if each.name == "release"] == [
        "an attempt of the plan has sent all of it"
    ]


def test_a_mark_in_s3_gets_the_jars_and_settings(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the files that are sent lie on a disk."""
    world.put(a="1")
    submitted: list[Submission] = []

    def submit(given: Submission) -> None:
        submitted.append(given)
        raise StageFailed("no Spark")

    opened = world.open("r", engine=SparkEngine(world.kafka, LOCAL, submit))
    monkeypatch.setattr(type(opened.store), "native", lambda _, path: f"s3a://bucket/{path}")
    with pytest.raises(SendFailed):
        send(opened)
    assert any("s3a" in name for name in submitted[0].conf)
    assert Path(submitted[0].args[0]).name == "job.json"
