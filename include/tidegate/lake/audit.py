"""Audit of a ledger: compare each entry and each checkpoint with the rest of the lake.

The chain of digests protects all entries but the last one, and no checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core import layout
from tidegate.core.entries import Commit, Entry
from tidegate.core.files import rows_by_partition
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, judge
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake import attempts, checkpoints, placing
from tidegate.lake.attempts import Attempt, Manifest
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store

Add = Callable[..., None]
"""Called with a finding, and where it is."""
PlanOf = Callable[[str], Plan]
"""Returns the plan of an id, or raises LakeDamaged."""


def read_ledger(store: Store, pipeline: str, add: Add) -> tuple[Fold, dict[int, Commit]]:
    """Read every entry. Return their sum, and all commits by number, also those replaced since.

    Each entry must be one that may follow from those before it, each checkpoint their sum.
    """
    made = set(checkpoints.checkpoint_numbers(store))
    waiting: dict[int, set[int]] = {}
    commits: dict[int, Commit] = {}

    def check_checkpoint(fold: Fold) -> None:
        if fold.n in made:
            made.remove(fold.n)
            found, waiting[fold.n] = checkpoints.checkpoint_differences(store, pipeline, fold)
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
    unplaced = placing.unplaced_commits(store, fold)
    for n, listed in waiting.items():
        if forgotten := [m for m in unplaced if m <= n and m not in listed]:
            what = f"the checkpoint takes commit #{forgotten[0]} for placed, and it is not"
            add(f"{what}; delete it: the ledger is read without it", checkpoint=n)
    return fold, commits


def check_commit(
    store: Store, n: int, commit: Commit, plan_of: PlanOf, add: Add
) -> Manifest | None:
    """Compare the entry of an ingest commit with its plan and its manifest, which is returned.

    None if the manifest is lost or damaged. That is a finding.
    """
    manifest = None
    try:
        manifest = attempts.committed_manifest(store, commit)
        for what in _differences(commit, plan_of(commit.plan_id), manifest):
            add(f"the entry does not have {what}", commit=n)
    except LakeDamaged as error:
        add(str(error), commit=n)
    return manifest


def _differences(commit: Commit, plan: Plan, manifest: Manifest) -> list[str]:
    """Return what of an entry is not what its plan and its manifest make it."""
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
        == Attempt.of(commit).manifest_path,
        "the attempt of its manifest": manifest.attempt == Attempt.of(commit),
        "the accounts of its manifest": commit.accounts == manifest.accounts,
        "the rows of its files": _rows_of(commit) == rows_by_partition(manifest.files),
    }  # fmt: skip
    return [what for what, is_same in same.items() if not is_same]


def _rows_of(commit: Commit) -> dict[tuple[str, int], int]:
    """Return the rows of a commit's partitions that have any."""
    return {
        (topic, p): account.rows
        for topic, partitions in commit.accounts.items()
        for p, account in partitions.items()
        if account.rows
    }
