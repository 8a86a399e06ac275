"""Repair: what crashed is placed, strangers leave `data/`, the ledger is only read."""

from pathlib import Path

import pytest

from support import staged_attempts
from tidegate import faults, flows
from tidegate.core import layout
from tidegate.core.offsets import OffsetRange
from tidegate.errors import LakeDamaged
from tidegate.lake import committing
from tidegate.lake.store import LocalStore
from tidegate.maintenance.repair import repair_lake
from tidegate.pipelines.spec import parse_spec


@pytest.fixture
def spec(tmp_path):
    return parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})


@pytest.fixture
def store(tmp_path):
    """One commit of t-0 and t-1, in place."""
    store = LocalStore(tmp_path / "p")
    publish(store, 0, 10)
    return store


def publish(store, start, end):
    plan = staged_attempts.plan_of(
        (OffsetRange("t", 0, start, end), OffsetRange("t", 1, start, end))
    )
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")


def tree(store):
    return {each.path: each.size for each in store.objects("")}


def test_a_healthy_lake_is_left_alone(spec, store):
    before = tree(store)
    assert repair_lake(spec, flows.store(spec)).to_json() == {
        "format": 1,
        "pipeline": "p",
        "placed": [],
        "quarantined": [],
    }
    assert tree(store) == before


def test_unplaced_commits_are_placed(spec, store, monkeypatch):
    """The publisher was killed between the two files of its commit."""
    monkeypatch.setenv(faults.VARIABLE, "publish.finalising:raise")
    with pytest.raises(faults.FaultInjected):
        publish(store, 10, 20)
    monkeypatch.delenv(faults.VARIABLE)
    assert len(store.objects(layout.DATA)) == 3
    found = repair_lake(spec, flows.store(spec)).to_json()
    assert (found["placed"], found["quarantined"]) == ([4], [])
    assert len(store.objects(layout.DATA)) == 4
    assert repair_lake(spec, flows.store(spec)).to_json()["placed"] == []


def test_strangers_are_quarantined(spec, store):
    """Copied in by hand, or left by a restore: moved under their names, bytes and all; the files
    of commits and the ledger stay.
    """
    before = tree(store)
    (real, *_) = (each.path for each in store.objects(layout.DATA))
    copy = real.replace(".parquet", "-1.parquet")
    strangers = {copy: Path(store.native(real)).read_bytes(), "data/topic=t/notes.txt": b"hello"}
    for path, data in strangers.items():
        Path(store.native(path)).write_bytes(data)
    moved = repair_lake(spec, flows.store(spec)).to_json()["quarantined"]
    assert {each["from"]: each["bytes"] for each in moved} == {
        store.uri(path): len(data) for path, data in strangers.items()
    }
    after = tree(store)
    new = after.keys() - before.keys()
    assert before.items() <= after.items()
    assert {path.split("/", 3)[3]: store.get(path) for path in new} == strangers
    assert all(path.startswith(layout.QUARANTINE) for path in new)
    assert repair_lake(spec, flows.store(spec)).to_json()["quarantined"] == []


def test_the_same_stranger_again(spec, store):
    """It does not meet the one that was moved before."""
    for data in (b"one", b"two"):
        Path(store.native("data/x.parquet")).write_bytes(data)
        repair_lake(spec, flows.store(spec))
    kept = [store.get(each.path) for each in store.objects(layout.QUARANTINE)]
    assert sorted(kept) == [b"one", b"two"]


def test_a_commit_while_it_works_loses_nothing(spec, store, monkeypatch):
    """One is published just before `data/` is listed, one between that and the reading of the
    ledger.
    """
    objects = LocalStore.objects

    def then_publish(self, prefix):
        if prefix != layout.DATA:
            return objects(self, prefix)
        monkeypatch.setattr(LocalStore, "objects", objects)
        publish(store, 10, 20)
        found = objects(self, prefix)
        publish(store, 20, 30)
        return found

    monkeypatch.setattr(LocalStore, "objects", then_publish)
    assert repair_lake(spec, flows.store(spec)).to_json()["quarantined"] == []
    assert len(store.objects(layout.DATA)) == 6


def test_a_manifest_that_cannot_be_read_stops_it(spec, store):
    """Whose files are whose is not known then: nothing is moved."""
    Path(store.native("data/x.parquet")).write_bytes(b"")
    (manifest,) = store.objects("_tidegate/manifests/")
    Path(store.native(manifest.path)).write_text("{}")
    before = tree(store)
    with pytest.raises(LakeDamaged, match="was changed"):
        repair_lake(spec, flows.store(spec))
    assert tree(store) == before


def test_a_run_that_plans_the_same_again_keeps_its_files(spec, store, monkeypatch):
    """The ledger was rolled back, the data was not. While its files are taken away as strangers,
    the same plan is committed anew, under the same names: none of its files is missing at the end.
    """
    for directory in (layout.LOG, layout.PLACED, "_tidegate/manifests/"):
        for each in store.objects(directory):
            store.delete(each.path)
    names = [each.path for each in store.objects(layout.DATA)]
    place = LocalStore.place

    def then_publish(self, source, target, size):
        place(self, source, target, size)
        if target.startswith(layout.QUARANTINE):
            monkeypatch.setattr(LocalStore, "place", place)
            publish(store, 0, 10)

    monkeypatch.setattr(LocalStore, "place", then_publish)
    found = repair_lake(spec, flows.store(spec)).to_json()
    assert [each["from"] for each in found["quarantined"]] == list(map(store.uri, names))
    assert found["placed"] == [3]
    assert [each.path for each in store.objects(layout.DATA)] == names
    assert repair_lake(spec, flows.store(spec)).to_json() == {
        "format": 1,
        "pipeline": "p",
        "placed": [],
        "quarantined": [],
    }


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_committed_file_is_placed_again(spec, store, damage):
    """While its staged copy is there, which the sweeper keeps for that; what was cut is kept."""
    before = tree(store)
    (first, _) = store.objects(layout.DATA)
    final = Path(store.native(first.path))
    final.unlink()
    if damage == "cut":
        final.write_bytes(b"PAR1")
    found = repair_lake(spec, flows.store(spec)).to_json()
    assert found["placed"] == [3]
    assert [each["bytes"] for each in found["quarantined"]] == ([] if damage == "gone" else [4])
    assert before.items() <= tree(store).items()
    assert repair_lake(spec, flows.store(spec)).to_json()["placed"] == []


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_committed_file_without_a_copy_is_named(spec, store, damage):
    """When all else is done; and what is left of it stays where it is."""
    for each in store.objects(layout.STAGING):
        store.delete(each.path)
    (first, _) = store.objects(layout.DATA)
    final = Path(store.native(first.path))
    final.unlink()
    if damage == "cut":
        final.write_bytes(b"PAR1")
    Path(store.native("data/x.parquet")).write_bytes(b"")
    with pytest.raises(LakeDamaged, match=rf"{final.name} is not the file that commit #3 lists"):
        repair_lake(spec, flows.store(spec))
    assert store.size("data/x.parquet") is None
    assert store.size(first.path) == (4 if damage == "cut" else None)
