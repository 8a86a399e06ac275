"""Verify: what was edited in a ledger or a checkpoint is found, digests that are right or not."""

import json
import resource
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import ingest_world, staged_attempts
from support.ingest_steps import ingest
from support.kafka_answers import answer
from tidegate import flows
from tidegate.core import canonical, layout, replacement
from tidegate.core.cluster_answers import Record, Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Gap
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError
from tidegate.ingest import verify as module
from tidegate.ingest.verify import verify
from tidegate.lake import attempts, committing, plans
from tidegate.lake.store import LocalStore
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.findings import Findings


@pytest.fixture
def spec(tmp_path):
    return parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})


@pytest.fixture
def store(tmp_path):
    """Two commits, a replay of the first one, a commit and a checkpoint: entries 1 to 6."""
    store = LocalStore(tmp_path / "p")
    first = publish(store, live(0, 10))
    publish(store, live(10, 20))
    form = replacement.replaces_to_json([replacement.Replaced(first, OffsetRange("t", 0, 0, 10))])
    made = {"id": "again", "asked": {}, "replaces": [form]}
    publish(store, replace(live(0, 10), lane="replay", replay=made))
    publish(store, live(20, 30))
    return store


def live(start, end):
    return staged_attempts.plan_of((OffsetRange("t", 0, start, end),))


def publish(store, plan):
    plans.freeze_plan(store, plan.id, plan, 1, note={})
    staged_attempts.seal(store, plan)
    ledger = staged_attempts.ledger_of(store)
    return committing.commit_sealed_chunks(store, ledger, plan, run="run")[0]


def findings(spec):
    found = verify(spec, flows.store(spec), None, lambda _: None).to_json()
    assert len(found["first"]) == min(found["differences"], 20)
    return found["first"]


def rewrite(store, path, change):
    """Change a document, and write it as canonically as it was."""
    file = Path(store.native(path))
    form = json.loads(file.read_bytes())
    change(form)
    file.write_bytes(canonical.encode(form))


def test_a_healthy_lake(spec, store):
    """Also with a checkpoint, a gap at its end, and swept."""
    assert findings(spec) == []
    checkpoint_pipeline(spec, flows.store(spec))
    ledger = staged_attempts.ledger_of(store)
    ledger.skip(Gap("t", "id-t", 0, 40, 50, "poison", "ann"), run="cli")
    assert findings(spec) == []
    publish(store, live(30, 40))
    checkpoint_pipeline(spec, flows.store(spec))
    assert findings(spec) == []


def account(form):
    return form["topics"]["t"]["ranges"]["0"]


EDITS = {
    "a range widened by ten offsets": lambda f: account(f).__setitem__(1, 40),
    "a range widened, with an account that adds up": lambda f: account(f).__setitem__(
        slice(None), [20, 40, 10, 10]
    ),
    "more rows": lambda f: account(f).__setitem__(slice(None), [20, 30, 11, -1]),
    "the digest of its plan": lambda f: f["plan"].update(sha256="0" * 64),
    "the lane": lambda f: f.update(lane="backfill"),
    "the cluster": lambda f: f.update(cluster_id="another"),
    "the topic id": lambda f: f["topics"]["t"].update(topic_id="another"),
    "the chunk": lambda f: f.update(chunk=1),
    "the attempt": lambda f: f.update(attempt="another"),
    "the manifest": lambda f: f["manifest"].update(sha256="0" * 64),
    "what it replaces": lambda f: f.update(
        replaces=[{"commit": 4, "ranges": {"t": {"0": [[20, 30]]}}}]
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_last_entry(spec, store, edit):
    """No later entry has its digest: its plan and its manifest give it away."""
    rewrite(store, layout.entry(6), EDITS[edit])
    assert any(each.get("commit") == 6 or each.get("entry") == 6 for each in findings(spec))


def test_an_account_is_that_of_the_manifest(spec, store):
    """A row counted as invisible: the files say otherwise, and so does the proof of the attempt."""
    rewrite(store, layout.entry(6), lambda f: account(f).__setitem__(slice(None), [20, 30, 9, 1]))
    said = [each["what"] for each in findings(spec)]
    assert said == [
        "the entry does not have the accounts of its manifest",
        "the entry does not have the rows of its files",
        "10 rows, the commit says 9",
    ]


def test_a_last_entry_that_could_not_have_been_made(spec, store):
    """A gap that was moved over committed offsets: there is no plan of it, but the rules."""
    staged_attempts.ledger_of(store).skip(Gap("t", "id-t", 0, 40, 50, "poison", "ann"), run="cli")
    assert findings(spec) == []
    rewrite(store, layout.entry(7), lambda form: form.update(start=25))
    (found,) = findings(spec)
    assert found["entry"] == 7
    assert "may not follow" in found["what"]


@pytest.mark.parametrize("lost", ["plan", "manifest"])
def test_what_a_replaced_commit_was_made_of(spec, store, lost):
    """It is the proof of what the lake once held, and replays read it: each commit is looked at."""
    entry = json.loads(store.get(layout.entry(3)))
    path = {
        "plan": layout.plan(entry["plan"]["id"]),
        "manifest": entry["manifest"]["path"],
    }[lost]
    store.delete(path)
    assert [each["commit"] for each in findings(spec)] == [3]


FOLDS = {
    "more is covered": lambda f: f["covered"]["id-t"].update({"0": [[0, 40]]}),
    "less is covered": lambda f: f["covered"]["id-t"].update({"0": [[0, 20]]}),
    "a live commit is missing": lambda f: f.update(live=[[4, 6]]),
    "a replaced commit lives": lambda f: f.update(live=[[3, 7]]),
    "a committed chunk is not known": lambda f: f["committed"].pop(),
    "an origin": lambda f: f["origins"]["id-t"].update({"0": 5}),
    "the digest of the last entry": lambda f: f.update(digest="0" * 64),
    "another number": lambda f: f.update(n=5),
    "a gap": lambda f: f["skipped"].update({"id-t": {"0": [[50, 60]]}}),
    "a field is missing": lambda f: f.pop("abandoned"),
}


@pytest.mark.parametrize("edit", FOLDS)
def test_a_checkpoint_with_a_wrong_fold_and_a_right_digest(spec, store, edit):
    """Whoever opens the ledger believes it: it is held against the sum of the entries."""
    checkpoint_pipeline(spec, flows.store(spec))

    def change(form):
        FOLDS[edit](form["fold"])
        form["sha256"] = canonical.digest(canonical.encode(form["fold"]))

    rewrite(store, layout.checkpoint(6), change)
    found = findings(spec)
    assert {each["checkpoint"] for each in found} == {6}
    assert "delete it" in found[0]["what"]


def test_a_checkpoint_whose_commits_are_others(spec, store):
    """Their digest in the head is right, and they are not those of the ledger."""
    checkpoint_pipeline(spec, flows.store(spec))
    lines = Path(store.native(layout.checkpoint_commits(6)))
    lines.write_bytes(lines.read_bytes().replace(b"[20,30,10,0]", b"[20,30,11,0]"))
    rewrite(
        store,
        layout.checkpoint(6),
        lambda form: form["commits"].update(sha256=canonical.digest(lines.read_bytes())),
    )
    assert {each["checkpoint"] for each in findings(spec)} == {6}


def test_a_checkpoint_that_forgets_what_is_not_in_place(spec, store):
    """The next plans would never place it: it looks as if all were."""
    store.delete(layout.placed(6))
    checkpoint_pipeline(spec, flows.store(spec))
    assert findings(spec) == []

    def forget(form):
        form["fold"]["waiting"] = []
        form["sha256"] = canonical.digest(canonical.encode(form["fold"]))

    rewrite(store, layout.checkpoint(6), forget)
    (found,) = findings(spec)
    assert "#6" in found["what"]


def test_a_checkpoint_of_a_longer_ledger(spec, store):
    """The ledger was rolled back."""
    checkpoint_pipeline(spec, flows.store(spec))
    store.delete(layout.entry(6), layout.placed(6))
    assert {"checkpoint": 6} in [
        {k: v for k, v in each.items() if k == "checkpoint"} for each in findings(spec)
    ]


@pytest.mark.parametrize("text", [b"{}", b"[]", b"no JSON", b""])
def test_a_checkpoint_that_cannot_be_read(spec, store, text):
    """Opening the ledger skips it; the audit reports it."""
    checkpoint_pipeline(spec, flows.store(spec))
    Path(store.native(layout.checkpoint(6))).write_bytes(text)
    assert [each["checkpoint"] for each in findings(spec)] == [6]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """One commit of t-0 and t-1, and a broker that shows no record to `verify`."""
    world = ingest_world.make(
        tmp_path, monkeypatch, {0: Watermarks(0, 10, 10), 1: Watermarks(0, 5, 5)}
    )
    ingest(world.run("one"), world.submit())
    answer(monkeypatch, survey=world.survey)
    answer(monkeypatch, reading=lambda _: nullcontext(lambda *_: iter(())))
    return world


def against_kafka(world, said):
    run = world.run("any")
    return verify(run.spec, flows.store(run.spec), run.kafka, said.append).to_json()


def test_rows_without_a_leader_have_not_expired(world):
    """Nothing is compared, and nothing is called clean: it can be compared later."""
    world.leaderless = {0, 1}
    with pytest.raises(BrokerError, match="t-0, t-1 have no leader now") as failed:
        against_kafka(world, [])
    assert failed.value.numbers == {"partitions": ["t-0", "t-1"]}


def test_what_differs_is_reported_though_a_partition_has_no_leader(world):
    """The other partitions are compared; the one that is not is named, and not counted."""
    world.leaderless = {0}
    said = []
    found = against_kafka(world, said)
    assert found["differences"] == 5
    assert {each["partition"] for each in found["first"]} == {1}
    assert found["against_kafka"] == {"rows": 5, "expired": 0}
    assert "t-0" in said[-1]


def test_a_partition_that_vanished_has_nothing_to_compare_with(world):
    world.marks = {}
    assert against_kafka(world, [])["against_kafka"] == {"rows": 0, "expired": 15}


def test_a_topic_that_is_hidden_has_not_expired(world, monkeypatch):
    """It may be deleted, or hidden from this user: what was not compared is not called clean."""
    answer(monkeypatch, survey=lambda *_: Survey("cluster", {}, {}))
    found = against_kafka(world, [])
    assert found["against_kafka"] == {"rows": 0, "expired": 0}
    assert [(each["partition"], each["what"]) for each in found["first"]] == [
        (0, "10 offsets not compared: no such topic, or this user may not DESCRIBE it"),
        (1, "5 offsets not compared: no such topic, or this user may not DESCRIBE it"),
    ]


def test_a_topic_that_was_taken_out_has_nothing_to_compare_with(world, monkeypatch):
    answer(monkeypatch, survey=lambda *_: Survey("cluster", {}, {}))
    run = world.run("any")
    spec = run.spec.model_copy(update={"topics": ("another",)})
    assert verify(spec, flows.store(spec), run.kafka, print).to_json()["against_kafka"] == {
        "rows": 0,
        "expired": 15,
    }


def test_files_with_offsets_between_one_anothers_are_compared_in_order(store):
    """As those that a topic is partitioned into by values; a file further on is read after them."""
    offsets = [2, 5, 3, 9], [0, 4, 7], [1, 6, 8], range(10, 14)
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 14),))
    attempt = staged_attempts.stage(store, plan, files={("t", 0): offsets})
    files = [*staged_attempts.check(store, plan, attempt).files]
    for r in (*plan.chunks[0], OffsetRange("t", 0, 3, 12)):
        assert [row.offset for row in module._rows(store, files, r)] == [*range(r.start, r.end)]


def test_a_damaged_file_hides_no_other(store):
    """Its own rows are not told one by one; those with offsets between them are compared."""
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 30, 40),))
    files = {("t", 0): [range(30, 40, 2), range(31, 40, 2)]}
    attempt = staged_attempts.stage(store, plan, files=files)
    manifest = staged_attempts.check(store, plan, attempt)
    attempts.create_manifest(store, manifest)
    ledger = staged_attempts.ledger_of(store)
    done = committing.commit(store, ledger, plan, manifest, run="r")
    now = SimpleNamespace(fold=ledger.fold, store=store, spec=SimpleNamespace(select=set))
    seen = SimpleNamespace(
        topic_ids=plan.topics, leaderless={}, watermarks={"t": {0: Watermarks(0, 40, 40)}}
    )
    log = [Record(o, b"k", b"%d" % o if o != 35 else b"other", 0, 0, ()) for o in range(30, 40)]
    damaged, whole = manifest.files
    findings = Findings()
    module._compare_commit(
        now, seen, lambda *_: iter(log), done.n, lambda _: plan, [whole], [damaged], findings
    )
    assert [each.where["offset"] for each in findings.found] == [35]
    assert findings.compared == 5


def test_more_files_than_can_be_open(store):
    """A file for each offset: they are read one after the other."""
    number = module._MOST_OPEN + 50
    offsets = [[n, number + n] for n in range(number)]
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 2 * number),))
    attempt = staged_attempts.stage(store, plan, files={("t", 0): offsets})
    files = [*staged_attempts.check(store, plan, attempt).files]
    r = OffsetRange("t", 0, 5, 2 * number - 5)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, limits[1]))
    try:
        assert [row.offset for row in module._rows(store, files, r)] == [*range(r.start, r.end)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_shared_file_is_compared_by_partition(store):
    """Only the rows of the partition, in the order of their offsets."""
    offsets = [2, 3, 1, 2, 3]
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 1, 4), OffsetRange("t", 1, 2, 4)))
    attempt = staged_attempts.stage(store, plan, files={}, rows=5)
    staged_attempts.write_file(
        store, attempt.directory, "topic=t/one.parquet", [1, 1, 0, 0, 0], offsets
    )
    files = [*staged_attempts.check(store, plan, attempt).files]
    for r in (*plan.chunks[0], OffsetRange("t", 0, 2, 3), OffsetRange("u", 0, 1, 4)):
        expected = [*range(r.start, r.end)] if r.topic == "t" else []
        assert [row.offset for row in module._rows(store, files, r)] == expected
