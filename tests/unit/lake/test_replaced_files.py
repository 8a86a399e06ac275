"""Re-ingest: whole files are replaced by one entry, and the old rows never come back."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support import ingest_world, staged_attempts, store_requests
from support.ingest_steps import ingest
from support.staged_attempts import ledger_of, plan_of
from tidegate import faults, flows
from tidegate.core import layout, replacement
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.replacement import Replaced
from tidegate.errors import LakeDamaged, OtherFormat, ReplayRefused
from tidegate.ingest.verify import verify
from tidegate.lake import (
    attempts,
    committed_files,
    committing,
    json_documents,
    local_store,
    placing,
    plans,
)
from tidegate.lake.store import LocalStore
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.maintenance.repair import repair_lake
from tidegate.pipelines.spec import parse_spec
from tidegate_check import lake


def part(start, end, partition=0):
    return OffsetRange("t", partition, start, end)


PLAN = plan_of((part(0, 10), part(0, 3, 1)))
FILES = {("t", 0): [range(4), range(4, 10)], ("t", 1): [range(3)]}


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "p")


def first_commit(store):
    """Commit PLAN as #3: two files of partition 0, one of partition 1."""
    sealed = staged_attempts.check(
        store, PLAN, staged_attempts.stage(store, PLAN, "first", files=FILES)
    )
    staged_attempts.attempts.create_manifest(store, sealed)
    return committing.commit_sealed_chunks(store, ledger_of(store), PLAN, run="first")


def replay(replay_id, *replaces):
    """Return a plan that replaces parts of commits: (n, range) each."""
    window = replacement.merge_ranges(r for _, r in replaces)
    form = replacement.replaces_to_json(Replaced(n, r) for n, r in replaces)
    made = {"id": replay_id, "asked": {}, "replaces": [form]}
    return replace(plan_of(window), lane="replay", replay=made)


def publish(store, plan):
    return committing.commit_sealed_chunks(store, ledger_of(store), plan, run="replay")


def holders(store, *, by_glob=False):
    """Return which plan's file holds each (partition, offset) that a reader sees, or raises."""
    if by_glob:
        paths = list(Path(store.native("data")).rglob("*.parquet"))
        named = [(path, path.stem.rpartition("-")[2]) for path in paths]
    else:
        listed = committed_files.live_files(store, ledger_of(store).fold)
        named = [(Path(f["uri"].removeprefix("file://")), f["plan_id"]) for f in listed]
    seen = Counter()
    found = {}
    for path, plan_id in named:
        for row in pq.ParquetFile(path).read(columns=["partition", "offset"]).to_pylist():
            seen[row["partition"], row["offset"]] += 1
            found[row["partition"], row["offset"]] = plan_id
    assert set(seen.values()) <= {1}, seen
    return found


def everything(old, new=None, *, replaced=()):
    rows = [(0, o) for o in range(10)] + [(1, o) for o in range(3)]
    return {row: new.id if row in replaced else old.id for row in rows}


def all_of(plan):
    return dict.fromkeys(everything(PLAN), plan.id)


LATER_FILE = [(0, o) for o in range(4, 10)]


def test_a_file_of_a_commit_is_replaced(store):
    """Readers see each row once; the old file is deleted, and its staged copy too."""
    first_commit(store)
    again = replay("x", (3, part(4, 10)))
    staged_attempts.seal(store, again)
    assert publish(store, again) == {0: 4}
    expected = everything(PLAN, again, replaced=LATER_FILE)
    assert holders(store) == holders(store, by_glob=True) == expected
    assert len(list(Path(store.native("")).rglob("*.parquet"))) == 3 + 3
    assert [p.name for p in Path(store.native("_tidegate/staging")).rglob("*-1.c000*")] == []
    assert publish(store, again) == {0: 4}
    assert publish(store, PLAN) == {0: 3}
    assert placing.roll_forward(store, ledger_of(store)) == []
    assert holders(store) == holders(store, by_glob=True) == expected


POINTS = [
    "publish.committed", "publish.retiring@1", "publish.retiring@2", "publish.retiring@3",
    "publish.finalising@1", "publish.finalising@2", "publish.finalised",
]  # fmt: skip


@pytest.mark.parametrize("at", POINTS)
def test_a_crash_at_any_point_of_a_replace(store, monkeypatch, at):
    """By the ledger each row is there once, at once, and of the new plan; rolled forward, a glob
    sees the same, by any finaliser and in any order.
    """
    first_commit(store)
    again = replay("x", (3, part(0, 10)), (3, part(0, 3, 1)))
    staged_attempts.seal(store, again)
    monkeypatch.setattr(faults, "passed", Counter())
    monkeypatch.setenv(faults.VARIABLE, f"{at}:raise")
    with pytest.raises(faults.FaultInjected):
        publish(store, again)
    monkeypatch.delenv(faults.VARIABLE)
    assert set(holders(store).values()) == {again.id}
    assert len(holders(store)) == 13
    placing.finalise(store, ledger_of(store), 3)  # a late finaliser of what is replaced
    placing.roll_forward(store, ledger_of(store))
    placing.finalise(store, ledger_of(store), 3)
    assert holders(store) == holders(store, by_glob=True) == all_of(again)


@pytest.mark.parametrize("at", [POINTS[0], *POINTS[4:6]])
@pytest.mark.parametrize("replaced", ["some", "all"])
def test_what_crashed_before_it_was_replaced_does_not_come_back(store, monkeypatch, at, replaced):
    """Commit P crashes half-finalised, R replaces it in part or whole, everything is rolled
    forward: P's replaced rows do not come back, and the rest of P is placed.
    """
    monkeypatch.setattr(faults, "passed", Counter())
    monkeypatch.setenv(faults.VARIABLE, f"{at}:raise")
    with pytest.raises(faults.FaultInjected):
        first_commit(store)
    monkeypatch.delenv(faults.VARIABLE)
    parts = [(3, part(4, 10))]
    if replaced == "all":
        parts = [(3, part(0, 10)), (3, part(0, 3, 1))]
    again = replay("x", *parts)
    staged_attempts.seal(store, again)
    publish(store, again)
    placing.roll_forward(store, ledger_of(store))
    rows = LATER_FILE if replaced == "some" else everything(PLAN)
    expected = everything(PLAN, again, replaced=rows)
    assert holders(store) == holders(store, by_glob=True) == expected


def test_a_finaliser_that_sleeps_across_a_replace(store, monkeypatch):
    """It has checked that the file is live, then another commit replaces it, then it goes on."""
    again = replay("x", (3, part(0, 10)), (3, part(0, 3, 1)))
    slept = []

    def nap(name):
        if name == "publish.finalising" and not slept:
            slept.append(name)
            staged_attempts.seal(store, again)
            publish(store, again)

    monkeypatch.setattr(faults, "point", nap)
    first_commit(store)
    assert holders(store) == holders(store, by_glob=True) == all_of(again)


def test_a_copy_that_was_under_way_while_its_source_went(tmp_path):
    """As in an object store: it has read the staged file, another commit replaces it, then the old
    file appears. Who placed it looks again, and takes it away.
    """
    again = replay("x", (3, part(0, 10)), (3, part(0, 3, 1)))

    class Copying(LocalStore):
        slept = False

        def place(self, source, target, size):
            if not self.slept and target.startswith("data/"):
                self.slept = True
                data = Path(self.native(source)).read_bytes()
                staged_attempts.seal(self, again)
                publish(self, again)
                Path(self.native(target)).write_bytes(data)
            else:
                super().place(source, target, size)

    store = Copying(tmp_path / "p")
    first_commit(store)
    assert holders(store) == holders(store, by_glob=True) == all_of(again)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("chain", [False, True])
def test_a_copy_that_lands_after_its_client_died(store, tmp_path, checkpointed, chain):
    """An object store goes on copying when the finaliser that asked for it was killed: the old file
    appears after it was replaced, and no process checks. The next plan deletes it.
    """
    first_commit(store)
    (late, *_) = [
        f.final for f in attempts.committed_manifest(store, ledger_of(store).fold.live[3]).files
    ]
    data = store.get(late)
    last = replay("x", (3, part(0, 10)), (3, part(0, 3, 1)))
    staged_attempts.seal(store, last)
    publish(store, last)
    if chain:
        last = replay("y", (4, part(0, 10)), (4, part(0, 3, 1)))
        staged_attempts.seal(store, last)
        publish(store, last)
    if checkpointed:
        spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})
        assert checkpoint_pipeline(spec, flows.store(spec)).entry == ledger_of(store).fold.n
    Path(store.native(late)).write_bytes(data)
    assert placing.roll_forward(store, ledger_of(store)) == []
    assert holders(store) == holders(store, by_glob=True) == all_of(last)


def test_a_commit_whose_files_are_lost_is_replaced(store, monkeypatch):
    """Committed, never placed, and a staged copy is gone: it stops no plan, and a replay takes its
    place, of the lost file alone too.
    """
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        first_commit(store)
    monkeypatch.delenv(faults.VARIABLE)
    files = attempts.committed_manifest(store, ledger_of(store).fold.live[3]).files
    (lost,) = [f for f in files if f.any_offset == (0, 4)]
    store.delete(lost.path)
    failures = []
    placing.roll_forward(store, ledger_of(store), failures)
    assert len(failures) == 1
    again = replay("x", (3, part(4, 10)))
    staged_attempts.seal(store, again)
    assert publish(store, again) == {0: 4}
    failures.clear()
    assert placing.roll_forward(store, ledger_of(store), failures) == [3]
    assert failures == []
    expected = everything(PLAN, again, replaced=LATER_FILE)
    assert holders(store) == holders(store, by_glob=True) == expected


def test_a_replaced_commit_of_a_newer_release_stops_a_plan(store, monkeypatch):
    """Nothing is planned beside what this version cannot read."""
    first_commit(store)
    again = replay("x", (3, part(4, 10)))
    staged_attempts.seal(store, again)
    publish(store, again)

    def too_new(*_):
        raise json_documents.too_new("the manifest of #3", "format 2")

    monkeypatch.setattr(attempts, "committed_manifest", too_new)
    with pytest.raises(OtherFormat):
        placing.roll_forward(store, ledger_of(store))


@pytest.mark.parametrize("placed", [True, False])
def test_a_replaced_file_that_cannot_be_deleted_stops_no_plan(tmp_path, monkeypatch, placed):
    """Two commits are replaced, and the manifest of one is damaged, before or after the publish:
    the next run commits, `repair` names the damage, and what else a late copy put back is deleted.
    """
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 10, 10)})
    ingest(world.run("one"), world.submit())
    world.marks = {0: Watermarks(0, 20, 20)}
    ingest(world.run("two"), world.submit())
    store, fold = LocalStore(world.root / "p"), world.ledger.fold
    first, second = sorted(fold.live)
    damaged, other = (
        attempts.committed_manifest(store, fold.live[n]).files[0] for n in (first, second)
    )
    data = {each.final: store.get(each.final) for each in (damaged, other)}
    for n, start, end in ((first, 0, 10), (second, 10, 20)):
        form = replacement.replaces_to_json([Replaced(n, part(start, end))])
        plan = replace(
            plan_of((part(start, end),)),
            lane="replay",
            cluster_id="cluster",
            replay={"id": str(n), "asked": {}, "replaces": [form]},
        )
        plans.freeze_plan(store, plan.id, plan, 1, note={})
        staged_attempts.seal(store, plan)
        if n == first and not placed:
            monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
            with pytest.raises(faults.FaultInjected):
                publish(store, plan)
            monkeypatch.delenv(faults.VARIABLE)
        else:
            publish(store, plan)
    manifest = Path(store.native(fold.live[first].manifest.path))
    manifest.write_bytes(manifest.read_bytes()[:-1])
    for final, late in data.items():
        Path(store.native(final)).write_bytes(late)
    world.marks = {0: Watermarks(0, 30, 30)}
    assert len(ingest(world.run("three"), world.submit()).commits) == 1
    assert store.size(other.final) is None
    with pytest.raises(LakeDamaged, match=r"manifests/.*was changed"):
        repair_lake(world.run("any").spec, flows.store(world.run("any").spec))


def test_replaced_files_stay_away_after_a_power_loss(store, monkeypatch):
    """The new file has its name before the old one is deleted, and that is durable before the
    marker says that the commit is in place: until then it is done again.
    """
    first_commit(store)
    (old,) = [
        file.final
        for file in attempts.committed_manifest(store, ledger_of(store).fold.live[3]).files
        if file.any_offset[1] == 4
    ]
    again = replay("x", (3, part(4, 10)))
    staged_attempts.seal(store, again)
    fsync, states = local_store.fsync_directory, []

    def noted(where):
        fsync(where)
        new = store.size(old.replace(PLAN.id, again.id)) is not None
        marked = store.size(layout.placed(4)) is not None
        states.append((where.name, store.size(old) is not None, new, marked))

    monkeypatch.setattr(local_store, "fsync_directory", noted)
    publish(store, again)
    gone = next(state for state in states if not state[1])
    assert gone == (Path(old).parent.name, False, True, False)
    assert states[-1][1:] == (False, True, True)


DAY = 24 * 3600


def age(store, path, seconds):
    native = Path(store.native(path))
    was = native.stat().st_mtime
    os.utime(native, (was - seconds, was - seconds))


def test_replaced_files_are_kept_for_a_while(store, tmp_path):
    """A glob shows old and new rows until then, readers by the ledger the new ones; `verify` and
    `repair` know the old files. By the lake's clock, then, the next plan deletes them.
    """
    first_commit(store)
    again = replay("x", (3, part(4, 10)))
    again = replace(again, replay={**again.replay, "keep_replaced": 7 * DAY})
    for plan in (PLAN, again):
        plans.freeze_plan(store, plan.id, plan, 1, note={})
    staged_attempts.seal(store, again)
    publish(store, again)
    spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})
    expected = everything(PLAN, again, replaced=LATER_FILE)

    def globbed():
        return len(list(Path(store.native("data")).rglob("*.parquet")))

    for seconds in (0, 6 * DAY):
        age(store, layout.entry(4), seconds)
        age(store, layout.placed(4), seconds)
        assert placing.roll_forward(store, ledger_of(store)) == []
        assert repair_lake(spec, flows.store(spec)).to_json()["quarantined"] == []
        assert verify(spec, flows.store(spec), None, lambda _: None).first == ()
        assert lake.Checker(lake.Stored(str(store.root))).run() == []
        assert (holders(store), globbed()) == (expected, 4)
    checkpoint_pipeline(spec, flows.store(spec))
    age(store, layout.entry(4), 1 * DAY + 60)
    placing.roll_forward(store, ledger_of(store))
    assert holders(store, by_glob=True) == expected
    age(store, layout.entry(4), DAY)
    placing.roll_forward(store, ledger_of(store))
    assert store.size(layout.cleared(4)) is not None
    assert placing.uncleared_replacements(store, ledger_of(store).fold) == []


def test_each_replacement_keeps_what_it_replaces(store):
    """Of two files of a commit, one is replaced and kept, then the other, which is deleted at once;
    and the commit that keeps its file is replaced itself.
    """
    first_commit(store)
    keeps = replay("x", (3, part(4, 10)))
    keeps = replace(keeps, replay={**keeps.replay, "keep_replaced": DAY})
    others = [replay("y", (3, part(0, 4))), replay("z", (4, part(4, 10)))]
    for plan in (keeps, *others):
        staged_attempts.seal(store, plan)
        publish(store, plan)

    def old():
        return sorted(
            int(each.path.split("-")[-3])
            for each in store.objects("data/")
            if each.path.endswith(f"{PLAN.id}.parquet") and "-00000-" in each.path
        )

    assert old() == [4]
    age(store, layout.entry(4), 2 * DAY)
    placing.roll_forward(store, ledger_of(store))
    assert old() == []
    assert len(holders(store, by_glob=True)) == 13


def test_a_replacer_that_crashed_is_replaced(store, monkeypatch):
    """P, then R that crashed before it took P's files away, then S in the place of R: only S."""
    first_commit(store)
    whole = [part(0, 10), part(0, 3, 1)]
    second, third = replay("r", *((3, r) for r in whole)), replay("s", *((4, r) for r in whole))
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    staged_attempts.seal(store, second)
    with pytest.raises(faults.FaultInjected):
        publish(store, second)
    monkeypatch.delenv(faults.VARIABLE)
    staged_attempts.seal(store, third)
    assert publish(store, third) == {0: 5}
    assert holders(store) == holders(store, by_glob=True) == all_of(third)


def test_two_re_ingests_of_the_same_files_race(store):
    """One wins; the other is refused, and nothing of it is in the lake."""
    first_commit(store)
    one, other = replay("one", (3, part(4, 10))), replay("other", (3, part(4, 10)))
    staged_attempts.seal(store, one)
    staged_attempts.seal(store, other)
    late = ledger_of(store)  # it has seen nothing of the winner
    publish(store, one)
    with pytest.raises(ReplayRefused, match="new id"):
        committing.commit_sealed_chunks(store, late, other, run="other")
    assert (
        holders(store) == holders(store, by_glob=True) == everything(PLAN, one, replaced=LATER_FILE)
    )


def test_the_same_window_with_x_then_y_then_x_again(store):
    """New ids are new plans: three commits, and each time the rows are there once."""
    first_commit(store)
    n = 3
    for number, level in enumerate((1, 3, 1)):
        again = replay(f"id{number}", (n, part(4, 10)))
        again = replace(again, byte_settings={**again.byte_settings, "level": level})
        staged_attempts.seal(store, again)
        (n,) = publish(store, again).values()
        expected = everything(PLAN, again, replaced=LATER_FILE)
        assert holders(store) == holders(store, by_glob=True) == expected
    assert n == 6
    assert sorted(ledger_of(store).fold.live) == [3, 6]


def test_a_chain_of_replays_is_forgotten(store, monkeypatch):
    """One each hour, and the newest is never old: what a plan asks for does not grow with them."""
    first_commit(store)
    n, asked = 3, []
    for number in range(60):
        again = replay(f"id{number}", (n, part(4, 10)))
        staged_attempts.seal(store, again)
        (n,) = publish(store, again).values()
        for each in store.objects("_tidegate/"):
            age(store, each.path, 3600)
        counted = store_requests.count(monkeypatch)
        placing.roll_forward(store, ledger_of(store))
        asked.append(counted["get"])
        monkeypatch.undo()
    assert asked[-1] <= asked[30] + 60  # of the ledger, which has a checkpoint elsewhere
    assert store.size(layout.cleared(10)) is not None


def test_a_finaliser_leaves_what_another_commit_keeps(store):
    first_commit(store)
    again = replay("x", (3, part(4, 10)))
    again = replace(again, replay={**again.replay, "keep_replaced": DAY})
    staged_attempts.seal(store, again)
    publish(store, again)
    placing.finalise(store, ledger_of(store), 3)
    assert len(list(Path(store.native("data")).rglob("*.parquet"))) == 4
