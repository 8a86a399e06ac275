"""An attempt that Spark has finished is kept until it is sealed, whatever its age."""

import os
from pathlib import Path

import pytest

from support import staged_attempts
from tidegate.core import layout
from tidegate.core.canonical import FORMAT
from tidegate.core.offsets import OffsetRange
from tidegate.errors import AttemptWrong
from tidegate.lake import attempts, committing, plans, sweeping
from tidegate.lake.store import LocalStore

PLAN = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))


@pytest.fixture
def store(tmp_path):
    store = LocalStore(tmp_path / "p")
    plans.freeze_plan(store, PLAN.id, PLAN, 1, note={})
    return store


def sweep(store):
    """Sweep when everything is very old."""
    for listed in store.objects(layout.STAGING):
        os.utime(store.native(listed.path), (1, 1))
    ledger = staged_attempts.ledger_of(store)
    return sweeping.sweep(store, ledger, run="sweep", grace=0, abandon_after=0)


def test_it_is_never_given_up(store):
    """No broker has answered since: it is all that is left of its rows, as a sealed one is."""
    attempt = staged_attempts.stage(store, PLAN)
    found = sweep(store)
    assert (found.attempts, found.left) == ([], [])
    attempts.create_manifest(store, staged_attempts.check(store, PLAN, attempt))
    ledger = staged_attempts.ledger_of(store)
    assert committing.commit_sealed_chunks(store, ledger, PLAN, run="run") == {0: 3}
    assert [each.size for each in store.objects(layout.DATA)]


def test_one_that_another_plan_has_covered_goes(store):
    """Nothing can commit it any more: coverage never shrinks."""
    other = staged_attempts.plan_of((OffsetRange("t", 0, 0, 12),))
    plans.freeze_plan(store, other.id, other, 1, note={})
    staged_attempts.seal(store, other)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), other, run="run")
    staged_attempts.stage(store, PLAN, "late")
    assert ("late", "abandoned") in {(a.attempt, a.why) for a in sweep(store).attempts}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"rows": "x"}', '{"rows": 1, "versions": 2}']
)
def test_a_record_that_makes_no_sense(store, text):
    """It is a difference of the attempt, and no error of the lake: it appears as a whole."""
    attempt = staged_attempts.stage(store, PLAN)
    Path(store.native(attempt.done_path)).write_text(text)
    with pytest.raises(AttemptWrong, match=r"_done\.json"):
        attempts.read_done(store, attempt)
    assert [each.why for each in sweep(store).attempts] == ["abandoned"]


def test_a_pipeline_that_was_never_run(tmp_path):
    assert sweep(LocalStore(tmp_path / "new")).attempts == []


def test_an_attempt_that_finishes_after_it_was_listed_is_kept(store, monkeypatch):
    """Its records may have expired: nobody could read them again."""
    attempt = staged_attempts.stage(store, PLAN)
    done = Path(store.native(attempt.done_path))
    finished = done.read_text()
    done.unlink()
    listing = store.objects

    def then_finish(prefix):
        listed = listing(prefix)
        done.write_text(finished)
        return listed

    ledger = staged_attempts.ledger_of(store)
    monkeypatch.setattr(store, "objects", then_finish)
    assert sweeping.sweep(store, ledger, run="sweep", abandon_after=0).attempts == []
    assert staged_attempts.ledger_of(store).fold.barred == set()


def test_a_sealed_attempt_is_kept_although_its_record_is_damaged(store):
    """Its manifest proves it."""
    sealed = staged_attempts.seal(store, PLAN)
    Path(store.native(sealed.attempt.done_path)).write_text("{}")
    assert sweep(store).attempts == []
    ledger = staged_attempts.ledger_of(store)
    assert committing.commit_sealed_chunks(store, ledger, PLAN, run="run") == {0: 3}


def test_what_a_damaged_plan_has_staged_is_kept(store):
    """Nobody can say whether it may still be committed; another plan's attempt goes."""
    staged_attempts.stage(store, PLAN, "unknown")
    Path(store.native(layout.plan(PLAN.id))).write_text("{")
    other = staged_attempts.plan_of((OffsetRange("t", 0, 20, 30),))
    staged_attempts.unfinished(store, staged_attempts.stage(store, other, "killed"))
    assert [each.attempt for each in sweep(store).attempts] == ["killed"]


def test_what_a_newer_release_has_finished_is_kept(store):
    attempt = staged_attempts.stage(store, PLAN)
    done = Path(store.native(attempt.done_path))
    done.write_text(done.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    assert sweep(store).attempts == []
