"""The ledger in the lake: races for a number, and what must never be read over."""

import json
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tidegate.core import layout
from tidegate.core.entries import Account, Commit, Gap, Origin, Reference
from tidegate.core.judge import CoveredBy, CutTo, Lost
from tidegate.errors import LedgerCorrupt
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore, ObjectStore


@pytest.fixture(params=["directory", "bucket"])
def store(request, tmp_path):
    if request.param == "directory":
        return LocalStore(tmp_path / "p")
    return ObjectStore("memory:///p", MemoryStore())


def origin(topic="t", partition=0):
    return Origin(topic, f"id-{topic}", {partition: 0})


def gap(start, end):
    return Gap("t", "id-t", 0, start, end, "expired", "run")


def commit(plan_id, start, end):
    accounts = {"t": {0: Account(start, end, end - start, 0)}}
    manifest = Reference("manifest", "sha")
    return Commit("live", plan_id, "sha", 0, "x", "cluster", {"t": "id-t"}, accounts, manifest)


def test_entries_are_numbered_from_one_and_chained(store):
    """Each names the digest of the one before; a new reader folds the same."""
    ledger = Ledger(store, "p")
    assert ledger.append(origin(), run="a") == Appended(1)
    assert ledger.append(commit("plan", 0, 5), run="b") == Appended(2)
    again = Ledger(store, "p").fold
    assert (again.n, again.digest) == (2, ledger.fold.digest)
    assert again.cursors("t") == {0: 5}


def test_two_writers_race_for_a_number(store):
    """The loser folds the winner's entry and is judged again: here it gets the next number."""
    one, other = Ledger(store, "p"), Ledger(store, "p")
    assert one.append(origin("t"), run="one") == Appended(1)
    assert other.append(origin("u"), run="other") == Appended(2)
    assert set(other.fold.origins) == {"id-t", "id-u"}
    assert one.refresh().n == 2


@pytest.mark.parametrize(
    ("winner", "loser", "verdict"),
    [
        (origin("t", 1), origin("t", 1), Lost()),
        (commit("plan", 0, 5), commit("other", 0, 5), CoveredBy((2,))),
        (commit("plan", 0, 5), gap(0, 9), CutTo((gap(5, 9),))),
    ],
)
def test_the_number_is_taken_between_judging_and_creating(
    store, monkeypatch, winner, loser, verdict
):
    """Accepted at first, then someone else's entry stands there: the judging is done again."""
    ledger = Ledger(store, "p")
    ledger.append(origin(), run="first")
    rival, create = Ledger(store, "p"), store.create

    def late(path, data):
        monkeypatch.setattr(store, "create", create)
        assert rival.append(winner, run="rival") == Appended(2)
        return create(path, data)

    monkeypatch.setattr(store, "create", late)
    assert ledger.append(loser, run="run") == verdict
    assert Ledger(store, "p").fold.n == 2


def test_a_create_whose_answer_was_lost_is_found(store, monkeypatch):
    """The entry landed: who wrote it, or its retry, folds it and makes no second one."""
    ledger, create = Ledger(store, "p"), store.create

    def lost(path, data):
        create(path, data)
        raise ConnectionError

    monkeypatch.setattr(store, "create", lost)
    with pytest.raises(ConnectionError):
        ledger.append(origin(), run="run")
    monkeypatch.setattr(store, "create", create)
    assert ledger.append(origin(), run="run") == Lost()
    assert Ledger(store, "p").fold.n == 1


# Damage, on a disk


@pytest.fixture
def log(tmp_path):
    """The log of pipeline p with three entries: an origin and two commits."""
    ledger = Ledger(LocalStore(tmp_path / "p"), "p")
    for entry in (origin(), commit("one", 0, 5), commit("two", 5, 9)):
        ledger.append(entry, run="run")
    return tmp_path / "p/_tidegate/log"


def refused(log, n):
    """Assert that reading refuses and names entry n."""
    with pytest.raises(LedgerCorrupt, match=rf"'p', entry {n} .*{n:020d}\.json") as error:
        Ledger(LocalStore(log.parents[1]), "p")
    assert error.value.numbers == {"entry": n}
    assert error.value.kind == "terminal"


def edit(log, n, change):
    path = log / f"{n:020d}.json"
    form = json.loads(path.read_text())
    change(form)
    path.write_text(json.dumps(form))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"{}", b'{"format": 2}'])
@pytest.mark.parametrize("n", [1, 3])
def test_an_entry_that_cannot_be_parsed(log, n, data):
    """Nothing renumbers the ledger, nothing goes on over it."""
    (log / f"{n:020d}.json").write_bytes(data)
    refused(log, n)


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("format"),
        lambda form: form.update(format="2"),
        lambda form: form.update(n=4),
        lambda form: form.update(pipeline="q"),
        lambda form: form.pop("kind"),
        lambda form: form.update(previous="0" * 64),
        lambda form: form.pop("attempt"),
        lambda form: form.update(topics=[]),
        lambda form: form.update(topics=None),
        lambda form: form["topics"]["t"].update(ranges={"0": [5, 9]}),
        lambda form: form["topics"]["t"].update(ranges={"0": [9, 5, 4, 0]}),
        lambda form: form["topics"]["t"].update(ranges={"0": ["5", 9, 4, 0]}),
        lambda form: form["topics"]["t"].update(ranges={"x": [5, 9, 4, 0]}),
    ],
)
def test_an_entry_that_makes_no_sense(log, change):
    """Another format, number, pipeline, predecessor; no kind; ranges that are none."""
    edit(log, 3, change)
    refused(log, 3)


def test_an_edited_byte_breaks_the_chain(log):
    """The entry still parses, but the next one does not follow from it."""
    path = log / f"{2:020d}.json"
    path.write_bytes(path.read_bytes().replace(b'"0":[0,5,5,0]', b'"0":[0,5,4,1]'))
    refused(log, 3)


def test_renumbered_entries(log):
    """Moved down to fill a hole: it still says its own number."""
    (log / f"{3:020d}.json").rename(log / f"{2:020d}.json")
    refused(log, 2)


@pytest.mark.parametrize("n", [1, 2])
def test_a_missing_entry_is_not_the_end(log, n):
    """Else what the later ones have committed would be read, and committed, again."""
    (log / f"{n:020d}.json").unlink()
    refused(log, n)


def test_a_log_that_was_rolled_back(log):
    """The last entry is gone, but the marker says that its files were placed."""
    LocalStore(log.parents[1]).create(layout.placed(3), b"")
    (log / f"{3:020d}.json").unlink()
    refused(log, 3)


def test_what_a_crashed_writer_left_is_no_entry(log):
    """A temporary file beside the entries."""
    (log / f".{4:020d}.json.0123456789abcdef").write_bytes(b"half an ent")
    assert Ledger(LocalStore(log.parents[1]), "p").append(gap(9, 12), run="run") == Appended(4)
    assert Path(log, f"{4:020d}.json").exists()
