"""Bugs that the nets must find: each takes out one guard, as a wrong change of the code would."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidegate.core import accounting, checkpoint, judge
from tidegate.core.entries import Abandon
from tidegate.core.judge import Accepted
from tidegate.egress import claims
from tidegate.egress import plan as egress_plan
from tidegate.lake import attempts, placing, sweeping
from tidegate.lake.ledger import Appended, Ledger

Patch = pytest.MonkeyPatch


def no_overlap_check(patch: Patch) -> None:
    """A commit is accepted whatever the live commits cover."""
    original = judge._judge_commit

    def judged(fold: Any, commit: Any) -> Any:
        verdict = original(fold, commit)
        overlap = judge.CoveredBy | judge.PartlyCovered
        return Accepted() if isinstance(verdict, overlap) else verdict

    patch.setattr(judge, "_judge_commit", judged)


def abandoned_is_published(patch: Patch) -> None:
    """Neither a publisher nor the ledger asks whether an attempt was abandoned."""
    original = judge._judge_commit

    def judged(fold: Any, commit: Any) -> Any:
        return original(replace(fold, abandoned=set()), commit)

    patch.setattr(judge, "_judge_commit", judged)
    finished = attempts._finished

    def any_attempt(fold: Any, staged: Any) -> Any:
        return finished(replace(fold, abandoned=set()), staged)

    patch.setattr(attempts, "_finished", any_attempt)


def check_without_row_count(patch: Patch) -> None:
    """A range with fewer rows than offsets is not looked into."""
    patch.setattr(accounting, "holes", lambda *_: {})


def sweep_without_abandon(patch: Patch) -> None:
    """The sweeper deletes an attempt, and no entry says so."""
    append = Ledger.append

    def not_appended(self: Ledger, entry: Any, *, run: str) -> Any:
        if isinstance(entry, Abandon) and run == "sweep":
            return Appended(self.fold.n)
        return append(self, entry, run=run)

    patch.setattr(Ledger, "append", not_appended)


def sweep_of_a_finished_attempt(patch: Patch) -> None:
    """What has no manifest is given up, whether Spark has finished it or not."""
    patch.setattr(sweeping, "_is_finished", lambda *_: False)


def claim_without_proof_of_death(patch: Patch) -> None:
    """Nobody looks whether the sender of an open claim still runs."""
    for module in (claims, egress_plan):
        patch.setattr(module, "not_dead", lambda *_: None)


def checkpoint_that_forgets_a_gap(patch: Patch) -> None:
    """A checkpoint lacks the newest gap."""
    original = checkpoint.head
    patch.setattr(checkpoint, "head", lambda fold: original(replace(fold, gaps=fold.gaps[:-1])))


def replay_that_keeps_an_old_file(patch: Patch) -> None:
    """The last file that a replay replaces stays under `data/`."""
    original = placing._delete

    def kept(store: Any, file: Any) -> None:
        if file.any_offset[1] > 60:
            return
        original(store, file)

    patch.setattr(placing, "_delete", kept)


BUGS: dict[str, tuple[Callable[[Patch], None], str]] = {
    "a commit without the overlap check": (no_overlap_check, "interleavings"),
    "an abandoned attempt is published": (abandoned_is_published, "interleavings"),
    "a check without the row count": (check_without_row_count, "crashes"),
    "a sweep without `abandon`": (sweep_without_abandon, "interleavings"),
    "a sweep of a finished attempt": (sweep_of_a_finished_attempt, "crashes"),
    "a claim without proof of death": (claim_without_proof_of_death, "crashes"),
    "a checkpoint that forgets a gap": (checkpoint_that_forgets_a_gap, "crashes"),
    "a replay that keeps an old file live": (replay_that_keeps_an_old_file, "crashes"),
}
