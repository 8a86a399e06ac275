"""Checkpoints: a fold that was written down goes on like the one that was folded."""

import json
from dataclasses import fields, replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from support import staged_attempts
from tidegate import flows
from tidegate.core import canonical, checkpoint, layout
from tidegate.core.entries import (
    Abandon,
    Account,
    Adoption,
    Claim,
    Commit,
    Decoded,
    Gap,
    Origin,
    Receipt,
    Reference,
    Release,
)
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.judge import Accepted, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.replacement import Replaced
from tidegate.errors import LakeUnavailable, LedgerCorrupt
from tidegate.lake import checkpointing, checkpoints, committed_files, committing, placing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore, ObjectStore
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline as write_checkpoint
from tidegate.pipelines.spec import parse_spec

FILE = SourceFile("a.csv", 1, "e1", 3)
OTHER = SourceFile("b.csv", 2, "e2")
BAD = (LeftOutFile("a.csv", "row 1"),)


def commit(plan, start, end, *, chunk=0, partition=0, lane="live", topic_id="id-t"):
    accounts = {"t": {partition: Account(start, end, end - start, 0)}}
    return Commit(
        lane, plan, "sha", chunk, f"attempt-{plan}", "cluster", {"t": topic_id}, accounts,
        Reference("manifest", "sha"), (Receipt("out", "id-out", 0, 1, 4, 3, 0),),
    )  # fmt: skip


def replacing(plan, n, start, end, partition=0):
    """A commit that takes the place of a part of commit `n`."""
    part = OffsetRange("t", partition, start, end)
    made = commit(plan, start, end, partition=partition, lane="replay")
    return replace(made, replaces=(Replaced(n, part),))


def claim(plan, *files, **others):
    form = {
        "lane": "live", "plan_id": plan, "attempt": f"a-{plan}", "sender": {"pid": 7},
        "files": files, "topic_ids": {}, "window": (), "target": {"out": {0: 1, 11: 2}},
        "spark": "4.0",
    }  # fmt: skip
    return Claim(**{**form, **others})


EVERYTHING = (
    Origin("t", "id-t", {0: 0, 11: 3}),
    commit("p", 0, 10),
    replace(commit("q", 20, 30, chunk=2), decoded={"t": Decoded("d1", {"value: a: no INT": 3})}),
    Gap("t", "id-t", 0, 10, 15, "expired", "run"),
    Abandon("p", 1, "x"),
    replacing("r", 2, 0, 4),
    claim("c1", FILE, root="file:///in"),
    replace(commit("c1", 40, 41), columns=(("id", "string"),)),
    claim("c2", OTHER, topic_ids={"s": "id-s"}, window=(OffsetRange("s", 1, 2, 9),)),
    claim("c3", SourceFile("bad.csv", 9, "e3")),
    Release("c3", "a-c3", "nothing sent", "1 file", (LeftOutFile("bad.csv", "row 1"),), "j"),
    claim("c4", lane="replay", topic_ids={"s": "id-s"}, window=(OffsetRange("s", 1, 2, 9),)),
    Release("c4", "a-c4", "declare sent", "looked"),
    claim("c5", SourceFile("again.csv", 9, "e5")),
    Release("c5", "a-c5", "resend", "looked"),
    Origin("t", "new", {0: 5}, Adoption("id-t", "moved", "ann")),
)


def fold_of(entries):
    fold = Fold()
    for i, entry in enumerate(entries):
        assert judge(fold, entry) == Accepted(), entry
        fold.apply(entry, f"digest-{i}")
    return fold


def read_back(fold):
    """Write a fold as documents, and read them."""
    head = json.loads(canonical.encode(checkpoint.fold_head(fold)))
    lines = checkpoint.commit_lines(fold)
    return checkpoint.fold_of(head, lambda: lines)


def test_every_field_is_written_and_read():
    """Whoever adds a field to the fold must give it a form, and a value here."""
    fold, fresh = fold_of(EVERYTHING), Fold()
    again = read_back(fold)
    written = set()
    for kept, new, read in ((fold, fresh, again), (fold.egress, fresh.egress, again.egress)):
        for each in fields(kept):
            value = getattr(kept, each.name)
            assert value != getattr(new, each.name), (
                f"{each.name}: let an entry of EVERYTHING fill it"
            )
            assert getattr(read, each.name) == value, each.name
            assert read != replace(kept, **{each.name: object()}) or not each.compare, each.name
            written.add(each.name)
    assert set(checkpoint.FORMS) == written - {"egress"}


def test_the_empty_fold():
    assert read_back(Fold()) == Fold()


spans = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda s: (s[0], s[0] + s[1]))
plans = st.sampled_from("pqrs")
entries = st.one_of(
    st.builds(
        lambda plan, span, chunk, p, lane: commit(
            plan, *span, chunk=chunk, partition=p, lane=lane
        ),
        plans, spans, st.integers(0, 2), st.integers(0, 1), st.sampled_from(["live", "replay"]),
    ),
    st.builds(lambda plan, n, span, p: replacing(f"r{plan}", n, *span, p),  # type: ignore[call-arg]
              plans, st.integers(1, 8), spans, st.integers(0, 1)),
    st.builds(lambda span, p: Gap("t", "id-t", p, *span, "expired", "run"), spans,  # type: ignore[call-arg]
              st.integers(0, 1)),
    st.builds(Abandon, plans, st.integers(0, 2), st.sampled_from(["x", "attempt-p"])),
    st.builds(
        lambda topic_id, adopts: Origin("t", topic_id, {0: 0, 1: 4}, adopts),
        st.sampled_from(["id-t", "new"]),
        st.sampled_from([None, Adoption("id-t", "", ""), Adoption("new", "", "")]),
    ),
    st.builds(lambda plan, file: claim(plan, file), plans, st.sampled_from([FILE, OTHER])),
    st.builds(lambda plan, how: Release(plan, f"a-{plan}", how, "", BAD, "j"), plans,
              st.sampled_from(["nothing sent", "resend", "declare sent"])),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(entries, max_size=25), st.integers(0, 25), st.integers(0, 25))
def test_a_checkpoint_and_its_tail_are_the_whole(history, first, second):
    """fold(checkpoint, tail) == fold(all), also from a checkpoint of a checkpoint; and what comes
    of any further entry is the same.
    """
    whole = fold_of([Origin("t", "id-t", {0: 0, 1: 3})])
    kept = fold_of([Origin("t", "id-t", {0: 0, 1: 3})])
    for i, entry in enumerate(history):
        if i in (first, second):
            kept = read_back(kept)
        verdict = judge(whole, entry)
        assert judge(kept, entry) == verdict
        if verdict == Accepted():
            whole.apply(entry, f"digest-{i}")
            kept.apply(entry, f"digest-{i}")
    assert kept == whole
    assert whole == kept
    assert read_back(kept) == whole
    assert checkpoint.commit_lines(kept) == checkpoint.commit_lines(whole)
    window = (OffsetRange("t", 0, 0, 40),)
    assert kept.commits_over(window, kept.topic_ids) == whole.commits_over(window, whole.topic_ids)


def test_a_commit_is_parsed_when_it_is_asked_for():
    """Its lines are loaded once, and not at all for numbers, additions and removals."""
    fold = fold_of(EVERYTHING[:3])
    calls = []

    def load():
        calls.append(1)
        return checkpoint.commit_lines(fold)

    live = checkpoint.fold_of(checkpoint.fold_head(fold), load).live
    live[9] = commit("z", 50, 60)
    assert (list(live), len(live), max(live)) == ([2, 3, 9], 3, 9)
    assert (2 in live, 4 in live) == (True, False)
    assert live[9].plan_id == "z"
    del live[3]
    assert calls == []
    assert dict(live) == {2: fold.live[2], 9: live[9]}
    assert calls == [1]
    with pytest.raises(KeyError):
        live[3]


# In the lake


@pytest.fixture(params=["directory", "bucket"])
def store(request, tmp_path):
    if request.param == "directory":
        return LocalStore(tmp_path / "p")
    return ObjectStore("memory:///p", MemoryStore())


def grown(store, count, *, start=0):
    """Append that many commits to the ledger of p."""
    ledger = Ledger(store, "p")
    if not ledger.fold.n:
        ledger.append(Origin("t", "id-t", {0: 0}), run="run")
    for i in range(start, start + count):
        ledger.append(commit(f"plan-{i}", i, i + 1), run="run")
    return ledger


def write(store, ledger):
    waiting = placing.unplaced_commits(store, ledger.fold)
    return checkpoints.write_checkpoint(store, "p", ledger.fold, unsettled=waiting)


def names(store):
    return [name.lstrip("0") for name in store.names(layout.CHECKPOINTS)]


def test_opening_reads_one_checkpoint_and_the_entries_after_it(store, monkeypatch):
    """And nothing else, until somebody asks for a commit; the fold is the whole one."""
    ledger = grown(store, 20)
    write(store, ledger)
    grown(store, 3, start=20)
    whole = Ledger(store, "p", whole=True).fold
    assert (whole.n, len(whole.live)) == (24, 23)
    read = []
    get = type(store).get
    monkeypatch.setattr(type(store), "get", lambda self, path: read.append(path) or get(self, path))
    opened = Ledger(store, "p")
    assert opened.checkpoint == 21
    assert read == [
        layout.checkpoint(21), layout.entry(21), *(layout.entry(n) for n in (22, 23, 24, 25)),
    ]  # fmt: skip
    assert opened.fold.cursors("t") == {0: 23}
    assert opened.append(commit("plan-23", 23, 24), run="run").n == 25
    assert layout.checkpoint_commits(21) not in read
    assert opened.fold.live[5] == whole.live[5]
    assert layout.checkpoint_commits(21) in read
    whole = Ledger(store, "p", whole=True).fold
    assert (opened.fold, opened.fold.digest) == (whole, whole.digest)


def test_a_checkpoint_is_the_same_from_every_process(store):
    """From a checkpoint and a tail, or from all entries: byte for byte."""
    write(store, grown(store, 5))
    grown(store, 2, start=5)
    write(store, Ledger(store, "p"))
    paths = (layout.checkpoint(8), layout.checkpoint_commits(8))
    made = [store.get(path) for path in paths]
    for path in paths:
        store.delete(path)
    write(store, Ledger(store, "p", whole=True))
    assert [store.get(path) for path in paths] == made


def test_the_newest_three_stay(store):
    """A reader that has opened the one before may still ask for its commits. Lines to which a
    killed writer never wrote the head go with the older ones.
    """
    store.create(layout.checkpoint_commits(1), b"")
    for i in range(5):
        ledger = grown(store, 1, start=i)
        write(store, ledger)
    assert names(store) == ["4.commits", "4.json", "5.commits", "5.json", "6.commits", "6.json"]
    assert Ledger(store, "p").checkpoint == 6


def test_a_reader_that_sleeps_past_three_reads_the_entries(store):
    write(store, grown(store, 1))
    paused = Ledger(store, "p")
    for i in range(1, 5):
        write(store, grown(store, 1, start=i))
    assert dict(paused.fold.live)[2] == Ledger(store, "p").fold.live[2]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format": 2, "pipeline": "q"}'])
def test_one_that_cannot_be_read_is_passed_over(store, data):
    """It can always be made again: the one before is taken, or the whole ledger read."""
    write(store, grown(store, 2))
    ledger = grown(store, 2, start=2)
    store.create(layout.checkpoint(5), data)
    assert Ledger(store, "p").checkpoint == 3
    assert Ledger(store, "p").fold == ledger.fold


def test_one_that_was_changed_is_passed_over(store):
    """A digit that flipped would let the next run skip rows: the ledger itself is read then."""
    ledger = grown(store, 4)
    write(store, ledger)
    data = store.get(layout.checkpoint(5))
    store.delete(layout.checkpoint(5))
    assert data.count(b'"covered":{"id-t":{"0":[[0,4]]}}') == 1
    store.create(layout.checkpoint(5), data.replace(b"[[0,4]]", b"[[0,9]]"))
    assert Ledger(store, "p").checkpoint == 0
    assert Ledger(store, "p").fold == ledger.fold


def test_one_of_a_newer_release_is_passed_over(store):
    """It may hold what only an entry says that this version refuses: the ledger is read."""
    ledger = grown(store, 4)
    head = {**checkpoint.fold_head(ledger.fold), "added_later": {}}
    with pytest.raises(ValueError, match="added_later"):
        checkpoint.fold_of(head, lambda: b"")


def test_lines_that_are_not_the_ledgers(store):
    """Left by a killed writer of another release: written anew."""
    ledger = grown(store, 2)
    store.create(layout.checkpoint_commits(3), b"other")
    write(store, ledger)
    assert Ledger(store, "p").checkpoint == 3
    assert Ledger(store, "p").fold == ledger.fold


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_lines_that_cannot_be_read_stop_no_command(store, damage):
    """The entries hold all that they did."""
    ledger = grown(store, 4)
    write(store, ledger)
    path = layout.checkpoint_commits(5)
    data = store.get(path)
    store.delete(path)
    if damage == "changed":
        store.create(path, data.replace(b"live", b"evil"))
    opened = Ledger(store, "p")
    assert opened.checkpoint == 5
    assert opened.fold == ledger.fold
    assert dict(opened.fold.live) == dict(ledger.fold.live)


def test_strange_names_beside_them(store):
    """A copy by hand, or what another system leaves beside a file, stops no command."""
    write(store, grown(store, 2))
    for name in ("._00000000000000000003.json", "copy.json", "notes.txt"):
        store.create(layout.CHECKPOINTS + name, b"?")
    assert Ledger(store, "p").checkpoint == 3


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_ledger_that_is_not_the_one_of_the_checkpoint(store, damage):
    """Rolled back, or exchanged: refused by name, as without a checkpoint."""
    write(store, grown(store, 4))
    data = store.get(layout.entry(5))
    store.delete(layout.entry(5))
    if damage == "changed":
        store.create(layout.entry(5), data.replace(b'"run":"run"', b'"run":"ruN"'))
    with pytest.raises(LedgerCorrupt, match="entry 5") as refused:
        Ledger(store, "p")
    assert refused.value.numbers == {"entry": 5}


def test_a_missing_entry_after_the_checkpoint(store):
    write(store, grown(store, 2))
    grown(store, 3, start=2)
    store.delete(layout.entry(5))
    with pytest.raises(LedgerCorrupt, match="entry 6 was there"):
        Ledger(store, "p")


def test_what_is_in_place_is_not_looked_for_again(tmp_path):
    """A checkpoint keeps which commits were not in place; those are found, and the newer ones."""
    store = LocalStore(tmp_path / "p")
    for i, place in enumerate([True, False, True]):
        plan = staged_attempts.plan_of((OffsetRange("t", 0, i, i + 1),))
        seal = staged_attempts.seal(store, plan)
        ledger = staged_attempts.ledger_of(store)
        n = committing.commit(store, ledger, plan, seal, run="run").n
        if place:
            placing.finalise(store, ledger, n)
    write(store, Ledger(store, "p"))
    opened = Ledger(store, "p").fold
    assert opened.unsettled == {4}
    assert placing.unplaced_commits(store, opened) == [4]
    assert placing.roll_forward(store, Ledger(store, "p")) == [4]
    assert placing.unplaced_commits(store, Ledger(store, "p").fold) == []
    live = committed_files.live_files(store, Ledger(store, "p").fold)
    assert [each["commit"] for each in live] == [3, 4, 5]


def test_written_only_when_there_is_something_new(tmp_path):
    """The use case: what was read for it, and its size."""
    spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})
    store = LocalStore(tmp_path / "p")
    grown(store, 9)
    first = write_checkpoint(spec, flows.store(spec))
    size = sum(each.size for each in store.objects(layout.CHECKPOINTS))
    assert (first.entry, first.read, first.bytes) == (10, 10, size)
    again = write_checkpoint(spec, flows.store(spec))
    assert (again.read, again.bytes) == (0, 0)
    assert names(store) == ["10.commits", "10.json"]


def test_a_publish_makes_one_when_it_is_due(store, monkeypatch):
    """Counted from the newest one, also by a process that goes on with the same ledger."""
    monkeypatch.setattr(checkpointing, "DUE", 4)
    ledger = grown(store, 2)
    checkpointing.make_if_due(store, "p", ledger)
    assert names(store) == []
    ledger = grown(store, 1, start=2)
    for _ in range(2):
        checkpointing.make_if_due(store, "p", ledger)
        assert names(store) == ["4.commits", "4.json"]
    checkpointing.make_if_due(store, "p", grown(store, 3, start=3))
    assert names(store) == ["4.commits", "4.json"]
    checkpointing.make_if_due(store, "p", grown(store, 1, start=6))
    assert names(store) == ["4.commits", "4.json", "8.commits", "8.json"]
    assert Ledger(store, "p").fold == Ledger(store, "p", whole=True).fold


def test_one_that_cannot_be_written_fails_no_run(store, monkeypatch, caplog):
    monkeypatch.setattr(checkpointing, "DUE", 4)

    def refuse(*_):
        raise LakeUnavailable("the disk is full")

    ledger = grown(store, 3)
    monkeypatch.setattr(type(store), "create", refuse)
    checkpointing.make_if_due(store, "p", ledger)
    assert "p: no checkpoint could be written: the disk is full" in caplog.text


def test_lines_that_were_read_are_written_unparsed():
    """Else a checkpoint of 10,000 live commits would take seconds."""
    fold = fold_of(EVERYTHING[:3])
    written = checkpoint.commit_lines(fold)
    again = checkpoint.fold_of(checkpoint.fold_head(fold), lambda: written)
    again.live[9] = commit("z", 50, 60)
    parsed = again.live._commits
    assert checkpoint.commit_lines(again).split(b"\n")[:-1] == written.split(b"\n")
    assert [n for n, each in parsed.items() if each] == [9]
    again.live[3] = commit("y", 20, 30)
    assert b"attempt-y" in checkpoint.commit_lines(again)


@pytest.mark.slow
def test_a_ledger_of_100_000_entries_opens_without_reading_them(tmp_path):
    """Four partitions in each commit; the names of all entries and markers are there.

    At most the last entry is read, and no commit is parsed before it is asked for. (A bound in
    seconds, or by the CPU of other work, failed in a busy worker.)
    """
    store = LocalStore(tmp_path / "p")
    fold = Fold()
    fold.apply(Origin("t", "id-t", dict.fromkeys(range(4), 0)), "digest")
    manifest = Reference("_tidegate/manifests/" + "x" * 40, "ab" * 32)
    for i in range(99_999):
        accounts = {"t": {p: Account(10 * i, 10 * i + 10, 10, 0) for p in range(4)}}
        plan = f"{i:016x}"
        entry = Commit(
            "live", plan, plan * 4, 0, plan, "cluster", {"t": "id-t"}, accounts, manifest
        )
        fold.apply(entry, "digest")
    for directory in (layout.LOG, layout.PLACED):
        Path(store.native(directory)).mkdir(parents=True)
    for n in range(1, 100_001):
        Path(store.native(layout.entry(n))).touch()
        Path(store.native(layout.placed(n))).touch()
    last = canonical.encode({"the": "last"})
    Path(store.native(layout.entry(100_000))).write_bytes(last)
    fold.digest = canonical.digest(last)
    size = checkpoints.write_checkpoint(store, "p", fold, unsettled=[])
    read: list[str] = []
    get = LocalStore.get
    with mock.patch.object(LocalStore, "get", lambda at, path: read.append(path) or get(at, path)):
        ledger = Ledger(store, "p")
        assert ledger.fold.n == 100_000
        assert ledger.fold.covered["id-t", 3] == Intervals(((0, 999_990),))
        assert placing.unplaced_commits(store, ledger.fold) == []
    entries = {layout.entry(n) for n in range(1, 100_001)}
    print(f"{size / 1e6:.1f} MB, read {read}")
    assert len(entries.intersection(read)) <= 1
    assert not any(ledger.fold.live._commits.values())
    assert ledger.fold.live[77].rows == 40
    assert sum(map(bool, ledger.fold.live._commits.values())) == 1
