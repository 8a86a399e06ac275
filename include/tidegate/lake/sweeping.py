"""Sweeping: delete staging that is no longer needed (rules: docs/internals/architecture.md).

Correctness needs no clock here: what may be committed, or is a live commit's only copy, stays
whatever its age. Ages, by the lake's own clock, only decide when the rest is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.core import layout
from tidegate.core.entries import Abandon
from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document
from tidegate.core.judge import Lost
from tidegate.core.wording import counted
from tidegate.core.work import Standing, chunk_of
from tidegate.errors import AttemptWrong, LakeDamaged, OtherFormat
from tidegate.lake import footers, plans
from tidegate.lake.attempts import Attempt, committed_manifest, read_done, staged_files
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.placing import store_clock
from tidegate.lake.store_protocol import Listed, Store

GRACE = 3600.0
"""Seconds that a staged file lives on after its commit is in place: readers may hold its URI."""
ABANDON_AFTER = 24 * 3600.0
"""Seconds since an attempt was last written to until it is abandoned, if it is not finished."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweptAttempt(Document):
    """An attempt whose files were deleted: their number, their bytes, and why."""

    plan_id: str
    chunk: int
    attempt: str
    why: str
    files: int
    bytes: int


@dataclass(frozen=True)
class UndeletedAttempt(Document):
    """The attempt of a commit whose files were due, and why they had to stay."""

    plan_id: str
    chunk: int
    attempt: str
    commit: int
    why: str


@dataclass
class Swept:
    """What was deleted of each attempt and why, and what was due and had to be left."""

    attempts: list[SweptAttempt] = field(default_factory=list)
    left: list[UndeletedAttempt] = field(default_factory=list)


def sweep(
    store: Store,
    ledger: Ledger,
    *,
    run: str,
    grace: float = GRACE,
    abandon_after: float = ABANDON_AFTER,
) -> Swept:
    """Delete the staging of placed commits and of losing attempts. Abandon unfinished ones.

    Lists before it reads the ledger: a file that is written meanwhile is not touched.
    """
    listed = staged_files(store)
    fold = ledger.refresh()
    now = store_clock(store)
    swept = Swept()
    for attempt, files in listed.items():
        n = fold.committed.get(attempt[:2])
        if n is not None:
            placed = store.modified(layout.placed(n))
            if placed is None or now - placed < grace:
                continue  # readers may still hold these URIs
            entry = ledger.commit(n)
            if entry.attempt != attempt.name:
                _remove(store, attempt, files, "lost", swept)
                continue
            # By the manifest: a file without rows may be staged, too, and is no part of a commit.
            staged = {f.path for f in files}
            try:
                copies = [f for f in committed_manifest(store, entry).files if f.path in staged]
            except LakeDamaged as error:
                swept.left.append(UndeletedAttempt(*attempt, n, str(error)))
                continue
            if n in fold.live and (wrong := _unverified(store, copies)):
                swept.left.append(UndeletedAttempt(*attempt, n, wrong))
            elif n in fold.live or not copies:
                _remove(store, attempt, files, "placed", swept)
        elif attempt in fold.barred:
            _remove(store, attempt, files, "abandoned", swept)
        elif _may_be_given_up(store, fold, attempt) and (
            now - _last_written(store, files, now) >= abandon_after
        ):
            outcome = ledger.append(Abandon(*attempt), run=run)
            if isinstance(outcome, Appended | Lost):  # else it was committed meanwhile
                _remove(store, attempt, files, "abandoned", swept)
    placing = store.objects(layout.PLACING)
    due = (f for f in placing if now - _last_written(store, [f], now) >= abandon_after)
    store.delete(*(f.path for f in due))
    return swept


def sweep_egress(store: Store, ledger: Ledger, *, grace: float = GRACE) -> Swept:
    """Delete what attempts of a committed egress plan have left.

    The bad rows of the committed attempt stay, and everything of a plan that is not committed.
    """
    listed = staged_files(store)
    for each in store.objects(layout.QUARANTINE):
        plan_id, _, rest = each.path.removeprefix(layout.QUARANTINE).partition("/")
        listed.setdefault(Attempt(plan_id, 0, rest.partition("/")[0]), []).append(each)
    fold = ledger.refresh()
    now = store_clock(store)
    swept = Swept()
    for attempt, files in listed.items():
        n = fold.committed.get(attempt[:2])
        if n is None:
            continue
        won = ledger.commit(n).attempt == attempt.name
        due = [each for each in files if not (won and each.path.startswith(layout.QUARANTINE))]
        if due and now - _last_written(store, due, now) >= grace:
            _remove(store, attempt, due, "placed" if won else "lost", swept)
            store.prune(f"{layout.quarantine(attempt.plan_id, attempt.name)}/")
    return swept


def _may_be_given_up(store: Store, fold: Fold, attempt: Attempt) -> bool:
    """Return whether an attempt is unfinished, or is finished and can never be committed."""
    if not _is_finished(store, attempt) and store.size(attempt.manifest_path) is None:
        return True
    try:
        plan = plans.load_plan(store, attempt.plan_id)
    except LakeDamaged:
        return False
    if attempt.chunk >= len(plan.chunks):
        return False
    return chunk_of(fold, plan, attempt.chunk).standing is not Standing.PENDING


def _is_finished(store: Store, attempt: Attempt) -> bool:
    """Return whether Spark has finished an attempt, so that it can still be checked."""
    try:
        return read_done(store, attempt) is not None
    except AttemptWrong:
        return False
    except OtherFormat:
        return True


def _last_written(store: Store, files: Sequence[Listed], now: float) -> float:
    """Return when the newest of these files was written. `now` if one is gone."""
    return max(now if (at := store.modified(f.path)) is None else at for f in files)


def _unverified(store: Store, copies: Sequence[LakeFile]) -> str | None:
    """Return why staged copies must stay: a final file that is not the committed one; else None."""
    for file in copies:
        size = store.size(file.final)
        if size != file.size:
            return f"{store.uri(file.final)} is missing or has another size"
        try:
            digest = footers.footer_digest(store, Listed(file.final, size))
        except AttemptWrong as error:
            return str(error)
        if digest != file.digest:
            return f"{store.uri(file.final)} is not the file that was committed"
    return None


def _remove(
    store: Store, attempt: Attempt, files: Sequence[Listed], why: str, swept: Swept
) -> None:
    """Delete an attempt's files, and its manifest if it can never be committed."""
    manifests = [] if why == "placed" else [attempt.manifest_path]
    store.delete(*manifests, *(listed.path for listed in files))
    store.prune(attempt.directory)
    size = sum(listed.size for listed in files)
    logger.info("%s: removed %s (%s)", attempt.directory, counted(len(files), "file"), why)
    swept.attempts.append(SweptAttempt(*attempt, why, len(files), size))
