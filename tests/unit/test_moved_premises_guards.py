"""What a careless judge of premises would break."""

import contextlib
import json
from pathlib import Path

import pytest

from support import ingest_world, left_lakes
from support.egress_world import World as Egress
from support.egress_world import dies_while_sending
from support.ingest_steps import ingest, plan, publish, stage
from support.ingest_world import ranges
from tidegate.core.cursor import Watermarks
from tidegate.core.judge import Accepted, Refused, judge
from tidegate.core.requests import Backfill, Replay
from tidegate.errors import SendFailed, TidegateError
from tidegate.lake import audit, decodings, plans
from tidegate.lake.ledger import Ledger
from unit.egress import conftest as egress_fixtures
from unit.test_moved_premises import claim, decode, folded, put_below, read_from, typed

sending = egress_fixtures.world
LAST = {"asked": Backfill("t", (0,), "0", "100")}


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    ("was", "now"),
    [
        (decode("a INT"), decode("a BIGINT, b STRING")),
        (decode("a BIGINT, b STRING"), decode("a BIGINT, b STRING, c DATE")),
        ({}, decode("a INT")),
        (decode("a INT", "csv"), decode("a INT", "json")),
    ],
)
def test_an_old_plan_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: dict, now: dict, staged: bool
) -> None:
    """Its rows come in, whoever was first; and nobody finds anything wrong with the ledger."""
    start = {"offsets": {"t": {"0": 100}}}
    marks = {0: Watermarks(0, 150, 150)}
    world = ingest_world.make(tmp_path, monkeypatch, marks, start=start, decode=was)
    planned = plan(world.run("old", **LAST)).plan
    world.settings["decode"] = now
    plan(world.run("new"))
    if staged:
        stage(world.run("old", **LAST), typed(world))
    stage(world.run("new"), typed(world))
    publish(world.run("new"))
    ingest(world.run("old", **LAST), typed(world))
    assert world.rows == {0: ranges((0, 150))}
    assert world.started == 2
    assert (planned.id, 0) in world.ledger.fold.committed
    store, found = world.run("any").store(), []
    audit.read_ledger(store, "p", lambda *what, **where: found.append((what, where)))
    assert found == []
    assert list(left_lakes.differences([str(world.root / "p")])) == []
    # A checkpoint goes on the same.
    from tidegate.lake import checkpoints

    checkpoints.write_checkpoint(store, "p", world.ledger.fold, unsettled=[])
    assert Ledger(store, "p").fold == Ledger(store, "p", whole=True).fold
    world.marks = {0: Watermarks(0, 160, 160)}
    ingest(world.run("next"), typed(world))
    assert len(decodings.decoded_columns(store, world.ledger.fold, ["t"])) >= 1
    asked = {"asked": Replay("t", "r", (0,), "0", "160")}
    ingest(world.run("r", **asked), typed(world))
    assert plans.unfinished_ids(store) == []


def test_a_claim_is_resumed_whatever_the_path_is_today(sending: Egress) -> None:
    put_below(sending, "sub/a.csv")
    read_from(sending, "*/*.csv")
    with pytest.raises(SendFailed):
        sending.send("one", dies_while_sending)
    read_from(sending, "sub/*.csv")
    assert sending.send_and_publish("two")["files"] == ["sub/a.csv"]


def test_two_roots_beside_each_other(sending: Egress) -> None:
    put_below(sending, "one/a.csv")
    put_below(sending, "two/b.csv")
    read_from(sending, "one/*.csv")
    sending.send_and_publish("one")
    read_from(sending, "two/*.csv")
    assert sending.send_and_publish("two")["files"] == ["b.csv"]
    assert len(json.dumps(sorted(sending.fold.egress.roots))) > 2


@pytest.mark.parametrize("salt", range(4))
def test_no_gap_over_what_the_same_plan_has_contradicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, salt: int
) -> None:
    """Two plans are sealed, and none is published. The next run publishes one; by that the other
    one is contradicted, and its records have expired meanwhile. (Which is first, ids decide.)
    """
    end = 100 + salt
    world = ingest_world.make(
        tmp_path, monkeypatch, {0: Watermarks(0, end, end)}, decode=decode("a INT"),
        on_expired="skip",
    )  # fmt: skip
    plan(world.run("old"))
    world.settings["decode"] = decode("a STRING")
    world.marks[1], world.leaderless = Watermarks(0, 40, 40), {0}
    plan(world.run("new"))
    world.leaderless = set()
    for run in ("old", "new"):
        stage(world.run(run), typed(world))
    world.marks[0] = Watermarks(end, 120, 120)
    with contextlib.suppress(TidegateError):
        ingest(world.run("next"), typed(world))
    assert world.ledger.fold.gaps == []


def test_a_plan_of_a_format_without_columns_waits_for_no_other() -> None:
    """A commit of text never has columns: a claim that is open decides nothing."""
    fold = folded(claim("p1", "a.txt", columns=None))
    assert judge(fold, claim("p2", "b.txt", columns=None)) == Accepted()


def test_a_replay_to_another_cluster_waits_for_an_open_claim() -> None:
    """It would make the ledger that cluster's, and the claim could never be committed."""
    fold = folded(claim("p1", "a.csv", cluster_id="A"))
    assert isinstance(judge(fold, claim("p2", "b.csv", lane="replay", cluster_id="B")), Refused)
