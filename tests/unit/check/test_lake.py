"""The independent checker finds each planted difference by name, and none in a lake as it was made.

Damage is planted in the objects, as a disk, a copy or a person would: no code of Tidegate writes
it.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support import staged_attempts
from tidegate.core import canonical, layout, replacement
from tidegate.core.entries import Gap
from tidegate.core.offsets import OffsetRange
from tidegate.lake import attempts, committing, plans
from tidegate.lake.store import LocalStore
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.pipelines.spec import parse_spec
from tidegate_check import lake as module

CHECKER = Path(module.__file__)


@pytest.fixture
def root(tmp_path):
    """Two commits, a replay of the first, a gap, a checkpoint (1 to 6), and one commit more."""
    store = LocalStore(tmp_path / "p")
    first = publish(store, live(0, 10))
    publish(store, live(10, 20))
    form = replacement.replaces_to_json([replacement.Replaced(first, OffsetRange("t", 0, 0, 10))])
    made = {"id": "again", "asked": {}, "replaces": [form]}
    publish(store, replace(live(0, 10), lane="replay", replay=made))
    gap = Gap("t", "id-t", 0, 20, 30, "expired", "run")
    staged_attempts.ledger_of(store).append(gap, run="run")
    checkpoint_pipeline(
        parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}), store
    )
    publish(store, live(30, 40))
    return tmp_path / "p"


def live(start, end):
    return staged_attempts.plan_of((OffsetRange("t", 0, start, end),))


def publish(store, plan):
    plans.freeze_plan(store, plan.id, plan, 1, note={})
    staged_attempts.seal(store, plan)
    ledger = staged_attempts.ledger_of(store)
    return committing.commit_sealed_chunks(store, ledger, plan, run="run")[0]


def names(root):
    return {each.name for each in module.Checker(module.Stored(str(root))).run()}


def newest(root):
    """The newest data file; its staged copy is the same file by another name, and is deleted."""
    (file,) = (root / "data").rglob("*-0000000000000000030-*.parquet")
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)  # no hard link of the staged copy any more
    return file


def entry(root, n):
    return root / layout.entry(n)


def last_entry(root):
    return max((root / "_tidegate/log").glob("*.json"))


def test_a_lake_as_it_was_made(root):
    """No difference, by the command line, which counts what it has read."""
    run = [sys.executable, "-I", str(CHECKER), str(root)]
    said = subprocess.run(run, capture_output=True, text=True, check=False)
    expected = "7 entries, 4 commits, 3 files, 30 rows, 0 differences\n"
    assert (said.returncode, said.stdout) == (0, expected)
    said = subprocess.run([*run, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(said.stdout) == {
        "format": 1, "entries": 7, "commits": 4, "files": 3, "rows": 30, "differences": []
    }  # fmt: skip


def test_a_directory_without_a_pipeline(tmp_path):
    """Exit 2, and no traceback: an empty directory is no lake that is right."""
    run = [sys.executable, "-I", str(CHECKER), str(tmp_path / "none")]
    said = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.endswith("there is no pipeline of a lake here\n")


def test_it_imports_nothing_of_tidegate():
    """Neither when it is imported nor when it has checked a lake."""
    code = (
        "import sys, tidegate_check.lake as lake\n"
        "lake.main(['/nonexistent'])\n"
        "print([m for m in sys.modules if m.partition('.')[0] == 'tidegate'])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_a_deleted_file(root):
    newest(root).unlink()
    assert names(root) == {"file", "offsets"}


def test_a_truncated_file(root):
    file = newest(root)
    file.write_bytes(file.read_bytes()[:-20])
    assert names(root) == {"file", "offsets"}


def test_a_flipped_byte_in_a_data_page(root):
    """Size and footer are those of the commit; only the page's checksum shows it."""
    file = newest(root)
    content = bytearray(file.read_bytes())
    column = pq.ParquetFile(file).metadata.row_group(0).column(1)  # value
    first_page = column.dictionary_page_offset or column.data_page_offset
    content[first_page + column.total_compressed_size - 3] ^= 1
    file.write_bytes(content)
    assert names(root) == {"file", "offsets"}


def test_a_file_in_the_directory_of_another_day(tmp_path):
    """The documents agree that it lies there; its rows do not."""
    store = LocalStore(tmp_path / "p")
    levels = ["topic", "day(timestamp)"]
    for n, day in enumerate(("1970-01-01", "1970-01-02")):
        plan = live(10 * n, 10 * n + 10)
        plan = replace(plan, byte_settings={**plan.byte_settings, "partition_by": levels})
        plans.freeze_plan(store, plan.id, plan, 1, note={})
        attempt = staged_attempts.stage(store, plan, rows=10, files={})
        r = plan.chunks[0][0]
        staged_attempts.write_file(
            store, attempt.directory, f"topic=t/timestamp_day={day}/part-0.parquet", 0,
            range(r.start, r.end),
        )  # fmt: skip
        attempts.create_manifest(store, staged_attempts.check(store, plan, attempt))
        committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
        assert names(tmp_path / "p") == ({"directory"} if n else set())


def test_an_edited_entry(root):
    path = entry(root, 2)
    path.write_bytes(path.read_bytes().replace(b'"run":"test"', b'"run":"tent"'))
    assert "chain" in names(root)


def test_a_lost_entry(root):
    entry(root, 3).unlink()
    assert "missing" in names(root)


def test_a_lost_last_entry(root):
    """No entry follows that would name it; its marker and its files do."""
    last_entry(root).unlink()
    assert names(root) == {"placed", "unknown"}


def test_a_duplicated_file(root):
    file = newest(root)
    shutil.copy(file, file.with_name(file.name.replace(".parquet", "-1.parquet")))
    assert names(root) == {"unknown"}


def test_a_replaced_file_that_is_back(root):
    """A late copy of an object store may do that: a glob would read these rows twice."""
    commit = json.loads((root / f"_tidegate/log/{3:020d}.json").read_bytes())
    (file,) = json.loads((root / commit["manifest"]["path"]).read_bytes())["files"]
    newest(root).with_name(Path(file["final"]).name).write_bytes(newest(root).read_bytes())
    assert names(root) == {"not-live"}


def test_a_row_removed_from_a_file_whose_manifest_was_edited_to_match(root):
    """The entry has the digest of the manifest."""
    file = newest(root)
    table = pq.read_table(file, partitioning=None).slice(0, 9)
    pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    form = json.loads(last_entry(root).read_bytes())
    manifest = root / form["manifest"]["path"]
    listed = json.loads(manifest.read_bytes())
    tail = int.from_bytes(file.read_bytes()[-8:-4], "little") + 8
    listed["files"][0] |= {
        "parts": [[0, 30, 38, 9]], "size": file.stat().st_size,
        "digest": hashlib.sha256(file.read_bytes()[-tail:]).hexdigest(),
    }  # fmt: skip
    manifest.write_bytes(canonical.encode(listed))
    assert names(root) >= {"manifest", "offsets"}


def test_a_row_removed_and_every_document_edited_to_match(root):
    """Manifest and entry agree with the file: the ranges are one row short."""
    test_a_row_removed_from_a_file_whose_manifest_was_edited_to_match(root)
    path = last_entry(root)
    form = json.loads(path.read_bytes())
    manifest = root / form["manifest"]["path"]
    listed = json.loads(manifest.read_bytes())

    def write():
        manifest.write_bytes(canonical.encode(listed))
        form["manifest"]["sha256"] = canonical.digest(manifest.read_bytes())
        path.write_bytes(canonical.encode(form))

    write()
    assert names(root) >= {"manifest", "offsets"}
    listed["partitions"]["t"]["0"] |= {"rows": 9, "invisible": 1}
    form["topics"]["t"]["ranges"]["0"] = [30, 40, 9, 1]
    write()
    assert "offsets" in names(root)  # a hole that the manifest does not count


def test_an_overlapping_commit_with_a_right_chain(root):
    """A whole, sealed attempt of its own plan, committed by an entry that follows from the last."""
    store = LocalStore(root)
    plan = live(35, 45)
    plans.freeze_plan(store, plan.id, plan, 1, note={})
    seal = staged_attempts.seal(store, plan)
    form = json.loads(last_entry(root).read_bytes())
    made = committing.commit_entry(plan, seal.attempt, seal.accounts, seal.sha256).to_json()
    previous = canonical.digest(last_entry(root).read_bytes())
    n = form["n"] + 1
    store.create(layout.entry(n), canonical.encode({**form, "n": n, "previous": previous, **made}))
    assert names(root) == {"overlap", "tiles"}


def test_a_checkpoint_that_forgets_a_gap(root):
    """Its own digest is right: only the entries show it."""
    (path,) = (root / "_tidegate/checkpoints").glob("*.json")
    form = json.loads(path.read_bytes())
    form["fold"] |= {"gaps": [], "skipped": {}}
    form["sha256"] = canonical.digest(canonical.encode(form["fold"]))
    path.write_bytes(canonical.encode(form))
    assert names(root) == {"checkpoint"}


def test_a_checkpoint_that_forgets_a_replacement(tmp_path):
    """A part of a commit was replaced: with it forgotten, readers would see its rows twice."""
    store = LocalStore(tmp_path / "p")
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 20),))
    plans.freeze_plan(store, plan.id, plan, 1, note={})
    files = {("t", 0): [range(10), range(10, 20)]}
    attempt = staged_attempts.stage(store, plan, files=files)
    attempts.create_manifest(store, staged_attempts.check(store, plan, attempt))
    ledger = staged_attempts.ledger_of(store)
    n = committing.commit_sealed_chunks(store, ledger, plan, run="run")[0]
    form = replacement.replaces_to_json([replacement.Replaced(n, OffsetRange("t", 0, 0, 10))])
    made = {"id": "again", "asked": {}, "replaces": [form]}
    publish(store, replace(live(0, 10), lane="replay", replay=made))
    checkpoint_pipeline(
        parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}), store
    )
    assert names(tmp_path / "p") == set()
    (path,) = (tmp_path / "p/_tidegate/checkpoints").glob("*.json")
    form = json.loads(path.read_bytes())
    form["fold"]["replaced"] = {}
    form["sha256"] = canonical.digest(canonical.encode(form["fold"]))
    path.write_bytes(canonical.encode(form))
    assert names(tmp_path / "p") == {"checkpoint"}


def test_a_lost_ledger(root):
    """Of an egress nothing else may be left that shows it."""
    for path in (root / "_tidegate/log").glob("*.json"):
        path.unlink()
    shutil.rmtree(root / "data")
    shutil.rmtree(root / "_tidegate/checkpoints")
    shutil.rmtree(root / "_tidegate/placed")
    assert names(root) == {"missing"}


@pytest.mark.parametrize("content", [b'{"format":2}', b'{"format":2,"plan_id":[]}'])
def test_a_pointer_of_a_run_that_makes_no_sense(root, content):
    (path, *_) = (root / "_tidegate/runs").rglob("*.json")
    path.write_bytes(content)
    assert names(root) == {"malformed"}


@pytest.mark.parametrize("what", ["_tidegate/plans", "_tidegate/manifests"])
def test_a_lost_document(root, what):
    path = next(p for p in sorted((root / what).rglob("*.json")) if "note" not in p.name)
    path.unlink()
    assert "missing" in names(root)


def test_documents_that_are_no_json(root):
    """Each is named, and the rest is checked: no traceback."""
    found = [
        next((root / "_tidegate/manifests").glob("*.json")),
        next(p for p in (root / "_tidegate/plans").glob("*.json") if "note" not in p.name),
        next((root / "_tidegate/checkpoints").glob("*.json")),
        last_entry(root),
    ]
    for path, content in zip(found, (b"{", b"", b'{"format": 2}', b"[]"), strict=True):
        kept = path.read_bytes()
        path.write_bytes(content)
        differences = module.Checker(module.Stored(str(root))).run()
        named = {each.where for each in differences if each.name == "malformed"}
        assert named == {str(path.relative_to(root))}
        path.write_bytes(kept)
