"""The sweeper: old staging is deleted, and what may be committed never is."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import staged_attempts
from tidegate import faults, flows
from tidegate.core import layout, replacement
from tidegate.core.entries import Abandon
from tidegate.core.judge import Adopt, Lost, Refused
from tidegate.core.offsets import OffsetRange
from tidegate.errors import LakeDamaged
from tidegate.lake import attempts, committing, placing, plans
from tidegate.lake.committed_files import live_files
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.plan_work import gather_work
from tidegate.lake.store import LocalStore
from tidegate.lake.sweeping import ABANDON_AFTER, GRACE, sweep
from tidegate.maintenance.repair import repair_lake
from tidegate.pipelines.spec import parse_spec

PLAN = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 3)))


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "p")


def age(store, prefix, seconds):
    """Let everything below a directory be that old."""
    for listed in store.objects(prefix):
        path = Path(store.native(listed.path))
        was = path.stat().st_mtime
        os.utime(path, (was - seconds, was - seconds))


def swept(store, **given):
    return sweep(store, staged_attempts.ledger_of(store), run="sweep", **given)


def why(found):
    return sorted((each.attempt, each.why) for each in found.attempts)


def files(store, attempt="attempt", plan=PLAN, chunk=0):
    """Return the names of an attempt's files."""
    directory = layout.attempt(plan.id, chunk, attempt)
    return sorted(Path(each.path).name for each in store.objects(directory))


def publish(store, plan=PLAN):
    return committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")


def readable(store):
    """Assert that every file that the ledger tells is there with its rows; return how many."""
    rows = 0
    for each in live_files(store, staged_attempts.ledger_of(store).fold):
        found = pq.read_metadata(each["uri"].removeprefix("file://")).num_rows
        assert found == each["rows"], each["uri"]
        rows += found
    return rows


# What is placed


def test_staged_copies_go_a_grace_after_they_are_placed(store):
    """Not before: a reader may hold their URIs. A finished run stays one."""
    staged_attempts.seal(store, PLAN)
    assert publish(store) == {0: 3}
    age(store, layout.STAGING, 1e9)
    age(store, layout.PLACED, GRACE - 60)
    assert why(swept(store)) == []
    age(store, layout.PLACED, 120)
    assert why(swept(store)) == [("attempt", "placed")]
    assert files(store) == []
    assert readable(store) == 13
    assert publish(store) == {0: 3}
    assert why(swept(store)) == []


def test_copies_of_an_unplaced_commit_stay(store, monkeypatch):
    """Readers by the ledger use them; a later run places them."""
    staged_attempts.seal(store, PLAN)
    monkeypatch.setenv(faults.VARIABLE, "publish.finalising:raise")
    with pytest.raises(faults.FaultInjected):
        publish(store)
    monkeypatch.delenv(faults.VARIABLE)
    age(store, "", 1e9)
    found = swept(store, grace=0, abandon_after=0)
    assert (found.attempts, found.left) == ([], [])
    assert readable(store) == 13
    assert placing.roll_forward(store, staged_attempts.ledger_of(store)) == [3]


@pytest.mark.parametrize("damage", ["gone", "cut", "exchanged"])
def test_copies_stay_while_the_final_file_is_not_verified(store, damage):
    """They are then the only whole ones; this is reported."""
    staged_attempts.seal(store, PLAN)
    publish(store)
    (listed, _) = store.objects(layout.DATA)
    final = Path(store.native(listed.path))
    data = final.read_bytes()
    final.unlink()
    if damage == "cut":
        final.write_bytes(data[:-50] + data[-40:])
    elif damage == "exchanged":
        final.write_bytes(data[:-20] + bytes(byte ^ 1 for byte in data[-20:-8]) + data[-8:])
    found = swept(store, grace=0)
    assert why(found) == []
    assert [(each.commit, str(final) in each.why) for each in found.left] == [(3, True)]
    assert len(files(store)) == 3


def test_copies_stay_while_the_manifest_is_damaged(store):
    """Of this commit, by name, live or replaced; all else is swept."""
    plans_ = [staged_attempts.plan_of((OffsetRange("t", p, 0, 5),)) for p in range(2)]
    for plan in plans_:
        staged_attempts.seal(store, plan)
        publish(store, plan)
    damaged = layout.manifest(plans_[0].id, 0, "attempt")
    manifest = Path(store.native(damaged))
    manifest.write_bytes(manifest.read_bytes()[:-1])
    form = replacement.replaces_to_json([replacement.Replaced(3, OffsetRange("t", 0, 0, 5))])
    again = replace(plans_[0], lane="replay", replay={"id": "1", "asked": {}, "replaces": [form]})
    for is_live in (True, False):
        if not is_live:
            staged_attempts.seal(store, again, "replay")
            with pytest.raises(LakeDamaged):
                publish(store, again)
        found = swept(store, grace=0)
        assert why(found) == ([("attempt", "placed")] if is_live else [])
        (left,) = found.left
        assert (left.plan_id, left.commit) == (plans_[0].id, 3)
        assert damaged in left.why
        assert len(files(store, plan=plans_[0])) == 2


# What lost


def test_losers_of_a_committed_chunk_go(store):
    """Sealed or not, a grace after the winner is in place; no entry is needed for them."""
    staged_attempts.seal(store, PLAN, "winner")
    staged_attempts.stage(store, PLAN, "unsealed")
    publish(store)
    attempts.create_manifest(
        store, staged_attempts.check(store, PLAN, staged_attempts.stage(store, PLAN, "sealed"))
    )
    assert why(swept(store)) == []
    n = staged_attempts.ledger_of(store).fold.n
    found = why(swept(store, grace=0))
    assert found == [("sealed", "lost"), ("unsealed", "lost"), ("winner", "placed")]
    assert staged_attempts.ledger_of(store).fold.n == n
    assert readable(store) == 13
    assert not Path(store.native(layout.attempt(PLAN.id, 0, "sealed"))).exists()
    assert store.size(layout.manifest(PLAN.id, 0, "sealed")) is None


def test_a_loser_that_wakes_adopts_the_winner(store):
    """Its files are gone by right: no damage is claimed, nothing is committed twice."""
    loser = staged_attempts.seal(store, PLAN, "loser")
    staged_attempts.seal(store, PLAN, "winner")
    ledger = staged_attempts.ledger_of(store)
    assert committing.commit(
        store,
        ledger,
        PLAN,
        staged_attempts.check(store, PLAN, attempts.Attempt(PLAN.id, 0, "winner")),
        run="run",
    ) == Appended(3)
    placing.finalise(store, ledger, 3)
    swept(store, grace=0)
    assert files(store, "loser") == []
    late = staged_attempts.ledger_of(store)
    assert committing.commit(store, late, PLAN, loser, run="late") == Adopt(3)
    assert readable(store) == 13


@pytest.mark.parametrize("whole", [True, False])
def test_commits_that_were_replaced(store, whole):
    """The losers go, and what is left of the winner, with the file without rows that Spark writes
    for an empty first task. The new commit's copies and all that is in place stay
    readable.
    """
    winner = staged_attempts.stage(store, PLAN, "winner")
    empty = "topic=t/part-00000-e.c000.zstd.parquet"
    staged_attempts.write_file(store, winner.directory, empty, 0, [])
    attempts.create_manifest(store, staged_attempts.check(store, PLAN, winner))
    staged_attempts.stage(store, PLAN, "loser")
    publish(store)
    parts = [OffsetRange("t", 0, 0, 10), *([OffsetRange("t", 1, 0, 3)] if whole else [])]
    form = replacement.replaces_to_json(replacement.Replaced(3, r) for r in parts)
    made = {"id": "again", "asked": {}, "replaces": [form]}
    again = replace(staged_attempts.plan_of(tuple(parts)), lane="replay", replay=made)
    staged_attempts.seal(store, again, "replay")
    assert publish(store, again) == {0: 4}
    assert why(swept(store)) == []
    gone = [("loser", "lost"), ("replay", "placed"), ("winner", "placed")]
    assert why(swept(store, grace=0)) == gone
    assert files(store, "winner") == []
    assert readable(store) == 13
    found = swept(store, grace=0)
    assert (found.attempts, found.left) == ([], [])


# What is open


def test_sealed_attempts_of_a_living_plan_are_never_given_up(store):
    """However old: the broker may be long past their window, and they all that is left of it."""
    staged_attempts.seal(store, PLAN)
    age(store, "", 1e9)
    assert why(swept(store, grace=0, abandon_after=0)) == []
    assert publish(store) == {0: 3}
    assert readable(store) == 13


def test_an_attempt_that_was_killed_is_given_up_first(store):
    """A day after it was last written to; and the entry stands before a file goes."""
    staged_attempts.unfinished(store, staged_attempts.stage(store, PLAN, "killed"))
    age(store, layout.STAGING, ABANDON_AFTER - 60)
    assert why(swept(store)) == []
    one = store.objects(layout.STAGING)[0]
    os.utime(store.native(one.path))  # still written to
    age(store, layout.STAGING, ABANDON_AFTER - 60)
    assert why(swept(store)) == []
    age(store, layout.STAGING, 120)
    assert why(swept(store)) == [("killed", "abandoned")]
    assert (PLAN.id, 0, "killed") in staged_attempts.ledger_of(store).fold.barred
    assert files(store, "killed") == []


def test_what_a_zombie_writes_after_the_listing(store, monkeypatch):
    """It is not touched by this sweep, and collected by the next."""
    staged_attempts.ledger_of(store)
    attempt = staged_attempts.unfinished(store, staged_attempts.stage(store, PLAN, "zombie"))
    append = Ledger.append

    def write_first(self, entry, *, run):
        staged_attempts.write_file(store, attempt.directory, "topic=t/late.parquet", 0, [3])
        return append(self, entry, run=run)

    monkeypatch.setattr(Ledger, "append", write_first)
    assert why(swept(store, abandon_after=0)) == [("zombie", "abandoned")]
    assert files(store, "zombie") == ["late.parquet"]
    monkeypatch.setattr(Ledger, "append", append)
    n = staged_attempts.ledger_of(store).fold.n
    assert why(swept(store)) == [("zombie", "abandoned")]
    assert files(store, "zombie") == []
    assert staged_attempts.ledger_of(store).fold.n == n


def test_a_publisher_that_sleeps_past_the_sweep_is_refused(store):
    """It wakes and commits: abandoned. No commit lists a file that is missing."""
    attempt = staged_attempts.stage(store, PLAN, "paused")
    proven = staged_attempts.check(store, PLAN, attempt)
    staged_attempts.unfinished(store, attempt)  # or it would not be given up
    paused = staged_attempts.ledger_of(store)
    assert why(swept(store, abandon_after=0)) == [("paused", "abandoned")]
    assert isinstance(committing.commit(store, paused, PLAN, proven, run="late"), Refused)
    assert staged_attempts.ledger_of(store).fold.live == {}
    # Another attempt of the chunk is what every chunk may have.
    staged_attempts.seal(store, PLAN, "next")
    assert publish(store) == {0: 4}
    assert readable(store) == 13


def test_a_publisher_that_sleeps_just_before_its_entry_is_refused(store, monkeypatch):
    """It has looked at its files already when they go."""
    attempt = staged_attempts.stage(store, PLAN, "paused")
    proven = staged_attempts.check(store, PLAN, attempt)
    staged_attempts.unfinished(store, attempt)  # or it would not be given up
    ledger = staged_attempts.ledger_of(store)

    def sleep(point):
        if point == "publish.before":
            swept(store, abandon_after=0)

    monkeypatch.setattr(committing.faults, "point", sleep)
    assert isinstance(committing.commit(store, ledger, PLAN, proven, run="late"), Refused)
    assert staged_attempts.ledger_of(store).fold.live == {}


def test_the_abandon_loses_its_number_to_the_commit(store, monkeypatch):
    """The attempt was sealed and committed between the listing and the entry: nothing of it is
    deleted.
    """
    attempt = staged_attempts.stage(store, PLAN, "late")
    proven, done = staged_attempts.check(store, PLAN, attempt), store.get(attempt.done_path)
    staged_attempts.unfinished(store, attempt)  # when it was listed
    create = LocalStore.create

    def then_commit(self, path, data):
        if path == layout.entry(3):
            monkeypatch.setattr(LocalStore, "create", create)
            store.create(attempt.done_path, done)
            attempts.create_manifest(store, proven)
            assert publish(store) == {0: 3}
        return create(self, path, data)

    monkeypatch.setattr(LocalStore, "create", then_commit)
    before = files(store, "late")
    assert why(swept(store, abandon_after=0)) == []
    assert set(files(store, "late")) == {*before, "_done.json"}
    fold = staged_attempts.ledger_of(store).fold
    assert (fold.barred, list(fold.live)) == (set(), [3])
    assert readable(store) == 13


def test_a_commit_that_lands_a_minute_later_has_its_files(store, monkeypatch):
    """The PUT of its entry timed out and was read back as missing; a sweep came in between."""
    staged_attempts.seal(store, PLAN)
    create, lost = LocalStore.create, {}

    def time_out(self, path, data):
        if path == layout.entry(3):
            lost[path] = data
            raise ConnectionError
        return create(self, path, data)

    monkeypatch.setattr(LocalStore, "create", time_out)
    with pytest.raises(ConnectionError):
        publish(store)
    monkeypatch.setattr(LocalStore, "create", create)
    assert store.get(layout.entry(3)) is None
    age(store, "", 1e9)
    assert why(swept(store, grace=0, abandon_after=0)) == []
    for path, data in lost.items():
        store.create(path, data)
    assert list(staged_attempts.ledger_of(store).fold.live) == [3]
    assert readable(store) == 13


def test_a_sealed_attempt_that_can_never_be_committed_is_given_up(store):
    """Another plan has committed a part of its chunk, for good."""
    dead = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    plans.freeze_plan(store, dead.id, dead, 1, note={})
    staged_attempts.seal(store, dead, "sealed")
    other = staged_attempts.plan_of((OffsetRange("t", 0, 0, 4),))
    staged_attempts.seal(store, other, "other")
    publish(store, other)
    assert why(swept(store, abandon_after=0)) == [("sealed", "abandoned")]
    assert files(store, "sealed", dead) == []
    given_up = staged_attempts.ledger_of(store).append(Abandon(dead.id, 0, "sealed"), run="again")
    assert given_up == Lost()


def test_a_sealed_replay_that_others_were_quicker_than_is_given_up(store):
    """What it would replace is covered by its nature, and that alone gives nothing up: two replays
    of one file wait, sealed. When one is committed, the other can never be.
    """
    first = staged_attempts.plan_of((OffsetRange("t", 0, 0, 4),))
    staged_attempts.seal(store, first, "first")
    publish(store, first)
    form = replacement.replaces_to_json([replacement.Replaced(3, OffsetRange("t", 0, 0, 4))])
    one, other = (
        replace(first, lane="replay", replay={"id": name, "asked": {}, "replaces": [form]})
        for name in ("one", "other")
    )
    for plan in (one, other):
        plans.freeze_plan(store, plan.id, plan, 1, note={})
        staged_attempts.seal(store, plan, plan.replay["id"])
    assert why(swept(store, abandon_after=0)) == []
    assert publish(store, one) == {0: 4}
    assert why(swept(store, abandon_after=0)) == [("other", "abandoned")]
    assert len(files(store, "one", one)) == 2
    assert readable(store) == 4


# Whatever happens, in whatever order, with a sweeper that knows no patience

steps = st.lists(
    st.tuples(
        st.sampled_from(["stage", "seal", "publish", "crash", "place", "repair", "sweep"]),
        st.integers(0, 2),
        st.integers(0, 1),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_no_live_commit_ever_lists_a_missing_file(tmp_path_factory, steps):
    """Three plans of two chunks, two of them over common offsets; ages never protect anything. And
    a repair finds no unknown file.
    """
    lake = tmp_path_factory.mktemp("lake")
    spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(lake)})
    store = LocalStore(lake / "p")
    made = [
        staged_attempts.plan_of(
            (OffsetRange("t", 0, start, start + 4),), (OffsetRange("t", 1, 0, 3),)
        )
        for start in (0, 2, 8)
    ]
    for plan in made:
        plans.freeze_plan(store, plan.id, plan, 1, note={})
    waiting = []
    for number, (what, which, chunk) in enumerate(steps):
        plan = made[which]
        if what == "stage":
            attempt = staged_attempts.stage(store, plan, f"a{number}", chunk=chunk)
            waiting.append((plan, staged_attempts.check(store, plan, attempt)))
        elif what == "seal" and waiting:
            plan, proven = waiting.pop(0)
            if all(store.size(f.path) == f.size for f in proven.files):
                attempts.create_manifest(store, proven)
        elif what in ("publish", "crash"):
            with pytest.MonkeyPatch.context() as patch:
                if what == "crash":
                    patch.setenv(faults.VARIABLE, "publish.committed:raise")
                with contextlib.suppress(faults.FaultInjected):
                    publish(store, plan)
        elif what == "place":
            placing.roll_forward(store, staged_attempts.ledger_of(store))
        elif what == "repair":
            assert repair_lake(spec, flows.store(spec)).to_json()["quarantined"] == []
        elif what == "sweep":
            open_before = living_seals(store, made)
            swept(store, grace=0, abandon_after=0)
            assert living_seals(store, made) == open_before
        readable(store)


def living_seals(store, made):
    """Return the finished attempts that could still be committed, sealed or not."""
    fold = staged_attempts.ledger_of(store).fold
    return {
        (plan.id, number)
        for plan in made
        for work in [gather_work(store, plan, fold)]
        for number in [*work.sealed, *(each.chunk for each in work.finished)]
        if not fold.covered_part(plan.chunks[number], plan.topics)
    }


def test_a_copy_that_was_killed_goes(store):
    """Its file never got a name; one that is being made stays."""
    store.create(f"{layout.PLACING}old", b"ro")
    age(store, layout.PLACING, ABANDON_AFTER + 60)
    store.create(f"{layout.PLACING}young", b"ro")
    swept(store)
    assert [Path(each.path).name for each in store.objects(layout.PLACING)] == ["young"]


class Counting(LocalStore):
    """Counts what is asked for one object at a time."""

    asked = 0

    def _at(self, path):
        self.asked += 1
        return super()._at(path)


def test_what_was_swept_is_not_asked_for_again(tmp_path):
    """Of each commit ever made a seal is in staging: listed together, and nothing more is asked."""
    asked = []
    for commits in (3, 12):
        store = Counting(tmp_path / str(commits))
        for i in range(commits):
            plan = staged_attempts.plan_of((OffsetRange("t", 0, 10 * i, 10 * i + 10),))
            staged_attempts.seal(store, plan)
            publish(store, plan)
        age(store, "_tidegate/", 1e9)
        assert len(swept(store).attempts) == commits
        ledger = staged_attempts.ledger_of(store)
        store.asked = 0
        assert sweep(store, ledger, run="sweep").attempts == []
        asked.append(store.asked)
    assert asked[0] == asked[1]


def test_an_attempt_without_rows_is_swept_too(store):
    """Its own record goes, its seal stays."""
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 5),))
    Path(store.native(layout.attempt(plan.id, 0, "attempt"))).mkdir(parents=True)
    attempt = staged_attempts.stage(store, plan, files={})
    probe = lambda holes: dict.fromkeys(holes, "empty")  # noqa: E731
    attempts.create_manifest(store, staged_attempts.check(store, plan, attempt, probe=probe))
    publish(store, plan)
    age(store, "_tidegate/", 1e9)
    assert why(swept(store)) == [("attempt", "placed")]
    assert files(store, plan=plan) == []
    assert why(swept(store)) == []
