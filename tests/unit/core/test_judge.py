"""Judging and folding: the table of the design, row by row, and whatever the history."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.entries import Abandon, Account, Commit, Gap, Origin, Reference
from tidegate.core.fold import Fold
from tidegate.core.judge import (
    Accepted,
    Adopt,
    CoveredBy,
    CutTo,
    Lost,
    PartlyCovered,
    Refused,
    judge,
)
from tidegate.core.offsets import OffsetRange


def commit(plan_id, *spans, chunk=0, attempt="x", partition=0, topic_id="id-t"):
    """A commit of t's spans: one for each partition from `partition` on."""
    accounts = {partition + i: Account(s, e, e - s, 0) for i, (s, e) in enumerate(spans)}
    return Commit(
        "live", plan_id, "sha", chunk, attempt, "cluster", {"t": topic_id}, {"t": accounts},
        Reference("manifest", "sha"),
    )  # fmt: skip


def gap(start, end, partition=0):
    return Gap("t", "id-t", partition, start, end, "expired", "run")


def fold_of(*entries):
    fold = Fold()
    for entry in entries:
        fold.apply(entry, "digest")
    return fold


ORIGIN = Origin("t", "id-t", {0: 0, 1: 0})
HISTORY = (ORIGIN, commit("p", (0, 10)), commit("q", (20, 30)), gap(10, 15))


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        # origin: the first wins, per partition; a topic never changes its identity
        (Origin("t", "id-t", {1: 5, 2: 0}), Lost()),
        (Origin("t", "id-t", {2: 0}), Accepted()),
        (Origin("u", "id-u", {0: 0}), Accepted()),
        (Origin("t", "recreated", {0: 0}), Lost()),
        # commit: every offset unseen or skipped
        (commit("r", (30, 40)), Accepted()),
        (commit("r", (10, 20)), Accepted()),  # a gap is recorded in it: the commit still wins
        (commit("r", (15, 20), (0, 5)), Accepted()),
        # this chunk is committed already, by whatever attempt: adopt it
        (commit("p", (0, 10)), Adopt(2)),
        (commit("p", (0, 10), attempt="y"), Adopt(2)),
        (commit("p", (0, 99), attempt="y"), Adopt(2)),
        # wholly covered by others: done; partly: the next generation
        (commit("r", (3, 8)), CoveredBy((2,))),
        (commit("r", (20, 30)), CoveredBy((3,))),
        (commit("p", (0, 10), chunk=1), CoveredBy((2,))),
        (commit("r", (5, 12)), PartlyCovered((OffsetRange("t", 0, 5, 10),))),
        (
            commit("r", (0, 30)),
            PartlyCovered((OffsetRange("t", 0, 0, 10), OffsetRange("t", 0, 20, 30))),
        ),
        (commit("r", (0, 10), (0, 10)), PartlyCovered((OffsetRange("t", 0, 0, 10),))),
        # gap: cut to what is unseen
        (gap(40, 50), Accepted()),
        (gap(15, 20), Accepted()),
        (gap(5, 25), CutTo((gap(15, 20),))),
        (gap(5, 35), CutTo((gap(15, 20), gap(30, 35)))),
        (gap(0, 15), CutTo(())),
        (gap(15, 15), CutTo(())),
        # abandon: not what is committed; once
        (Abandon("p", 0, "x"), Refused("attempt x is committed as #2")),
        (Abandon("p", 0, "y"), Accepted()),
        (Abandon("r", 0, "x"), Accepted()),
    ],
)
def test_the_table(entry, verdict):
    """After: origin 0; #2 commits [0, 10), #3 commits [20, 30), #4 skips [10, 15)."""
    assert judge(fold_of(*HISTORY), entry) == verdict


def test_an_abandoned_attempt_is_never_committed():
    """Its files may be deleted; another attempt of the same chunk can be committed."""
    fold = fold_of(ORIGIN, Abandon("p", 0, "x"))
    assert judge(fold, commit("p", (0, 10))) == Refused("attempt x was abandoned")
    assert judge(fold, commit("p", (0, 10), attempt="y")) == Accepted()
    assert judge(fold, Abandon("p", 0, "x")) == Lost()


def test_a_commit_overrides_a_gap():
    """Its offsets are covered; the rest of the gap stays skipped."""
    fold = fold_of(ORIGIN, gap(0, 10), commit("p", (3, 7)))
    assert fold.covered["id-t", 0].spans == ((3, 7),)
    assert fold.skipped["id-t", 0].spans == ((0, 3), (7, 10))
    assert fold.cursors("t") == {0: 10, 1: 0}


def test_a_recreated_topic_shares_no_offsets_with_the_old_one():
    """Coverage is by topic id."""
    fold = fold_of(ORIGIN, commit("p", (0, 10)))
    window = (OffsetRange("t", 0, 0, 10),)
    assert fold.covers(window, {"t": "id-t"})
    assert not fold.covered_part(window, {"t": "recreated"})
    assert fold.commits_over(window, {"t": "recreated"}) == ()


def test_which_commits_hold_a_window():
    """All that hold any offset of it, and no other."""
    fold = fold_of(*HISTORY)
    for window, commits in [((5, 25), (2, 3)), ((9, 10), (2,)), ((10, 20), ())]:
        assert fold.commits_over((OffsetRange("t", 0, *window),), {"t": "id-t"}) == commits


spans = st.tuples(st.integers(0, 25), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))
entries = st.one_of(
    st.builds(
        commit,
        st.sampled_from("pqrs"),
        spans,
        spans,
        chunk=st.integers(0, 2),
        attempt=st.sampled_from("xy"),
        partition=st.integers(0, 1),
    ),
    st.builds(lambda span, p: gap(*span, partition=p), spans, st.integers(0, 2)),
    st.builds(Abandon, st.sampled_from("pqrs"), st.integers(0, 2), st.sampled_from("xy")),
    st.builds(
        lambda topic_id, ps: Origin("t", topic_id, dict.fromkeys(ps, 2)),
        st.sampled_from(["id-t", "recreated"]),
        st.sets(st.integers(0, 2), min_size=1),
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(entries, max_size=25))
def test_whatever_the_history_committed_ranges_tile(history):
    """Of the accepted entries: no offset twice, one commit a chunk, no abandoned attempt.

    From origin to cursor every offset is covered or skipped, and a commit overrides a gap.
    """
    fold = fold_of(Origin("t", "id-t", {0: 0, 1: 3, 2: 0}))
    covered, skipped, chunks, given_up = set(), set(), set(), set()
    for entry in history:
        before = fold.n
        if judge(fold, entry) != Accepted():
            continue
        fold.apply(entry, "digest")
        assert fold.n == before + 1
        match entry:
            case Commit():
                taken = {(r.partition, o) for _, r in entry.ranges for o in range(r.start, r.end)}
                assert not taken & covered
                assert (entry.plan_id, entry.chunk) not in chunks
                assert (entry.plan_id, entry.chunk, entry.attempt) not in given_up
                covered |= taken
                skipped -= taken
                chunks.add((entry.plan_id, entry.chunk))
            case Gap():
                passed = {(entry.partition, o) for o in range(entry.start, entry.end)}
                assert not passed & (covered | skipped)
                skipped |= passed
            case Abandon():
                given_up.add((entry.plan_id, entry.chunk, entry.attempt))
            case Origin():
                pytest.fail("t has its origins")
    assert fold.topic_ids == {"t": "id-t"}
    assert fold.origins == {"id-t": {0: 0, 1: 3, 2: 0}}
    for p, origin in fold.origins["id-t"].items():
        seen = {o for q, o in covered | skipped if q == p}
        assert fold.cursors("t")[p] == min(set(range(origin, 100)) - seen)
        assert {o for s, e in fold.covered.get(("id-t", p), ()) for o in range(s, e)} == {
            o for q, o in covered if q == p
        }
        assert {o for s, e in fold.skipped.get(("id-t", p), ()) for o in range(s, e)} == {
            o for q, o in skipped if q == p
        }
