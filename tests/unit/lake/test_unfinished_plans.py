"""Plans that are not finished: found again while anything of them may be sealed, and no longer."""

from itertools import pairwise
from pathlib import Path

import pytest

from support import ingest_world, staged_attempts, store_requests
from support.ingest_steps import ingest, plan, stage
from support.ingest_world import World, ranges
from tidegate.core import layout
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Adoption, Gap, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Replay
from tidegate.errors import StageFailed
from tidegate.lake import attempts, plans, unfinished_plans


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 10, 10)})


def end_at(world: World, end: int) -> None:
    world.marks = {0: Watermarks(0, end, end)}


def fail(world: World, run_id: str) -> None:
    with pytest.raises(StageFailed):
        ingest(world.run(run_id), world.submit(fail={0}))


def markers(world: World) -> list[str]:
    return plans.unfinished_ids(world.run("any").store())


def publish(world: World) -> bool:
    store = world.run("any").store()
    unfinished = unfinished_plans.load_unfinished(store)
    return unfinished_plans.publish_unfinished(store, world.ledger, unfinished, run="next")


def recreate(world: World) -> None:
    adopts = Adoption(ingest_world.TOPIC_ID, "recreated", "me")
    world.ledger.append(Origin("t", "id-2", {0: 0}, adopts), run="me")


def skip(world: World, start: int, end: int) -> None:
    world.ledger.skip(Gap("t", ingest_world.TOPIC_ID, 0, start, end, "operator", "me"), run="me")


def test_failed_plans_of_a_recreated_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can read their records any more: the next run removes all of their markers."""
    ingest(world.run("one"), world.submit())
    for n in range(3):
        end_at(world, 20 + n)
        fail(world, f"bad-{n}")
    assert len(markers(world)) == 3
    recreate(world)
    world.topic_id = "id-2"
    end_at(world, 7)
    ingest(world.run("new"), world.submit())
    plan(world.run("last"))
    assert markers(world) == []


@pytest.mark.parametrize("change", [recreate, lambda world: skip(world, 0, 10)])
def test_a_sealed_chunk_of_a_recreated_topic_or_a_gap(world: World, change) -> None:
    """It is proven and no other plan has it: it is committed, and then its plan is over."""
    frozen = plan(world.run("slow")).plan
    change(world)
    staged_attempts.seal(world.run("any").store(), frozen)
    assert publish(world)
    assert (world.rows, markers(world)) == ({0: list(range(10))}, [])


@pytest.mark.parametrize("change", [recreate, lambda world: skip(world, 0, 10)])
def test_a_chunk_that_is_skipped_while_it_is_staged(world: World, change) -> None:
    """Its run seals it later and dies before it publishes: the next run finds the manifest."""
    store = world.run("any").store()
    frozen = plan(world.run("slow")).plan
    attempt = staged_attempts.stage(store, frozen)
    change(world)
    assert not publish(world)
    assert markers(world) == [frozen.id]
    attempts.create_manifest(store, staged_attempts.check(store, frozen, attempt))
    assert publish(world)
    assert (world.rows, markers(world)) == ({0: list(range(10))}, [])


def test_a_skipped_chunk_with_nothing_staged(world: World) -> None:
    """Skipped, and nothing but a manifest without its files there: its plan is over."""
    store = world.run("any").store()
    frozen = plan(world.run("bad")).plan
    attempt = staged_attempts.seal(store, frozen).attempt
    store.delete(*(f.path for f in store.objects(attempt.directory)))
    skip(world, 0, 10)
    assert not publish(world)
    assert markers(world) == []


def test_what_each_failing_run_adds_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of which nothing is sealed costs the next plan two requests."""
    counted = store_requests.count(monkeypatch)
    costs = []
    for n in range(4):
        end_at(world, 10 + n)
        fail(world, f"bad-{n}")
        ledger = world.ledger
        counted.clear()
        unfinished = unfinished_plans.load_unfinished(ledger._store)
        unfinished_plans.publish_unfinished(ledger._store, ledger, unfinished, run="next")
        costs.append(counted.total())
    assert [later - before for before, later in pairwise(costs)] == [2, 2, 2]


def test_what_is_committed_of_an_unfinished_plan(world: World, monkeypatch) -> None:
    """What is staged of committed chunks is not published a second time."""
    end_at(world, 200)
    with pytest.raises(StageFailed):
        ingest(world.run("two chunks"), world.submit(fail={1}))
    publish(world)
    assert len(world.ledger.fold.committed) == 1

    def never(*_, **__):
        raise AssertionError("nothing is left to publish")

    monkeypatch.setattr(unfinished_plans.committing, "commit_sealed_chunks", never)
    assert not publish(world)
    assert len(markers(world)) == 1


def test_a_plan_that_is_sealed_and_skipped_while_others_are_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its staging is listed after the ledger was read: the manifest is found by the next run."""
    sealing = plan(world.run("sealing"))
    store, listing = world.run("any").store(), attempts.staged_files

    def then_seal(*args: object) -> object:
        listed = listing(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(attempts, "staged_files", listing)
        stage(world.run("sealing"), world.submit())
        skip(world, 0, 10)
        ledger.refresh()
        return listed

    ledger = world.ledger
    monkeypatch.setattr(attempts, "staged_files", then_seal)
    assert unfinished_plans.publish_unfinished(store, ledger, [sealing.plan], run="next")
    assert markers(world) == [sealing.plan.id]
    ingest(world.run("later"), world.submit())
    assert world.rows == {0: ranges((0, 10))}


def test_a_finished_attempt_of_a_skipped_chunk(world: World) -> None:
    """A gap is no proof that nobody has read the records: the next run seals and commits them."""
    frozen = plan(world.run("slow")).plan
    staged_attempts.stage(world.run("any").store(), frozen)
    skip(world, 0, 10)
    ingest(world.run("later"), world.submit())
    assert (world.rows, markers(world)) == ({0: list(range(10))}, [])


def test_a_run_goes_on_with_a_chunk_that_is_skipped(world: World) -> None:
    """An operator has given up what this run is about to read: it reads it all the same."""
    plan(world.run("slow"))
    skip(world, 0, 10)
    ingest(world.run("slow"), world.submit())
    assert world.rows == {0: list(range(10))}


def test_chunks_that_may_still_be_committed(world: World) -> None:
    """Spark still writes it. A replay, a plan that cannot be read and a chunk of no plan are
    excluded, and stop no run.
    """
    store = world.run("any").store()
    ingest(world.run("one"), world.submit())
    end_at(world, 20)
    frozen = plan(world.run("slow")).plan
    staged_attempts.unfinished(store, staged_attempts.stage(store, frozen))
    again = plan(world.run("again", asked=Replay("t", "x", start="0", end="10"))).plan
    staged_attempts.stage(store, again)
    strange = Path(store.native(attempts.Attempt(frozen.id, 7, "strange").done_path))
    strange.parent.mkdir(parents=True)
    strange.write_text("{}")
    lost = staged_attempts.plan_of((OffsetRange("t", 0, 20, 30),))
    staged_attempts.stage(store, lost)
    pending = unfinished_plans.pending_chunks(store, world.ledger.fold)
    assert [(each.id, chunk) for each, chunk in pending] == [(frozen.id, 0)]
    ingest(world.run("later"), world.submit())
    assert world.rows == {0: ranges((0, 20))}


def test_a_damaged_plan_stops_no_other(world: World) -> None:
    """What other plans have sealed is published; its own marker stays."""
    store = world.run("any").store()
    damaged, whole = plan(world.run("damaged")).plan, []
    end_at(world, 20)
    whole.append(plan(world.run("whole")).plan)
    for each in (damaged, *whole):
        staged_attempts.seal(store, each)
    Path(store.native(layout.plan(damaged.id))).write_text("{")
    assert publish(world)
    assert markers(world) == [damaged.id]
    assert world.rows == {0: ranges((0, 20))}
