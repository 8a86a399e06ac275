"""Audit of a ledger: compare each entry and each checkpoint with the rest of the lake.

The chain of digests protects all entries but the last one, and no checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tidegate.core import canonical, layout
from tidegate.core.entries import Commit, Entry
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, judge
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake import checkpoints, manifests, placing, plans
from tidegate.lake.attempts import Attempt, Seal, read_seal
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store

Add = Callable[..., None]
"""Called with a finding, and where it is."""


def read_ledger(store: Store, pipeline: str, add: Add) -> tuple[Fold, dict[int, Commit]]:
    """Read every entry; return their sum, and all commits by number, also those replaced since.

    Each entry must be one that may follow from those before it, each checkpoint their sum.
    """
    made = set(checkpoints.numbers(store))
    waiting: dict[int, set[int]] = {}
    commits: dict[int, Commit] = {}

    def check_checkpoint(fold: Fold) -> None:
        if fold.n in made:
            made.remove(fold.n)
            found, waiting[fold.n] = checkpoints.differences(store, pipeline, fold)
            for what in found:
                add(f"{what}; delete it: the ledger is read without it", checkpoint=fold.n)

    def watch(fold: Fold, entry: Entry) -> None:
        check_checkpoint(fold)
        verdict = judge(fold, entry)
        if not isinstance(verdict, Accepted):
            add(f"a {entry.kind} that may not follow: {verdict}", entry=fold.n + 1)
        if isinstance(entry, Commit):
            commits[fold.n + 1] = entry

    fold = Ledger(store, pipeline, whole=True, watch=watch).fold
    check_checkpoint(fold)
    for n in sorted(made):
        if store.size(layout.checkpoint(n)) is not None and n > fold.n:
            add(f"a checkpoint of entry {n}, and the ledger ends at {fold.n}", checkpoint=n)
    unplaced = placing.unplaced(store, fold)
    for n, listed in waiting.items():
        if forgotten := [m for m in unplaced if m <= n and m not in listed]:
            what = f"the checkpoint takes commit #{forgotten[0]} for placed, and it is not"
            add(f"{what}; delete it: the ledger is read without it", checkpoint=n)
    return fold, commits


def check_commits(store: Store, fold: Fold, commits: dict[int, Commit], add: Add) -> None:
    """Compare the entry of each ingest commit with its plan and its seal.

    Reads the manifests of replaced commits; the caller reads those of live ones.
    """
    plan_of = lru_cache(maxsize=64)(lambda plan_id: plans.load(store, plan_id))
    for n, commit in commits.items():
        try:
            plan = plan_of(commit.plan_id)
            attempt = Attempt(commit.plan_id, commit.chunk, commit.attempt)
            seal = read_seal(store, attempt)
            if seal is None:
                uri = store.uri(attempt.seal_path)
                add(f"its seal {uri} is missing; restore it from a copy", commit=n)
            for what in _differences(commit, plan, seal):
                add(f"the entry does not have {what}", commit=n)
            if n not in fold.live:
                manifests.read_manifest(store, commit)
        except LakeDamaged as error:
            add(str(error), commit=n)


def _differences(commit: Commit, plan: Plan, seal: Seal | None) -> list[str]:
    """Return what of an entry is not what its plan and its seal make it."""
    is_planned = commit.chunk < len(plan.chunks)
    window = plan.chunks[commit.chunk] if is_planned else ()
    topic_ids = {r.topic: plan.topics[r.topic] for r in window}
    same = {
        "the SHA-256 of its plan": commit.plan_sha256 == plan.sha256,
        "the lane of its plan": commit.lane == plan.lane,
        "the cluster of its plan": commit.cluster_id == plan.cluster_id,
        "a chunk of its plan": is_planned,
        "the topic ids of its plan": commit.topic_ids == topic_ids,
        "the ranges of its plan": sorted(r for _, r in commit.ranges) == sorted(window),
        "the replaced ranges of its plan": is_planned
        and commit.replaces == plan.replaces(commit.chunk),
        "accounts that add up": all(
            a.end - a.start == a.rows + a.invisible
            for partitions in commit.accounts.values()
            for a in partitions.values()
        ),
        "the path of its manifest": commit.manifest.path
        == layout.manifest(commit.plan_id, commit.chunk, commit.attempt),
    }  # fmt: skip
    if seal:
        digest = canonical.digest(manifests.manifest_of(plan, seal))
        same["the accounts of its seal"] = commit.accounts == seal.accounts
        same["the files of its seal"] = commit.manifest.sha256 == digest
    return [what for what, is_same in same.items() if not is_same]
