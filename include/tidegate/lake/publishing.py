"""Commit and finalise: needs the lake and nothing else, and may be done again at any moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidegate import faults
from tidegate.core import canonical, layout
from tidegate.core.entries import Commit, Reference
from tidegate.core.judge import Accepted, Adopt, NotLive, Refused, Verdict, judge
from tidegate.core.ledger import Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.errors import AttemptAbandoned, LakeDamaged, ReplayRefused, TidegateError
from tidegate.lake import attempts
from tidegate.lake.attempts import Seal
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.manifests import LakeFile, files_of_seal, manifest_of, read_manifest
from tidegate.lake.placing import finalise, finalise_each, is_live, roll_forward, unplaced
from tidegate.lake.store import Store

__all__ = [
    "LakeFile",
    "commit",
    "files_of",
    "files_of_each",
    "files_of_seal",
    "files_over",
    "finalise",
    "live_files",
    "located",
    "manifest_of",
    "publish_sealed",
    "read_manifest",
    "roll_forward",
    "unplaced",
]

_AT_ONCE = 16  # requests

logger = logging.getLogger(__name__)


def commit(store: Store, ledger: Ledger, plan: Plan, seal: Seal, *, run: str) -> Appended | Verdict:
    """Make a sealed attempt part of the lake by one ledger entry, or say why it may not be.

    The moment the entry exists, readers by the ledger see the rows; before, nobody does. What would
    keep the files from their final names, as far as it can be known, is raised before that.
    """
    attempt = seal.attempt
    manifest = manifest_of(plan, seal)
    path = layout.manifest(plan.id, attempt.chunk, attempt.name)
    entry = Commit(
        lane=plan.lane,
        plan_id=plan.id,
        plan_sha256=plan.sha256,
        chunk=attempt.chunk,
        attempt=attempt.name,
        cluster_id=plan.cluster_id,
        topic_ids={topic: plan.topics[topic] for topic in seal.accounts},
        accounts=seal.accounts,
        manifest=Reference(path, canonical.digest(manifest)),
        replaces=plan.replaces(attempt.chunk),
    )
    for f in seal.files:
        if store.size(f.path) != f.size:
            verdict = judge(ledger.refresh(), entry)
            if not isinstance(verdict, Accepted):  # swept meanwhile, by right
                return verdict
            raise LakeDamaged(
                f"{store.uri(f.path)} is missing or changed since it was sealed; "
                "clear the stage task: the chunk is then staged again"
            )
    store.check_placing(
        [(f.staged.path, f.final, f.staged.size) for f in files_of_seal(plan, seal)]
    )
    if not store.create(path, manifest):
        raise LakeDamaged(f"{store.uri(path)} does not list the files of its seal; restore it")
    faults.point("publish.before")
    outcome = ledger.append(entry, run=run)
    faults.point("publish.committed")
    return outcome


def publish_sealed(
    store: Store,
    ledger: Ledger,
    plan: Plan,
    *,
    run: str,
    not_placed: list[TidegateError] | None = None,
) -> dict[int, int]:
    """Commit and finalise what is sealed of a plan, whoever does it; return chunk → commit.

    Chunks that are not sealed, or that others have covered, are missing from the answer. A chunk
    that cannot be committed, or not be placed, keeps no other from it: its error is raised at the
    end. ReplayRefused if others have replaced what a chunk was to replace. With `not_placed`, what
    is committed and cannot be placed is added there, and not raised.
    """
    commits = {}
    failures: list[TidegateError] = []
    seals = attempts.sealed(store, plan, ledger.refresh())
    for number in range(len(plan.chunks)):
        n = ledger.fold.committed.get((plan.id, number))
        if n is None and number in seals:
            try:
                n = _committed(store, ledger, plan, seals[number], run)
            except TidegateError as error:
                if error.kind == "transient":
                    raise
                failures.append(error)
        if n is not None:
            commits[number] = n
    for other in failures[1:]:
        logger.error("plan %s: %s", plan.id, other)
    mine = [n for n in unplaced(store, ledger.fold) if n in commits.values()]
    finalise_each(store, ledger, mine, failures if not_placed is None else not_placed)
    if failures:
        raise failures[0]
    return commits


def _committed(store: Store, ledger: Ledger, plan: Plan, seal: Seal, run: str) -> int | None:
    """Commit a chunk; return the number of its entry, or None if others have covered it."""
    number = seal.attempt.chunk
    match commit(store, ledger, plan, seal, run=run):
        case Appended(n) | Adopt(n):
            return n
        case Refused(reason):
            raise AttemptAbandoned(f"plan {plan.id}, chunk {number}: {reason}")
        case NotLive(ranges):
            raise ReplayRefused(
                f"plan {plan.id}, chunk {number}: others have replaced {ranges[0]} meanwhile; "
                "nothing of the chunk was committed. If it is still to be read again, start a "
                "replay with a new id",
                chunk=number,
            )
    return None


def files_of(store: Store, fold: Fold, n: int) -> list[LakeFile]:
    """Return the files of a live commit that no later one has replaced."""
    return _live_of(store, fold, n, fold.live[n])


def files_of_each(
    store: Store, fold: Fold, commits: Iterable[int]
) -> Iterator[tuple[int, list[LakeFile]]]:
    """Yield live commits with their files, in order; several manifests are read at a time."""
    # Looked up first: of a checkpoint the commits are read when the first one is asked for.
    entries = {n: fold.live[n] for n in commits}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda n: _live_of(store, fold, n, entries[n]), entries)
        yield from zip(entries, found, strict=True)


def _live_of(store: Store, fold: Fold, n: int, entry: Commit) -> list[LakeFile]:
    return [file for file in read_manifest(store, entry) if is_live(fold, n, entry, file)]


def live_files(store: Store, fold: Fold) -> list[Mapping[str, Any]]:
    """List every file of the lake (contract: `files --json`), each row exactly once.

    A file's `uri` is its final name once its commit is placed, else the staged one.
    """
    return [
        {
            "uri": store.uri(path),
            "topic": file.staged.topic,
            "topic_id": fold.live[n].topic_ids[file.staged.topic],
            "cluster_id": fold.live[n].cluster_id,
            "partition": file.staged.partition,
            "first": file.staged.first,
            "last": file.staged.last,
            "rows": file.staged.rows,
            "bytes": file.staged.size,
            "plan_id": fold.live[n].plan_id,
            "commit": n,
        }
        for n, file, path in located(store, fold)
    ]


def files_over(
    store: Store, fold: Fold, window: Window, topic_ids: Mapping[str, str]
) -> list[tuple[LakeFile, str]]:
    """Return the files that hold any offset of a window, and where each lies now."""
    wanted = {(topic_ids[r.topic], r.partition): r for r in window}
    return [
        (file, path)
        for n, file, path in located(store, fold, fold.commits_over(window, topic_ids))
        if (r := wanted.get((fold.live[n].topic_ids[file.staged.topic], file.staged.partition)))
        and file.staged.first < r.end
        and r.start <= file.staged.last
    ]


def located(
    store: Store, fold: Fold, commits: Iterable[int] | None = None
) -> Iterator[tuple[int, LakeFile, str]]:
    """Yield each live file of some commits, else of all: the commit, the file, where it lies."""
    waiting = set(unplaced(store, fold))
    for n, files in files_of_each(store, fold, fold.live if commits is None else commits):
        for file in files:
            yield n, file, file.staged.path if n in waiting else file.final
