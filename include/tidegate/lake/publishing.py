"""Commit and finalise: needs the lake and nothing else, and may be done again at any moment."""

from __future__ import annotations

import json
import logging
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidegate import faults
from tidegate.core import canonical, layout
from tidegate.core.accounting import StagedFile
from tidegate.core.entries import Commit, Reference
from tidegate.core.ledger import (
    Accepted,
    Adopt,
    Fold,
    NotLive,
    Refused,
    Verdict,
    judge,
)
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.errors import AttemptAbandoned, LakeDamaged, ReplayRefused, TidegateError
from tidegate.lake import attempts
from tidegate.lake.attempts import Seal
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import Store

FORMAT = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LakeFile:
    """A file of a commit: where the attempt staged it, and its final name under `data/`."""

    staged: StagedFile
    final: str


def manifest_of(plan: Plan, seal: Seal) -> bytes:
    """Return the canonical bytes of the list of an attempt's files."""
    files = [
        {
            **asdict(f),
            "final": layout.DataFile(
                f.topic, plan.window_date, f.partition, f.first, f.last, plan.id
            ).path,
        }
        for f in sorted(seal.files, key=lambda f: (f.topic, f.partition, f.first))
    ]
    return canonical.encode({"format": FORMAT, "files": files})


def read_manifest(store: Store, commit: Commit) -> list[LakeFile]:
    """Return a commit's files; LakeDamaged if the manifest is not the one that was committed."""
    where = store.uri(commit.manifest.path)
    data = store.get(commit.manifest.path)
    if data is None or canonical.digest(data) != commit.manifest.sha256:
        state = "is missing" if data is None else "was changed"
        raise LakeDamaged(f"the manifest {where} {state}; restore it from a copy")
    files = []
    for form in json.loads(data)["files"]:
        final = form.pop("final")
        files.append(LakeFile(StagedFile(**form), final))
    return files


def commit(store: Store, ledger: Ledger, plan: Plan, seal: Seal, *, run: str) -> Appended | Verdict:
    """Make a sealed attempt part of the lake by one ledger entry, or say why it may not be.

    The moment the entry exists, readers by the ledger see the rows; before, nobody does.
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
    if not store.create(path, manifest):
        raise LakeDamaged(f"{store.uri(path)} does not list the files of its seal; restore it")
    faults.point("publish.before")
    outcome = ledger.append(entry, run=run)
    faults.point("publish.committed")
    return outcome


def publish_sealed(store: Store, ledger: Ledger, plan: Plan, *, run: str) -> dict[int, int]:
    """Commit and finalise what is sealed of a plan, whoever does it; return chunk → commit.

    Chunks that are not sealed, or that others have covered, are missing from the answer. A chunk
    that cannot be committed keeps no other from it: its error is raised at the end. ReplayRefused
    if others have replaced what a chunk was to replace.
    """
    commits = {}
    failures = []
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
    for n in unplaced(store, ledger.fold):
        if n in commits.values():
            finalise(store, ledger, n)
    for other in failures[1:]:
        logger.error("plan %s: %s", plan.id, other)
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


def finalise(store: Store, ledger: Ledger, n: int) -> None:
    """Make `data/` what commit `n` says: what it replaces goes, then its files come. Idempotent.

    Only files that are live are placed. Whoever sleeps here while another commit replaces them
    finds no staged copy to place, or takes away again what it has placed.
    """
    entry = ledger.commit(n)
    _retire_replaced(store, ledger, entry)
    files = read_manifest(store, entry)
    for file in files:
        if _is_live(ledger.fold, n, entry, file):
            try:
                store.place(file.staged.path, file.final)
            except LakeDamaged:
                if _is_live(ledger.refresh(), n, entry, file):
                    raise
            faults.point("publish.finalising")
    ledger.refresh()
    for file in files:
        if not _is_live(ledger.fold, n, entry, file):
            _retire(store, n, file)
    store.create(layout.placed(n), b"")
    faults.point("publish.finalised")


def _retire_replaced(store: Store, ledger: Ledger, entry: Commit) -> None:
    """Take the files that a commit replaces out of `data/`."""
    for m in dict.fromkeys(part.commit for part in entry.replaces):
        old = ledger.commit(m)
        if store.size(layout.placed(m)) is None:  # what it replaced itself may still be there
            _retire_replaced(store, ledger, old)
        for file in read_manifest(store, old):
            if not _is_live(ledger.fold, m, old, file):
                _retire(store, m, file)


def _retire(store: Store, n: int, file: LakeFile) -> None:
    """Move a file that is live no more. Its staged copy goes first: nobody can place it then."""
    store.delete(file.staged.path)
    faults.point("publish.retiring")
    if store.size(file.final) is not None:
        store.place(file.final, layout.replaced(n, file.final))
        store.delete(file.final)


def _is_live(fold: Fold, n: int, entry: Commit, file: LakeFile) -> bool:
    f = file.staged
    return fold.holds(n, entry.topic_ids[f.topic], f.partition, f.first)


def unplaced(store: Store, fold: Fold) -> list[int]:
    """Return the live commits whose files are not all known to be in place."""
    waiting = sorted(n for n in fold.waiting if n in fold.live)
    if not waiting:
        return []
    before = posixpath.basename(layout.placed(waiting[0] - 1))
    placed = set(store.names(layout.PLACED, after=before))
    return [n for n in waiting if posixpath.basename(layout.placed(n)) not in placed]


def roll_forward(store: Store, ledger: Ledger) -> list[int]:
    """Finalise what crashed publishers left; return the commits that were unfinished."""
    unfinished = unplaced(store, ledger.fold)
    for n in unfinished:
        logger.warning("commit #%d was not in place; placing its files now", n)
        finalise(store, ledger, n)
    return unfinished


def files_of(store: Store, fold: Fold, n: int) -> list[LakeFile]:
    """Return the files of a live commit that no later one has replaced."""
    entry = fold.live[n]
    return [file for file in read_manifest(store, entry) if _is_live(fold, n, entry, file)]


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
    for n in fold.live if commits is None else commits:
        for file in files_of(store, fold, n):
            yield n, file, file.staged.path if n in waiting else file.final
