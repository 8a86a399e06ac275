"""Claims: who sends, what a failed attempt releases, and how a later attempt resumes."""

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from support.egress_world import (
    World,
    begins,
    dies_before_sending,
    dies_while_sending,
    is_killed,
    refuses,
    sends_all,
    target_of,
)
from support.toy_engine import ToyEngine
from tidegate.core.entries import Claim
from tidegate.egress import sender
from tidegate.egress.publish import publish, verdict
from tidegate.egress.send import send
from tidegate.egress.takeover import ProcessSenders
from tidegate.errors import (
    BrokerUnreachable,
    ClaimConflict,
    ConfigurationError,
    NotSealed,
    PartitionsLeftOut,
    RowsRefused,
    SenderAlive,
    SendFailed,
    StageFailed,
)
from tidegate.settings import spark_conf
from tidegate.spark.egress_job import EgressJob


def test_a_refused_file_blocks_no_other(world: World) -> None:
    """The claim is released, and the same run sends the others by another plan; the file is left
    out of every plan until it changes.
    """
    world.put(a="1", b="bad", c="3")
    planned = world.plan("one").plan
    report = world.send_and_publish("one", refuses("b"))
    assert (report["files"], report["generation"]) == (["a", "c"], 2)
    assert [job.plan_id for job in world.ran] == [planned.id, report["plan_id"]]
    assert world.fold.egress.claims == {}
    for run in ("one", "two"):
        assert not world.plan("two").plan.has_work
        with pytest.raises(PartitionsLeftOut, match=r"b: row 7 is bad\. Correct or") as left_out:
            verdict(world.open(run))
        assert left_out.value.numbers["left_out"] == [{"file": "b", "reason": "row 7 is bad"}]
    world.put(b="good")
    assert world.send_and_publish("three")["files"] == ["b"]
    assert not world.plan("four").plan.left_out
    assert world.fold.egress.refused == {}


def test_a_refused_file_is_tried_again_by_resend(world: World) -> None:
    """Once a run: what its own plan could not send is in no further plan of it."""
    world.put(a="bad", b="bad")
    world.send_and_publish("one", refuses("a", "b"))
    assert world.send_and_publish("two", refuses("a"), resend=True)["files"] == ["b"]
    assert len(world.ran) == 3
    with pytest.raises(PartitionsLeftOut, match="a: row 7 is bad"):
        verdict(world.open("two"))
    assert world.send_and_publish("three", resend=True)["files"] == ["a"]


def test_a_topic_that_is_added(world: World) -> None:
    """A file whose rows named it is tried again."""
    world.settings = {"target": {"topics": ["t"]}, "columns": {"topic": "value"}}
    world.put(a="u")
    world.send("one", refuses("a"))
    assert not world.plan("two").plan.has_work
    world.settings["target"] = {"topics": ["t", "u"]}
    both = {**world.target.topics, "u": replace(world.target.topics["t"], topic_id="id-u")}
    world.target = replace(world.target, topics=both)
    assert world.send_and_publish("three")["files"] == ["a"]


def test_bad_files_first(world: World) -> None:
    """More than a run may take: the same run goes on to the first that can be sent, and so does the
    next, without starting Spark for what was refused.
    """
    bad = [f"a{n:03d}" for n in range(100)]
    world.settings = {"max_files": 100}
    world.put(**dict.fromkeys(bad, "bad"), b="good", c="good")
    assert world.send_and_publish("one", refuses(*bad))["files"] == ["b", "c"]
    assert [len(job.source.files) for job in world.ran] == [100, 2]
    with pytest.raises(PartitionsLeftOut, match="; and 80 more") as left_out:
        verdict(world.open("one"))
    assert [each["file"] for each in left_out.value.numbers["left_out"]] == bad
    assert not world.plan("two").plan.has_work


def test_the_second_plan_has_the_other_files_of_the_first(world: World) -> None:
    """And none that was not looked at: its bad ones would keep back what can be sent."""
    world.settings = {"max_files": 3}
    world.put(a1="bad", a2="good", a3="bad", a4="bad", b="good")
    bad = refuses("a1", "a3", "a4")
    assert world.send_and_publish("one", bad)["files"] == ["a2"]
    assert len(world.ran) == 2
    assert world.send_and_publish("two", bad)["files"] == ["b"]


def test_files_that_are_bad_one_after_another(world: World) -> None:
    """A run ends when its second plan could not be sent either; the next one goes on."""
    world.settings = {"max_files": 1}
    world.put(a1="bad", a2="bad", a3="bad", b="good")
    bad = refuses("a1", "a2", "a3")
    with pytest.raises(RowsRefused, match="a new run excludes them"):
        world.send("one", bad)
    assert len(world.ran) == 2
    assert world.send_and_publish("two", bad)["files"] == ["b"]


def test_a_file_is_judged_by_the_settings_of_its_plan(world: World) -> None:
    """The pipeline was edited between the death of a sender and the next attempt: what that one
    refuses by the old settings is tried by the new ones.
    """
    world.put(a="1", b="bad")
    with pytest.raises(KeyboardInterrupt):
        world.send("one", is_killed)
    world.settings = {"tombstones": True}

    def refuses_nulls(job: EgressJob, directory: Path) -> None:
        (sends_all if job.tombstones else refuses("b"))(job, directory)

    assert world.send_and_publish("one", refuses_nulls)["files"] == ["a"]
    assert world.send_and_publish("two", refuses_nulls)["files"] == ["b"]
    assert [job.tombstones for job in world.ran] == [False, False, True, True]


def test_another_spark_resumes_nothing(world: World) -> None:
    """What was sent, and what is missing, might be different records: it is refused by name, and
    nothing is appended.
    """
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending, line="3.5")
    (claim,) = world.fold.egress.claims.values()
    assert claim.spark == world.ran[0].spark == "3.5"
    with pytest.raises(ConfigurationError, match=r"with Spark 3\.5, may have sent") as refused:
        world.send("two")
    assert "'toy' has Spark 4.0" in str(refused.value)
    assert list(world.fold.egress.claims.values()) == [claim]
    assert len(world.ran) == 1
    world.send_and_publish("two", line="3.5")


def test_a_refused_file_is_taken_when_bad_rows_go_into_quarantine(world: World) -> None:
    """As the verdict says: the next run takes it, live. One that is refused all the same is left
    out, and holds up nothing.
    """
    world.put(a="bad")
    world.send("one", refuses("a"))
    with pytest.raises(PartitionsLeftOut, match="or set on_bad_row: quarantine"):
        verdict(world.open("one"))
    world.settings = {"on_bad_row": "quarantine"}
    report = world.send_and_publish("three")
    assert (report["files"], report["lane"]) == (["a"], "live")
    world.put(b="cannot be read")
    world.send("four", refuses("b"))
    assert not world.plan("five").plan.has_work
    world.put(b="changed since", c="3")
    assert world.send_and_publish("six")["files"] == ["b", "c"]


def test_an_application_that_does_not_start_leaves_no_claim(world: World) -> None:
    """The retry claims anew, from the target's ends of then."""
    world.put(a="1")
    with pytest.raises(SendFailed, match="no JVM"):
        world.send(application=dies_before_sending)
    assert world.fold.egress.claims == {}
    world.target = target_of(ends={0: 9})
    plan = world.plan().plan
    assert world.send_and_publish()["receipts"][0]["before"] == 9
    assert plan.id == world.ran[0].plan_id == world.ran[1].plan_id


@pytest.mark.parametrize(("sent", "claims"), [(False, 0), (True, 1)])
def test_an_outage_ends_the_sender_by_name(world: World, sent: bool, claims: int) -> None:
    """Like any other death of a sender: its claim stays unless nothing was sent."""

    def out(job: EgressJob, directory: Path) -> None:
        if sent:
            begins(job, directory)
        raise BrokerUnreachable("no broker has answered for 20 s, and Spark was stopped")

    world.put(a="1")
    with pytest.raises(BrokerUnreachable, match="Spark was stopped"):
        world.send(application=out)
    assert len(world.fold.egress.claims) == claims
    assert world.send_and_publish()["files"] == ["a"]


def test_no_task_of_spark_is_run_twice(world: World) -> None:
    """What a task has sent, another try of it would send again."""
    world.put(a="1")
    engine = world.engine(sends_all)
    send(world.open("one", engine=engine))
    assert engine.asked[0]["conf"].items() >= spark_conf.RUN_ONCE.items()


def test_a_job_that_cannot_be_made_leaves_no_claim(world: World) -> None:
    """PySpark is missing, for example: the cause is reported, and the next run can send."""
    world.put(a="1")
    engine = ToyEngine()
    refuse = mock.Mock(side_effect=ConfigurationError("PySpark is not installed"))
    with (
        mock.patch.object(engine, "application", refuse),
        pytest.raises(ConfigurationError, match="not installed"),
    ):
        send(world.open("one", engine=engine))
    assert world.fold.egress.claims == {}
    assert world.send_and_publish("two")["files"] == ["a"]


def test_resume_scans_from_the_first_claim(world: World) -> None:
    """By the same plan, by a new attempt, looking at all that came since the first claim."""
    world.put(a="1")
    with pytest.raises(SendFailed, match="killed"):
        world.send(application=dies_while_sending)
    (claim,) = world.fold.egress.claims.values()
    world.target = target_of(ends={0: 9, 1: 4})
    world.put(b="2")
    assert world.send_and_publish()["files"] == ["a"]
    first, second = world.ran
    assert first.plan_id == second.plan_id == claim.plan_id
    assert (dict(first.target["t"].since), dict(second.target["t"].since)) == (
        {0: 5}, {0: 5, 1: 0},
    )  # fmt: skip
    assert first.client_id != second.client_id


def test_a_run_resumes_the_claim_of_another(world: World) -> None:
    """And its own files go with the next run; the first run, tried again, finds all done."""
    world.put(a="1", b="2")
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)
    world.put(c="3")
    assert world.send_and_publish("B")["files"] == ["a", "b"]
    report = world.send_and_publish("A")
    assert (report["files"], report["commit"], len(world.ran)) == (["a", "b"], 3, 2)
    assert world.send_and_publish("C")["files"] == ["c"]


def test_a_sender_that_may_be_alive_stops_other_runs(world: World) -> None:
    """Nothing is planned, claimed or started; nor does the same run's retry go on."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)
    (claim,) = world.fold.egress.claims.values()
    world.alive.add(claim.attempt)
    before = world.fold.n
    for run_id in ("A", "B"):
        with pytest.raises(SenderAlive, match="not proven dead"):
            world.send(run_id)
    with pytest.raises(SenderAlive, match="not proven dead"):
        world.plan("B")
    assert (world.fold.n, len(world.ran)) == (before, 1)


def test_two_runs_find_the_same_dead_sender(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One resumes; the other, which looked at the same time, is refused and must wait."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_while_sending)

    looks = itertools.count(1)

    class Slow(ProcessSenders):
        def doubt(self, *_: Any) -> None:
            if next(looks) == 2:  # after that of the plan
                with pytest.raises(SendFailed):
                    world.send("B", dies_while_sending)  # claims it while we still think

    with pytest.raises(ClaimConflict, match="holds the claim"):
        world.send("C", senders=Slow())
    assert len(world.ran) == 2


def test_two_runs_plan_the_same_files(world: World) -> None:
    """One sends them; the other has no work left, and says so instead of waiting for ever."""
    world.put(a="1", b="2")
    world.plan("slow")
    world.settings = {"max_files": 1}
    assert world.send_and_publish("quick")["files"] == ["a"]
    assert world.send_and_publish("slow")["files"] == ["b"]


def test_a_later_refusal_releases_the_claim_if_nothing_was_sent(
    world: World,
) -> None:
    """An attempt killed while it looked at the rows must not make its poisoned file stick; after
    one that has begun to send, whatever is in the target now, something may land later.
    """
    world.put(a="1", b="bad")
    with pytest.raises(KeyboardInterrupt):
        world.send("A", is_killed)
    assert world.fold.egress.claims
    assert world.send_and_publish("A", refuses("b"))["files"] == ["a"]
    assert world.fold.egress.claims == {}
    assert [job.resumed for job in world.ran] == [False, False, False]
    world.put(c="2", d="bad")
    with pytest.raises(SendFailed):
        world.send("B", dies_while_sending)
    for _ in range(2):
        with pytest.raises(RowsRefused, match="Nothing more was sent, and the claim stands"):
            world.send("B", refuses("d"))
        assert world.fold.egress.claims
        assert world.ran[-1].resumed


def test_a_superseded_attempt_releases_no_claim(world: World) -> None:
    """It was taken for dead, and fails before it sends: the claim is another attempt's now."""
    world.put(a="1")

    def sleeps(_: EgressJob, __: Path) -> None:
        with pytest.raises(SendFailed):
            world.send("B", dies_while_sending)
        raise StageFailed("woke, and failed")

    with pytest.raises(SendFailed):
        world.send("A", sleeps)
    (claim,) = world.fold.egress.claims.values()
    assert claim.supersedes is not None
    assert world.send_and_publish("B")["files"] == ["a"]


def test_a_superseded_attempt_is_not_committed(world: World) -> None:
    """Its attempt was superseded; the other one, which has looked, is."""
    world.put(a="1")

    def sleeps(job: EgressJob, directory: Path) -> None:
        with pytest.raises(SendFailed):
            world.send("B", dies_while_sending)
        sends_all(job, directory)

    world.send("A", sleeps)
    with pytest.raises(NotSealed):
        publish(world.open("A"))
    assert world.send_and_publish("B")["commit"] == 4
    assert len(world.ran) == 3


def test_a_sealed_plan_is_not_sent_again(world: World) -> None:
    """Killed between seal and commit: the next run commits it."""
    world.put(a="1")
    world.send("A")
    assert world.send_and_publish("B")["files"] == ["a"]
    assert world.send_and_publish("A")["commit"] == 2
    assert len(world.ran) == 1


def test_a_claim_says_who_sends(world: World) -> None:
    """Process, and Airflow's task where there is one; the job has the same attempt in its names."""
    task = {"dag": "d", "run": "r", "task": "send", "try": 2}
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(application=dies_while_sending, senders=ProcessSenders(task))
    (claim,) = world.fold.egress.claims.values()
    assert isinstance(claim, Claim)
    assert (claim.sender["task"], claim.files[0].name) == (task, "a")
    assert claim.sender["pid"] == os.getpid()
    assert world.ran[0].client_id == f"tidegate-out-send-{world.run().run_id}-{claim.attempt}"


def test_two_runs_of_one_plan_race_to_the_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is overtaken just before its claim has nothing to do, and says what was done."""
    world.put(a="1\n")
    world.plan()

    def overtaken(*_: Any) -> None:
        monkeypatch.setattr("tidegate.egress.send.refuse_unordered", lambda *_: None)
        world.send_and_publish()

    monkeypatch.setattr("tidegate.egress.send.refuse_unordered", overtaken)
    assert world.send() is None
    assert len(world.ran) == 1
    report = publish(world.open()).report
    assert (report.rows, report.commit) == (1, 2)


def test_a_program_may_run_it_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `tidegate.run` in one process: while an attempt is under way, it is not taken over."""
    monkeypatch.setattr("tidegate.egress.takeover.is_dead", sender.is_dead)
    world.put(a="1")

    def dies(job: EgressJob, directory: Path) -> None:
        with pytest.raises(SenderAlive, match="may still run"):
            world.send("other")
        dies_while_sending(job, directory)

    with pytest.raises(SendFailed):
        world.send("one", dies)
    assert world.send_and_publish("one")["files"] == ["a"]
