"""Claims that an operator releases, seals that no longer count, and the sweep of quarantine."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.egress_world import Application, World, dies_while_sending, sends_all, target_of
from support.handed_in import TOY
from tidegate import flows
from tidegate.core.entries import Release
from tidegate.egress.publish import publish
from tidegate.egress.release import release_claim
from tidegate.errors import (
    AttemptAbandoned,
    LakeDamaged,
    NotClaimed,
    NotSealed,
    SenderAlive,
    SendFailed,
)
from tidegate.lake import deliveries, plans
from tidegate.maintenance.sweep import sweep_pipeline as swept
from tidegate.spark.egress_job import EgressJob


def test_released_to_be_sent_again(world: World) -> None:
    """From the ends of the new claim: the old records are counted apart, as duplicates."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)
    world.target = target_of(ends={0: 9})
    assert release_claim(
        world.spec, flows.store(world.spec), None, "resend", "looked", engine=TOY, run="me"
    ).files == ("a",)
    assert world.fold.egress.claims == {}
    assert world.send_and_publish("A")["receipts"][0]["before"] == 9


def test_a_sender_that_is_alive_is_not_released(world: World) -> None:
    """Provably: its process is seen from here. It would go on sending what another run then sends
    again, or be refused its commit. The way out is to end it.
    """
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)
    (claim,) = world.fold.egress.claims.values()
    world.alive.add(claim.attempt)
    for how in ("resend", "declare sent"):
        with pytest.raises(
            SenderAlive, match=rf"process {os.getpid()} .* is alive: .* end it first"
        ):
            release_claim(
                world.spec, flows.store(world.spec), None, how, "looked", engine=TOY, run="me"
            )
    assert world.fold.egress.claims.keys() == {claim.plan_id}
    world.alive.clear()
    assert release_claim(
        world.spec, flows.store(world.spec), None, "resend", "looked", engine=TOY, run="me"
    ).files == ("a",)


def test_what_is_sealed_is_not_sent_again(world: World) -> None:
    """Between the steps that send and publish nobody runs: its commit alone is missing."""
    world.put(a="1")
    world.send("A")
    with pytest.raises(NotClaimed, match="has sent all of it, and only its commit is missing"):
        release_claim(
            world.spec, flows.store(world.spec), None, "resend", "looked", engine=TOY, run="me"
        )
    assert world.send_and_publish("A")["rows"] == 1
    assert len(world.ran) == 1


def test_released_as_sent(world: World) -> None:
    """Nobody sends the files again; the run that did ends without a commit."""
    world.put(a="1", b="2")
    world.settings = {"max_files": 1}
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)
    (plan_id,) = world.fold.egress.claims
    release_claim(
        world.spec, flows.store(world.spec), plan_id, "declare sent", "looked", engine=TOY, run="me"
    )
    assert world.send_and_publish("A")["files"] == ["b"]
    assert world.fold.egress.sent.keys() == {"a", "b"}
    with pytest.raises(NotClaimed, match="has no open claim"):
        release_claim(
            world.spec, flows.store(world.spec), None, "resend", "again", engine=TOY, run="me"
        )
    with pytest.raises(NotClaimed, match=f"of plan {plan_id}"):
        release_claim(
            world.spec, flows.store(world.spec), plan_id, "resend", "again", engine=TOY, run="me"
        )


def test_a_seal_of_a_released_claim_is_worth_nothing(world: World) -> None:
    """It was sealed elsewhere after the operator had looked: the attempt is abandoned."""
    world.put(a="1")
    world.send("A")
    sealed = deliveries.sealed_delivery(world.run().store(), world.plan("A").plan, world.fold)
    assert sealed is not None
    ledger = world.run().ledger(world.run().store())
    ledger.append(Release(sealed.plan_id, sealed.attempt, "resend", "looked"), run="me")
    plan = plans.latest_plan(world.run("A").store(), world.run("A").key).plan
    outcome = deliveries.commit_delivery(ledger, plan, sealed, run="A")
    assert "abandoned" in str(outcome)
    with pytest.raises((NotSealed, AttemptAbandoned)):
        publish(world.open("A"))


def test_an_attempt_is_sealed_once(world: World) -> None:
    """A second manifest of other content is refused: its receipts would not be those of the
    first.
    """
    world.put(a="1")
    world.send("A")
    store = world.run().store()
    sealed = deliveries.sealed_delivery(store, world.plan("A").plan, world.fold)
    assert sealed is not None
    deliveries.create_delivery(store, sealed)  # the same again: its first answer was lost
    with pytest.raises(LakeDamaged, match="is sealed already, by another process"):
        deliveries.create_delivery(store, replace(sealed, receipts=()))
    assert deliveries.sealed_delivery(store, world.plan("A").plan, world.fold) == sealed


def test_quarantine_of_dead_attempts_is_swept(world: World) -> None:
    """Bad rows of attempts that died, once another has finished their plan and an hour is over; the
    committed attempt's stay for good, and those of a plan that is not committed.
    """
    world.put(a="1")
    world.settings = {"on_bad_row": "quarantine"}

    def keeps(job: EgressJob, then: Application, directory: Path) -> None:
        assert job.quarantine is not None
        Path(job.quarantine).mkdir(parents=True)
        Path(job.quarantine, "part-0.parquet").write_text(job.client_id)
        then(job, directory)

    def kept() -> set[str]:
        return {path.read_text() for path in (world.home / "lake").rglob("*/part-0.parquet")}

    with pytest.raises(SendFailed):
        world.send("A", lambda job, directory: keeps(job, dies_while_sending, directory))
    assert swept(world.spec, flows.store(world.spec), run="s").swept == ()
    world.send("A", lambda job, directory: keeps(job, sends_all, directory))
    commit = publish(world.open("A")).report.commit
    assert swept(world.spec, flows.store(world.spec), run="s").swept == ()
    loser, winner = (job.client_id for job in world.ran)
    assert kept() == {loser, winner}
    for path in (world.home / "lake/out/_tidegate").rglob("*"):
        os.utime(path, (1, 1))
    (gone,) = swept(world.spec, flows.store(world.spec), run="s").swept
    assert (gone.attempt, gone.why, gone.files) == (loser[-16:], "lost", 2)
    assert kept() == {winner}
    assert world.fold.live[commit].attempt == winner[-16:]
    assert world.send_and_publish("A")["commit"] == commit
