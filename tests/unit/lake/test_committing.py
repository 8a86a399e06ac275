"""Commit and finalise: one commit per chunk, despite crashed, paused or concurrent publishers."""

import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support import staged_attempts, store_requests
from support.staged_attempts import ledger_of, plan_of
from tidegate import faults
from tidegate.core import canonical, layout
from tidegate.core.entries import Abandon
from tidegate.core.judge import Adopt, CoveredBy, PartlyCovered, Refused
from tidegate.core.offsets import OffsetRange
from tidegate.errors import AttemptAbandoned, LakeDamaged, LakeReadOnly, LakeUnavailable
from tidegate.lake import attempts, committed_files, committing, placing, plans, unfinished_plans
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.plan_work import gather_work
from tidegate.lake.store import LocalStore

PLAN = plan_of(
    (OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 3)),
    (OffsetRange("t", 0, 10, 15), OffsetRange("u", 0, 0, 2)),
)
ROWS = {("t", 0): list(range(15)), ("t", 1): [0, 1, 2], ("u", 0): [0, 1]}


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "p")


def publish(store, plan=PLAN):
    return committing.commit_sealed_chunks(store, ledger_of(store), plan, run="run")


def rows_in_data(store):
    """Read what a reader who globs `data/` sees: (topic, partition) → offsets, in order."""
    rows = {}
    for path in Path(store.native("data")).glob("topic=*/window_date=2024-05-01/*.parquet"):
        topic = path.parts[-3].removeprefix("topic=")
        table = pq.ParquetFile(path).read(columns=["partition", "offset"])
        for row in table.to_pylist():
            rows.setdefault((topic, row["partition"]), []).append(row["offset"])
    return {key: sorted(offsets) for key, offsets in rows.items()}


def rows_by_ledger(store):
    """Read what a reader of `tidegate files` sees."""
    rows = {}
    for each in committed_files.live_files(store, ledger_of(store).fold):
        table = pq.ParquetFile(each["uri"].removeprefix("file://"))
        for row in table.read(columns=["partition", "offset"]).to_pylist():
            rows.setdefault((each["topic"], row["partition"]), []).append(row["offset"])
    return {key: sorted(offsets) for key, offsets in rows.items()}


def test_sealed_chunks_become_the_lake(store):
    """One commit a chunk, files under their final names, the cursors behind them."""
    staged_attempts.seal(store, PLAN, chunk=0)
    staged_attempts.seal(store, PLAN, chunk=1)
    assert publish(store) == {0: 3, 1: 4}
    assert rows_in_data(store) == rows_by_ledger(store) == ROWS
    assert ledger_of(store).fold.cursors("t") == {0: 15, 1: 3}
    names = [path.name for path in Path(store.native("data/topic=u")).glob("*/*")]
    assert names == [f"part-u-00000-{0:019d}-{1:019d}-{PLAN.id}.parquet"]


def test_publishing_twice_changes_nothing(store):
    """The second finds the commits, makes none, and places nothing anew."""
    staged_attempts.seal(store, PLAN, chunk=0)
    staged_attempts.seal(store, PLAN, chunk=1)
    first = publish(store)
    before = [(e.path, e.size) for e in store.objects("")]
    assert publish(store) == first
    assert [(e.path, e.size) for e in store.objects("")] == before


def test_what_is_not_sealed_is_not_published(store):
    """Staged and finished is not enough; the sealed chunk goes on without it."""
    staged_attempts.stage(store, PLAN, chunk=0)
    staged_attempts.seal(store, PLAN, chunk=1)
    assert publish(store) == {1: 3}
    assert rows_in_data(store) == {("t", 0): [10, 11, 12, 13, 14], ("u", 0): [0, 1]}


def test_what_publishing_asks_of_the_store(store, monkeypatch):
    """Two chunks of two files each; what is committed and in place is not asked for again."""
    staged_attempts.seal(store, PLAN, chunk=0)
    staged_attempts.seal(store, PLAN, chunk=1)
    ledger = ledger_of(store)
    counted = store_requests.count(monkeypatch)
    committing.commit_sealed_chunks(store, ledger, PLAN, run="run")
    # One listing of the plan, one for each chunk before its commit; a place and a look a file. Of
    # each chunk its manifest, and the ledger before and after the commit.
    assert counted == {"objects": 3, "get": 6, "create": 4, "place": 4, "size": 4}
    ledger = ledger_of(store)
    counted.clear()
    committing.commit_sealed_chunks(store, ledger, PLAN, run="run")
    assert placing.roll_forward(store, ledger) == []
    assert not counted


def test_a_manifest_that_is_known_is_not_read_again(store, monkeypatch):
    """A single chunk is listed once."""
    staged_attempts.seal(store, PLAN, chunk=0)
    ledger, known = ledger_of(store), {}
    gather_work(store, PLAN, ledger.fold, known=known)
    (manifest,) = known.values()
    assert manifest == attempts.read_manifest(store, manifest.attempt)
    counted = store_requests.count(monkeypatch)
    commits = committing.commit_sealed_chunks(store, ledger, PLAN, run="run", known=known)
    assert counted == {"objects": 1, "get": 2, "create": 2, "place": 2, "size": 2}
    assert attempts.committed_manifest(store, ledger.commit(commits[0])) == manifest


def test_another_attempt_is_committed_meanwhile(store, monkeypatch):
    """Its files are placed, not those of the attempt that was to be committed."""
    staged_attempts.seal(store, PLAN, "a", chunk=0)
    files = {("t", 0): [range(4), range(4, 10)], ("t", 1): [range(3)]}
    other = staged_attempts.check(store, PLAN, staged_attempts.stage(store, PLAN, "b", files=files))
    quicker = ledger_of(store)

    def commit_other(name):
        if name == "publish.before":
            monkeypatch.setattr(faults, "point", lambda _: None)
            attempts.create_manifest(store, other)
            assert committing.commit(store, quicker, PLAN, other, run="b") == Appended(3)

    monkeypatch.setattr(faults, "point", commit_other)
    assert publish(store) == {0: 3}
    assert rows_in_data(store) == {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}
    assert len(store.objects("data/")) == 3


@pytest.mark.parametrize(
    ("at", "committed", "rows"),
    [
        ("publish.before", 0, {}),
        ("publish.committed", 1, {}),
        ("publish.finalising", 2, {("t", 0): list(range(10))}),
        ("publish.finalised", 2, {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}),
    ],
)
def test_a_crash_at_any_point_is_rolled_forward(store, monkeypatch, at, committed, rows):
    """Readers by the ledger see each committed row once, at once; `data/` later.

    Rolling forward needs neither the plan nor the seals.
    """
    staged_attempts.seal(store, PLAN, chunk=0)
    staged_attempts.seal(store, PLAN, chunk=1)
    monkeypatch.setenv(faults.VARIABLE, f"{at}:raise")
    with pytest.raises(faults.FaultInjected):
        publish(store)
    monkeypatch.delenv(faults.VARIABLE)
    fold = ledger_of(store).fold
    assert len(fold.live) == committed
    assert rows_in_data(store) == rows
    by_chunk = {0: {}, 1: {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}, 2: ROWS}
    assert rows_by_ledger(store) == by_chunk[committed]
    placing.roll_forward(store, ledger_of(store))
    assert rows_in_data(store) == rows_by_ledger(store) == by_chunk[committed]
    assert placing.roll_forward(store, ledger_of(store)) == []
    publish(store)
    assert rows_in_data(store) == rows_by_ledger(store) == ROWS


@pytest.mark.parametrize("finaliser", ["winner", "loser", "roll_forward"])
def test_two_attempts_of_one_chunk_are_one_commit(store, finaliser):
    """The committed entry's files are placed by any process; compaction came in between.

    Both publishers have folded the ledger before either has committed.
    """
    plan = plan_of((OffsetRange("t", 0, 0, 5),))
    whole = staged_attempts.seal(store, plan, "whole")
    thin = staged_attempts.check(
        store,
        plan,
        staged_attempts.stage(store, plan, "thin", files={("t", 0): [[0, 4]]}),
        probe=lambda holes: dict.fromkeys(holes, "empty"),
    )
    attempts.create_manifest(store, thin)
    one, other = ledger_of(store), ledger_of(store)
    assert committing.commit(store, one, plan, thin, run="one") == Appended(3)
    assert committing.commit(store, other, plan, whole, run="other") == Adopt(3)
    assert len(ledger_of(store).fold.live) == 1
    match finaliser:
        case "winner":
            placing.finalise(store, one, 3)
        case "loser":
            committing.commit_sealed_chunks(store, other, plan, run="other")
        case "roll_forward":
            placing.roll_forward(store, ledger_of(store))
    assert rows_in_data(store) == rows_by_ledger(store) == {("t", 0): [0, 4]}


def test_a_vanished_file_is_never_committed(store):
    """Gone after the seal was read: refused, and no entry names it."""
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    ledger = ledger_of(store)
    Path(store.native(seal.files[0].path)).unlink()
    with pytest.raises(LakeDamaged, match=seal.files[0].path):
        committing.commit(store, ledger, PLAN, seal, run="run")
    assert ledger_of(store).fold.live == {}
    assert publish(store) == {}  # and it counts as not sealed: the chunk can be staged again


def crash_after_commit(store, monkeypatch, plan=PLAN):
    """Publish, and end right after the first commit: none of its files is in place."""
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        publish(store, plan)
    monkeypatch.delenv(faults.VARIABLE)


def test_a_committed_file_that_vanished_is_named(store, monkeypatch):
    """Lost between commit and finalise: damage, with the file's name. The commit's other file and
    a later commit are placed all the same, and the next plan does not fail on it.
    """
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    crash_after_commit(store, monkeypatch)
    Path(store.native(seal.files[0].path)).unlink()
    staged_attempts.seal(store, PLAN, chunk=1)
    failures = []
    assert placing.roll_forward(store, ledger_of(store), failures) == []
    (lost,) = failures
    assert isinstance(lost, LakeDamaged)
    assert "part-00000" in str(lost)
    assert rows_in_data(store) == {("t", 1): [0, 1, 2]}
    with pytest.raises(LakeDamaged, match="part-00000"):
        publish(store)
    assert placing.unplaced_commits(store, ledger_of(store).fold) == [3]
    assert rows_in_data(store) == {
        ("t", 0): [10, 11, 12, 13, 14], ("t", 1): [0, 1, 2], ("u", 0): [0, 1],
    }  # fmt: skip


def test_one_commit_that_cannot_be_placed_stops_no_other(store, monkeypatch):
    """Whatever the refusal: the other commits are placed, and every error is reported."""
    staged_attempts.seal(store, PLAN, chunk=0)
    crash_after_commit(store, monkeypatch)
    other = plan_of((OffsetRange("t", 0, 50, 60),))
    staged_attempts.seal(store, other)
    crash_after_commit(store, monkeypatch, other)
    place = LocalStore.place

    def refuse(self, source, target, size):
        if "-0000000000000000000-" in target:
            raise LakeReadOnly("not permitted")
        place(self, source, target, size)

    monkeypatch.setattr(LocalStore, "place", refuse)
    failures = []
    assert placing.roll_forward(store, ledger_of(store), failures) == [4]
    assert [type(each) for each in failures] == [LakeReadOnly]
    monkeypatch.setattr(LocalStore, "place", place)
    assert placing.roll_forward(store, ledger_of(store)) == [3]


def test_what_cannot_be_placed_is_not_committed(store):
    """A directory that this user may not write is found before the commit: the seal stays, and
    with the right to write it the same publish does all.
    """
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    (final, *_) = seal.files
    directory = Path(store.native(final.final)).parent
    directory.parent.mkdir(parents=True)
    directory.write_text("a file in the place of the directory")
    with pytest.raises(LakeReadOnly, match="window_date"):
        publish(store)
    assert ledger_of(store).fold.live == {}
    directory.unlink()
    assert publish(store) == {0: 3}


@pytest.mark.parametrize("size", [0, 7, "more"])
def test_a_final_name_with_another_size_is_not_trusted(store, monkeypatch, size):
    """What lies there goes to quarantine, and the committed file is placed."""
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    crash_after_commit(store, monkeypatch)
    wrong = b"x" * (seal.files[0].size + 1 if size == "more" else size)
    (first, *_) = attempts.committed_manifest(store, ledger_of(store).fold.live[3]).files
    store.create(first.final, wrong)
    assert placing.roll_forward(store, ledger_of(store)) == [3]
    assert rows_in_data(store) == {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}
    (kept,) = store.objects(layout.QUARANTINE)
    assert store.get(kept.path) == wrong


def test_a_wrong_file_without_a_staged_copy_stays(store, monkeypatch):
    """There is nothing to put in its place: it is named, and the commit is not called placed."""
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    crash_after_commit(store, monkeypatch)
    (first, *_) = attempts.committed_manifest(store, ledger_of(store).fold.live[3]).files
    store.create(first.final, b"short")
    store.delete(seal.files[0].path)
    failures = []
    assert placing.roll_forward(store, ledger_of(store), failures) == []
    assert "has 5 bytes" in str(failures[0])
    assert store.get(first.final) == b"short"
    assert store.size(layout.placed(3)) is None


def test_staged_copies_may_go_once_all_is_placed(store):
    """A crash before the marker, and a sweep after it: the final files are enough."""
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    publish(store)
    store.delete(layout.placed(3))
    for file in seal.files:
        store.delete(file.path)
    assert placing.roll_forward(store, ledger_of(store)) == [3]
    assert rows_in_data(store) == {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}


def test_a_paused_publisher_finds_its_attempt_abandoned(store):
    """It sealed, slept past the sweep, and wakes: refused, and nothing is committed."""
    seal = staged_attempts.seal(store, PLAN, chunk=0)
    paused = ledger_of(store)
    assert ledger_of(store).append(Abandon(PLAN.id, 0, "attempt"), run="sweep") == Appended(3)
    assert committing.commit(store, paused, PLAN, seal, run="run") == Refused(
        "attempt attempt was abandoned"
    )
    assert ledger_of(store).fold.live == {}


def test_an_attempt_abandoned_while_it_is_published(store, monkeypatch):
    """The sweeper's entry gets in before the commit, after the seals were read: refused."""
    staged_attempts.seal(store, PLAN, chunk=0)
    sweeper = ledger_of(store)

    def sweep(name):
        if name == "publish.before":
            sweeper.append(Abandon(PLAN.id, 0, "attempt"), run="sweep")

    monkeypatch.setattr(faults, "point", sweep)
    with pytest.raises(AttemptAbandoned):
        publish(store)
    assert ledger_of(store).fold.live == {}


def test_a_committed_attempt_cannot_be_abandoned(store):
    """The sweeper that loses the number to the commit deletes nothing."""
    staged_attempts.seal(store, PLAN, chunk=0)
    sweeper = ledger_of(store)
    publish(store)
    verdict = sweeper.append(Abandon(PLAN.id, 0, "attempt"), run="sweep")
    assert verdict == Refused("attempt attempt is committed as #3")


def test_what_others_have_committed_is_not_committed_again(store):
    """Wholly covered: nothing to do. Partly: nothing is done, and the parts are named."""
    first = plan_of((OffsetRange("t", 0, 0, 10),))
    inside = plan_of((OffsetRange("t", 0, 2, 8),))
    across = plan_of((OffsetRange("t", 0, 5, 15),))
    for plan in (first, inside, across):
        staged_attempts.seal(store, plan)
    assert publish(store, first) == {0: 3}
    assert publish(store, inside) == {}
    assert publish(store, across) == {}
    ledger = ledger_of(store)
    seals = {p.id: gather_work(store, p, ledger.fold).sealed[0] for p in (inside, across)}
    covered_by = committing.commit(store, ledger, inside, seals[inside.id], run="run")
    assert covered_by == CoveredBy((3,))
    partly = committing.commit(store, ledger, across, seals[across.id], run="run")
    assert partly == PartlyCovered((OffsetRange("t", 0, 5, 10),))
    assert staged_attempts.covered(ledger, "t", 0) == ((0, 10),)
    assert rows_in_data(store) == {("t", 0): list(range(10))}


@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_manifest_that_is_not_the_committed_one_is_refused(store, how):
    """One byte is enough."""
    staged_attempts.seal(store, PLAN, chunk=0)
    publish(store)
    commit = ledger_of(store).fold.live[3]
    path = Path(store.native(commit.manifest.path))
    if how == "changed":
        path.write_bytes(path.read_bytes().replace(b'"rows":10', b'"rows":11'))
    else:
        path.unlink()
    with pytest.raises(LakeDamaged, match=how):
        attempts.committed_manifest(store, commit)


def test_a_strange_manifest_in_the_way_is_no_commit(store):
    """An entry must not name a list that is not its own."""
    attempt = staged_attempts.stage(store, PLAN, chunk=0)
    store.create(attempt.manifest_path, b"{}")
    assert not attempts.create_manifest(store, staged_attempts.check(store, PLAN, attempt))
    with pytest.raises(LakeDamaged):
        publish(store)
    assert ledger_of(store).fold.live == {}


class Together(LocalStore):
    """Gives an object of a kind only when several were asked for at the same time."""

    kind, together = "", None

    def get(self, path):
        if self.together and path.startswith(self.kind):
            self.together.wait(20)
        return super().get(path)


@pytest.mark.parametrize("kind", ["_tidegate/manifests/", layout.LOG])
def test_a_long_lake_is_read_side_by_side(tmp_path, kind):
    """Eight objects are asked for before the first has come: entries, and the lists of files."""
    store = Together(tmp_path / "p")
    for i in range(30):
        plan = plan_of((OffsetRange("t", 0, 10 * i, 10 * i + 10),))
        staged_attempts.seal(store, plan)
        publish(store, plan)
    fold = Ledger(store, "p").fold
    store.kind = kind
    store.together = threading.Barrier(8, action=lambda: setattr(store, "together", None))
    if kind == layout.LOG:
        assert Ledger(store, "p").fold == fold
    else:
        listed = committed_files.live_files(store, fold)
        assert [(f["commit"], f["parts"][0]["first"]) for f in listed] == [
            (3 + i, 10 * i) for i in range(30)
        ]
    assert store.together is None


# Freezing


def test_a_run_has_one_plan(store):
    """The first one frozen, also for a process that plans otherwise; then generations."""
    other = plan_of((OffsetRange("t", 0, 0, 99),))
    assert plans.latest_plan(store, "key") is None
    assert plans.freeze_plan(store, "key", PLAN, 1, note={}).plan == PLAN
    loser = plans.freeze_plan(store, "key", other, 1, note={})
    assert (loser.plan, loser.generation) == (PLAN, 1)
    assert plans.freeze_plan(store, "key", other, 2, note={}).generation == 2
    assert plans.latest_plan(store, "key") == plans.Frozen(other, 2)
    assert plans.latest_plan(store, "another key") is None


def test_a_plans_note_is_of_its_first_freezing(store):
    """The same work frozen again by another run keeps what was seen first."""
    noted = {"format": canonical.FORMAT, "at": "then"}
    assert plans.freeze_plan(store, "key", PLAN, 1, note={"at": "then"}).note == noted
    assert plans.freeze_plan(store, "another key", PLAN, 1, note={"at": "now"}).note is None, "look"
    assert plans.read_note(store, PLAN.id) == noted
    assert plans.read_note(store, "0" * 16) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b'"live"', b'"LIVE"'),
        lambda data: data[:-1],
        lambda _: b"[]",
        lambda data: data.replace(b'"format":2', b'"format":"2"'),
    ],
)
def test_a_damaged_plan_is_named(store, damage):
    """Changed, cut short, nonsense, without a format: refused, and not frozen over either."""
    plans.freeze_plan(store, "key", PLAN, 1, note={})
    path = Path(store.native(layout.plan(PLAN.id)))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(LakeDamaged, match=PLAN.id):
        plans.latest_plan(store, "key")
    with pytest.raises(LakeDamaged, match=PLAN.id):
        plans.freeze_plan(store, "another key", PLAN, 1, note={})
    assert store.get(layout.generation("another key", 1)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_damaged_pointer_is_named(store, text):
    """It is not taken for none: the run would get a second plan."""
    store.create(layout.generation("key", 1), text.encode())
    with pytest.raises(LakeDamaged, match=r"key/1\.json"):
        plans.latest_plan(store, "key")


def test_a_commit_of_another_run_that_cannot_be_placed_stops_no_plan(store, monkeypatch):
    """Another run has sealed a chunk, and its files can be committed and not be placed now: its
    rows are in the lake, and the planning run goes on.
    """
    plans.freeze_plan(store, "another run", PLAN, 1, note={})
    staged_attempts.seal(store, PLAN, chunk=0)

    def refuse(self, source, target, size):
        raise LakeUnavailable("the copy took too long")

    monkeypatch.setattr(LocalStore, "place", refuse)
    ledger = ledger_of(store)
    others = unfinished_plans.load_unfinished(store)
    assert unfinished_plans.publish_unfinished(store, ledger, others, run="run")
    assert placing.unplaced_commits(store, ledger.fold) == [3]
    assert rows_by_ledger(store) == {("t", 0): list(range(10)), ("t", 1): [0, 1, 2]}
