"""A lake as a source: which offsets an egress sends, in which order, and what it refuses."""

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from support import staged_attempts
from support.egress_world import (
    World,
    commit_range,
    dies_while_sending,
    lake_ledger,
    make_lake,
    replay_of,
    send_next,
    sends_window,
    target_of,
)
from tidegate.core.entries import Adoption, Gap, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.egress import lake_source, replay
from tidegate.egress.pipeline_cycles import refuse_loop
from tidegate.egress.publish import verdict
from tidegate.egress.release import LateRange, declare_late
from tidegate.egress.status import judge_egress, read_egress_status
from tidegate.errors import (
    ConfigurationError,
    LakeDamaged,
    NotClaimed,
    PartitionsLeftOut,
    PlanDead,
    SendFailed,
    SourceChanged,
)
from tidegate.lake import committing
from tidegate.lake.store import STORES
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, parse_spec
from tidegate.runs.pipeline_state import State


def test_a_lake_by_pattern_is_sent_and_looped(world: World) -> None:
    """Its topics are those that its ledger knows; one that its pattern would take is a loop."""
    make_lake(world, OffsetRange("u", 0, 0, 10), pattern="[a-u]")
    with pytest.raises(ConfigurationError, match="t feeds the lake of 'in'"):
        world.plan()
    world.settings["source"] = {"lake": "in", "topics": ["u"]}
    assert world.plan().plan.chunks == ((OffsetRange("u", 0, 0, 10),),)
    path = {"path": str(world.home / "lakes/in/data"), "format": "parquet"}
    fed = parse_spec({**world.spec.model_dump(), "source": path})
    assert isinstance(fed, Egress)
    with pytest.raises(ConfigurationError, match="t feeds the lake of 'in'"):
        refuse_loop(fed, "cluster", STORES, pipeline_files)


def test_the_earlier_topic_id_is_sent_first(world: World) -> None:
    """Under the id that it had: no committed row is forgotten."""
    store = make_lake(world, OffsetRange("u", 0, 0, 10), topics=["u"])
    ledger = staged_attempts.ledger_of(store, "in")
    adopts = Adoption("id-u", "recreated", "me")
    ledger.append(Origin("u", "new", {0: 0}, adopts), run="r")
    world.settings["source"] = {"lake": "in"}
    planned = world.plan().plan
    assert (planned.topics, planned.chunks) == ({"u": "id-u"}, ((OffsetRange("u", 0, 0, 10),),))


@pytest.mark.parametrize("how", ["lost", "another"])
def test_a_lake_that_lacks_the_window_is_refused(world: World, how: str) -> None:
    """Unmounted after it was planned, or another lake there: no row of it passes for invisible."""
    store = make_lake(world, OffsetRange("u", 0, 0, 10), topics=["u"])
    world.settings["source"] = {"lake": "in"}
    world.plan()
    store.root.rename(world.home / "aside")
    if how == "another":
        plan = staged_attempts.plan_of((OffsetRange("u", 0, 5, 10),), pipeline="in")
        staged_attempts.seal(store, plan)
        committing.commit_sealed_chunks(
            store, staged_attempts.ledger_of(store, "in"), plan, run="r"
        )
    with pytest.raises(SourceChanged, match=r"does not hold u-0 \[0, 10\)"):
        world.send()
    assert (world.ran, world.fold.egress.claims) == ([], {})


def test_a_lake_that_no_run_has_written_is_not_sent(world: World) -> None:
    """A wrong `lake` would count as sent, and the status would say so."""
    make_lake(world, OffsetRange("u", 0, 0, 10), topics=["u"])
    world.settings["source"] = {"lake": "in"}
    shutil.rmtree(world.home / "lakes/in")
    with pytest.raises(ConfigurationError, match="no run has written there"):
        world.plan()
    status = read_egress_status(world.spec, STORES, pipeline_files)
    assert "no run has written there" in (status.source_problem or "")
    assert judge_egress(status).state is State.BLOCKED


@pytest.mark.usefixtures("lake_with_hole")
def test_a_lake_is_sent_up_to_its_first_unseen_offset(world: World) -> None:
    """What was committed ahead waits until that offset is covered, or given up by a gap; and the
    status says how much waits.
    """
    assert send_next(world, "one") == ["src-0 [60, 100)"]
    assert not world.plan("two").plan.has_work
    waiting = read_egress_status(world.spec, STORES, pipeline_files).to_json()["waiting"]
    assert (waiting["offsets"], waiting["ahead"]) == (0, 80)
    commit_range(world, "id", 0, 100, 110)
    assert send_next(world, "three") == ["src-0 [100, 110)"]
    _, ledger = lake_ledger(world)
    ledger.append(Gap("src", "id", 0, 110, 120, "expired", "me"), run="r")
    assert send_next(world, "four") == ["src-0 [120, 200)"]
    assert not any(job.source.late for job in world.ran)


@pytest.mark.usefixtures("lake_with_hole")
def test_ranges_below_the_origin_go_first(world: World) -> None:
    """A backfill below the origin leaves no unseen offset between; it is early, not late."""
    commit_range(world, "id", 0, 20, 40)
    assert send_next(world, "one") == ["src-0 [20, 40)"]
    assert send_next(world, "two") == ["src-0 [60, 100)"]
    assert not any(job.source.late for job in world.ran)


@pytest.mark.usefixtures("lake_with_hole")
def test_late_ranges_are_sent_and_named(world: World) -> None:
    """A backfill below the origin, and a gap that was filled later, after what follows them was
    sent: the application gets them by name, to tell where their rows go.
    """
    _, ledger = lake_ledger(world)
    ledger.append(Gap("src", "id", 0, 100, 120, "expired", "me"), run="r")
    assert send_next(world, "one") == ["src-0 [60, 100)"]
    assert send_next(world, "two") == ["src-0 [120, 200)"]
    commit_range(world, "id", 0, 0, 20)
    commit_range(world, "id", 0, 100, 120)
    assert send_next(world, "three") == ["src-0 [0, 20)"]
    assert send_next(world, "four") == ["src-0 [100, 120)"]
    assert [job.source.late for job in world.ran] == [(), (), ("id/0",), ("id/0",)]
    world.send("again", sends_window, **replay_of("0", "20", partitions=(0,)))
    assert world.ran[-1].source.late == ()  # on purpose


@pytest.mark.parametrize("why", ["strict", "compacted"])
@pytest.mark.usefixtures("lake_with_hole")
def test_late_ranges_are_excluded_where_the_order_must_hold(world: World, why: str) -> None:
    """Where the order must hold, and only the last of a key is kept: it is excluded by name, stops
    nothing else, and is decided about by hand, once.
    """
    if why == "strict":
        world.settings["order"] = "strict"
    else:
        world.target = target_of(compacted=True)
    assert send_next(world, "one") == ["src-0 [60, 100)"]
    commit_range(world, "id", 0, 0, 20)
    commit_range(world, "id", 0, 100, 120)
    assert send_next(world, "two") == ["src-0 [100, 200)"]
    with pytest.raises(PartitionsLeftOut, match=r"src-0 \[0, 20\): committed to the lake after"):
        verdict(world.open("two"))
    done = declare_late(world.spec, STORES, pipeline_files, "not wanted", by="me", run="manual")
    assert done.late == (LateRange("src", "id", 0, 0, 20),)
    assert not world.plan("three").plan.left_out
    assert not world.plan("three").plan.has_work
    with pytest.raises(NotClaimed, match="nothing in its source lies below what was sent"):
        declare_late(world.spec, STORES, pipeline_files, "once more", by="me", run="manual")


@pytest.mark.usefixtures("lake_with_hole")
def test_ranges_declared_sent_before_the_claim(world: World) -> None:
    """Planned, and then declared sent by hand: it is not sent, and the run ends."""
    assert send_next(world, "one") == ["src-0 [60, 100)"]
    commit_range(world, "id", 0, 0, 20)
    commit_range(world, "id", 0, 100, 120)
    planned = world.plan("two").plan
    assert [str(r) for r in planned.chunks[0]] == ["src-0 [0, 20)"]
    declare_late(world.spec, STORES, pipeline_files, "not wanted", by="me", run="manual")
    assert send_next(world, "two") == ["src-0 [100, 200)"]
    assert len(world.ran) == 2


@pytest.mark.parametrize("how", ["gone", "cut"])
@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.usefixtures("lake_with_hole")
def test_a_lake_that_lacks_a_file_is_damaged(world: World, how: str, claimed: bool) -> None:
    """Said at once, by the file's name, and not retried: Spark would fail on it each time."""
    if claimed:
        with pytest.raises(SendFailed):
            world.send("one", dies_while_sending)
    path = world.home / "of/lake/staged/id-0-60/80"
    path.unlink() if how == "gone" else path.write_bytes(b"cut")
    state = "is missing" if how == "gone" else "has 3 bytes, not 1000"
    with pytest.raises(LakeDamaged, match=rf"/staged/id-0-60/80, a committed file .*{state}"):
        world.send("one", sends_window)
    assert (len(world.ran), len(world.fold.egress.claims)) == (claimed, claimed)


@pytest.mark.usefixtures("lake_with_hole")
def test_a_file_that_moves_while_it_is_looked_for_is_found(world: World) -> None:
    """Placed, or replaced, after it was listed: it is listed again, and is not taken for lost."""
    plan = world.plan("one").plan
    lake = lake_source.open_lake_of(plan, STORES, pipeline_files)
    listed = lake_source.planned_files(lake, plan)
    looks = [[replace(file, path=f"staged/before/{file.any_offset[1]}") for file in listed], listed]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake_source, "planned_files", lambda *_: looks.pop(0))
        found, _ = lake_source.files_and_counts(lake, plan)
    assert [path.rpartition("/of/lake/")[2] for _, path in found] == [f.path for f in listed]


@pytest.mark.usefixtures("lake_with_hole")
def test_ranges_that_become_late_before_the_claim(world: World) -> None:
    """Planned as early, overtaken by another run: the claim is given back, and nothing is sent."""
    world.settings["order"] = "strict"
    commit_range(world, "id", 0, 0, 20)
    early = world.plan("slow").plan
    assert [str(r) for r in early.chunks[0]] == ["src-0 [0, 20)"]
    (world.home / "of/lake/_tidegate/log").rename(world.home / "aside")
    _, ledger = lake_ledger(world)
    ledger.append(Origin("src", "id", {0: 60}), run="r")
    commit_range(world, "id", 0, 60, 100)
    assert send_next(world, "quick") == ["src-0 [60, 100)"]
    (world.home / "of/lake/_tidegate/log").rename(world.home / "of/lake/_tidegate/other")
    (world.home / "aside").rename(world.home / "of/lake/_tidegate/log")
    with pytest.raises(PlanDead, match="later offsets of its partition were sent meanwhile"):
        world.send("slow", sends_window)
    assert (len(world.ran), world.fold.egress.claims) == (1, {})
    assert not world.plan("slow").plan.has_work


@pytest.mark.usefixtures("lake")
def test_a_lake_of_a_pattern_is_a_source_too(world: World) -> None:
    """Its topics are those that the ledger knows and the pattern means."""
    path = world.home / "pipelines/lake.yaml"
    form = json.loads(path.read_text())
    del form["topics"]
    path.write_text(json.dumps({**form, "pattern": "s.*"}))
    assert world.plan("live").plan.records == 300
    with pytest.raises(ConfigurationError, match="say which topic"):
        replay.replay_settings(world.spec, None, pipeline_files, lambda _: world.run().kafka, {})
    assert world.plan(**replay_of()).plan.records == 40
    world.settings = {"source": {"lake": "lake", "topics": ["else"]}}
    with pytest.raises(ConfigurationError, match="else: not of 'lake'"):
        world.plan("other")


@pytest.mark.parametrize("left", [{"topics": ["new"]}, {"pattern": "n.*"}])
@pytest.mark.usefixtures("lake_with_hole")
def test_a_topic_that_left_the_ingest_pipeline_is_sent(world: World, left: Any) -> None:
    """The ingest pipeline reads other topics now; its lake still has what it committed, and that is
    sent, by name too, and can be sent again.
    """
    path = world.home / "pipelines/lake.yaml"
    form = json.loads(path.read_text())
    del form["topics"]
    path.write_text(json.dumps({**form, **left}))
    assert [str(r) for r in world.plan("one").plan.chunks[0]] == ["src-0 [60, 100)"]
    world.settings = {"source": {"lake": "lake", "topics": ["src"]}}
    assert send_next(world, "two") == ["src-0 [60, 100)"]
    assert world.plan(**replay_of("60", "70")).plan.records == 10


@pytest.mark.usefixtures("lake_with_hole")
def test_a_topic_that_left_the_source_is_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It was begun, and `source.topics` does not have it any more: what is left of it is not sent,
    which each plan and the status say. A topic that was never begun is not named.
    """
    world.settings["source"] = {"lake": "lake", "topics": ["src"]}
    assert send_next(world, "one", max_records=20) == ["src-0 [60, 80)"]
    _, ledger = lake_ledger(world)
    for topic in ("other", "never"):
        ledger.append(Origin(topic, f"id-{topic}", {0: 0}), run="r")
    world.settings["source"] = {"lake": "lake", "topics": ["other"]}
    assert not world.plan("two").plan.has_work
    assert (
        "src: 100 offsets of the lake are not sent: it is no longer in source.topics" in caplog.text
    )
    assert "never" not in caplog.text
    waiting = read_egress_status(world.spec, STORES, pipeline_files).waiting
    assert waiting.unselected == 100
