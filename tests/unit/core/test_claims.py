"""Claims and releases: a file or an offset belongs to one plan at a time, a plan to one sender."""

from dataclasses import replace

import pytest

from tidegate.core.entries import Account, Claim, Commit, Gap, Receipt, Reference, Release
from tidegate.core.fold import Fold, RefusedFile
from tidegate.core.judge import Accepted, Adopt, Lost, PartlyCovered, Refused, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.work import Sending, delivery_state, earlier_attempts

A, B = SourceFile("a.csv", 1, "e1"), SourceFile("b.csv", 2, "e2")


def claim(plan: str = "p1", *files: SourceFile, attempt: str = "x", **others) -> Claim:
    fields = {
        "lane": "live", "sender": {}, "topic_ids": {}, "window": (), "target": {"t": {0: 7}},
        "spark": "4.0",
    }  # fmt: skip
    return Claim(plan_id=plan, attempt=attempt, files=files, **{**fields, **others})


def of_lake(plan: str, start: int, end: int, **others) -> Claim:
    window = (OffsetRange("src", 0, start, end),)
    return claim(plan, topic_ids={"src": "id"}, window=window, **others)


def commit(plan: str = "p1", attempt: str = "x", lane: str = "live", **accounts) -> Commit:
    return Commit(
        lane=lane,
        plan_id=plan,
        plan_sha256="",
        chunk=0,
        attempt=attempt,
        cluster_id="c",
        topic_ids={"src": "id"} if accounts else {},
        accounts=accounts,
        manifest=Reference("m", ""),
        receipts=(Receipt("t", "tid", 0, 7, 12, 5, 0),),
    )


def folded(*entries) -> Fold:
    fold = Fold()
    for entry in entries:
        assert judge(fold, entry) == Accepted(), entry
        fold.apply(entry, "")
    return fold


def test_a_file_is_one_plans():
    """From the claim to the commit, and always after it."""
    fold = folded(claim("p1", A))
    assert isinstance(judge(fold, claim("p2", A, B)), Refused)
    assert judge(fold, claim("p2", B)) == Accepted()
    fold = folded(claim("p1", A), commit())
    assert isinstance(judge(fold, claim("p2", A)), Refused)
    assert (fold.egress.sent, fold.egress.claims, fold.egress.target_ends) == (
        {"a.csv": "e1"},
        {},
        {"t": {0: 12}},
    )
    assert judge(fold, claim("p1", A)) == Adopt(2)


def test_a_plan_is_one_senders():
    """The next attempt must name the dead one; the ends of the first claim are kept."""
    fold = folded(claim("p1", A))
    second = claim("p1", A, attempt="y", target={"t": {0: 99}})
    assert isinstance(judge(fold, second), Refused)
    fold.apply(replace(second, supersedes="x"), "")
    assert fold.egress.claims["p1"].attempt == "y"
    assert fold.egress.claims["p1"].target == {"t": {0: 7}}
    assert isinstance(judge(fold, commit(attempt="x")), Refused)
    assert judge(fold, commit(attempt="y")) == Accepted()
    assert isinstance(judge(fold, replace(second, attempt="z", supersedes="x")), Refused)


@pytest.mark.parametrize(
    ("how", "sent"), [("nothing sent", {}), ("resend", {}), ("declare sent", {"a.csv": "e1"})]
)
def test_a_release_ends_the_claim(how, sent):
    """If its sender resumes, it can commit nothing; a second release is refused."""
    fold = folded(claim("p1", A), Release("p1", "x", how, ""))
    assert (fold.egress.claims, fold.egress.sent, fold.egress.refused) == ({}, sent, {})
    assert isinstance(judge(fold, commit()), Refused)
    assert judge(fold, Release("p1", "x", how, "")) == Lost()


def test_a_refused_file_is_remembered_until_it_is_sent():
    """With its etag, what has judged it, and why; of the plan's other files nothing is."""
    why = (LeftOutFile("a.csv", "row 1: no value"),)
    released = Release("p1", "x", "nothing sent", "1 file cannot be sent", why, "j1")
    fold = folded(claim("p1", A, B), released)
    assert fold.egress.refused == {"a.csv": RefusedFile("e1", "j1", "row 1: no value", "p1")}
    for entry in (claim("p2", A), commit("p2")):
        fold.apply(entry, "")
    assert (fold.egress.refused, fold.egress.sent) == ({}, {"a.csv": "e1"})


def test_a_zombie_releases_nothing_of_the_next_attempt():
    """Its own claim was superseded, so its release is refused."""
    fold = folded(claim("p1", A), claim("p1", A, attempt="y", supersedes="x"))
    assert judge(fold, Release("p1", "x", "nothing sent", "")) == Lost()
    assert judge(fold, Release("p1", "y", "nothing sent", "")) == Accepted()


def test_offsets_of_a_lake_are_one_plans():
    """A partition is one plan's while it is claimed, for two would mix its order; afterwards the
    ranges are covered, and what was counted as sent by hand is, too.
    """
    fold = folded(of_lake("p1", 0, 10))
    assert isinstance(judge(fold, of_lake("p2", 9, 20)), Refused)
    assert isinstance(judge(fold, of_lake("p2", 10, 20)), Refused)
    other = (OffsetRange("src", 1, 0, 10),)
    assert judge(fold, claim("p2", topic_ids={"src": "id"}, window=other)) == Accepted()
    declared = folded(Gap("src", "id", 0, 5, 10, "late", "me"))
    assert isinstance(judge(declared, of_lake("p1", 9, 20)), PartlyCovered)
    assert judge(declared, of_lake("p1", 10, 20)) == Accepted()
    fold = folded(of_lake("p1", 0, 10), commit(src={0: Account(0, 10, 10, 0)}))
    assert judge(fold, of_lake("p2", 9, 20)) == PartlyCovered((OffsetRange("src", 0, 9, 10),))
    declared = folded(of_lake("p1", 0, 10), Release("p1", "x", "declare sent", ""))
    assert declared.covered == fold.covered


def test_a_replay_sends_again_and_covers_nothing():
    """Ranges that no live plan has sent will still be sent by one."""
    fold = folded(
        of_lake("p3", 0, 5, lane="replay"),
        of_lake("p4", 0, 9),
        commit("p3", lane="replay", src={0: Account(0, 5, 5, 0)}),
    )
    assert fold.covered == {}


def test_a_resend_is_of_other_content():
    """It counts as sent from then on; what is as it was sent is refused."""
    changed = replace(A, etag="e9")
    fold = folded(claim("p1", A), commit())
    assert isinstance(judge(fold, claim("p2", A, lane="resend")), Refused)
    assert isinstance(judge(fold, claim("p2", changed)), Refused)
    fold = folded(
        claim("p1", A), commit(), claim("p2", changed, lane="resend"), commit("p2", lane="resend")
    )
    assert fold.egress.sent == {"a.csv": "e9"}


def test_a_replay_of_files_changes_nothing_for_others():
    """Neither what counts as sent, nor what may be claimed: also while it is claimed, and if the
    file was sent with other content since.
    """
    replay = claim("p2", A, lane="replay")
    fold = folded(claim("p1", A), commit(), replay)
    assert (fold.egress.oldest_open_claim, judge(fold, claim("p3", A, lane="replay"))) == (
        None,
        Accepted(),
    )
    changed = claim("p4", replace(A, etag="e9"), lane="resend")
    for entry in (changed, commit("p4", lane="resend"), commit("p2", lane="replay")):
        assert judge(fold, entry) == Accepted()
        fold.apply(entry, "")
    assert fold.egress.sent == {"a.csv": "e9"}
    assert isinstance(judge(fold, claim("p5", A)), Refused)
    assert judge(fold, replace(replay, plan_id="p6")) == Accepted()


def test_a_replay_that_was_declared_sent():
    """It covers nothing, and a late sender may not claim it again."""
    replay = of_lake("p1", 5, 10, lane="replay")
    fold = folded(replay, Release("p1", "x", "declare sent", "looked"))
    assert (fold.covered, fold.egress.claims, delivery_state(fold, "p1").is_done) == ({}, {}, True)
    assert isinstance(judge(fold, replay), PartlyCovered)
    assert judge(fold, of_lake("p2", 5, 10)) == Accepted()
    assert judge(fold, of_lake("p3", 5, 10, lane="replay")) == Accepted()
    files = claim("p1", A, lane="replay")
    fold = folded(files, Release("p1", "x", "declare sent", "looked"))
    assert (fold.egress.sent, delivery_state(fold, "p1").is_done) == ({}, True)
    assert isinstance(judge(fold, files), PartlyCovered)


@pytest.mark.parametrize(
    ("ends", "sending", "is_done", "is_unsent"),
    [
        ((), Sending.CLAIMED, False, False),
        (("nothing sent",), Sending.RELEASED, False, True),
        (("resend",), Sending.RELEASED, False, False),
        (("nothing sent", "resend"), Sending.RELEASED, False, False),
        (("resend", "nothing sent"), Sending.RELEASED, False, False),
        (("declare sent",), Sending.DECLARED, True, False),
        (("nothing sent", "declare sent"), Sending.DECLARED, True, False),
    ],
)
@pytest.mark.parametrize("lane", ["live", "replay"])
def test_how_far_a_plan_is_sent(lane, ends, sending, is_done, is_unsent):
    """By how its claims have ended; what was released is remembered as what may have sent."""
    fold = Fold()
    for n, how in enumerate((*ends, None)):
        fold.apply(replace(claim("p1", A, lane=lane), attempt=f"x{n}"), "")
        if how:
            fold.apply(Release("p1", f"x{n}", how, "looked"), "")
    if ends:  # the last claim was only to show what comes before it
        fold.egress.claims.clear()
    state = delivery_state(fold, "p1")
    assert (state.sending, state.is_done, state.is_unsent) == (sending, is_done, is_unsent)
    assert earlier_attempts(fold, "p1") == [f"x{n}" for n in range(len(ends))]
    assert delivery_state(fold, "p2").sending is Sending.UNCLAIMED


def test_a_replay_is_no_reason_to_wait():
    """Neither it nor other plans wait."""
    replay, live = of_lake("p1", 5, 10, lane="replay"), of_lake("p2", 5, 10)
    assert folded(replay).egress.oldest_open_claim is None
    fold = folded(replay, live)
    assert fold.egress.oldest_open_claim == fold.egress.claims["p2"]
    assert folded(claim("p3", A, lane="replay")).egress.oldest_open_claim is None
