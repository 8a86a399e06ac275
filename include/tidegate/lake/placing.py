"""Placing: the files of commits get their final names under `data/`, replaced ones lose them.

Everything here may be repeated, by any process, at any time after the commit.
"""

from __future__ import annotations

import logging
import posixpath
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime

from tidegate import faults
from tidegate.core import layout
from tidegate.core.entries import Commit
from tidegate.core.fold import Fold
from tidegate.errors import LakeDamaged, OtherFormat, TidegateError
from tidegate.lake import attempts
from tidegate.lake.attempts import LakeFile
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store

LATE = 24 * 3600.0
"""Seconds after a commit was placed in which an earlier copy may still complete."""

Retire = Callable[[Store, int, LakeFile], None]
Files = Callable[[int, Commit], Sequence[LakeFile] | None]
"""The files of a commit, by its number and entry, where they are known; else None."""

logger = logging.getLogger(__name__)


def finalise(store: Store, ledger: Ledger, n: int, files: Files = lambda _, __: None) -> None:
    """Make `data/` what commit `n` says: replaced files leave it, then its own are placed.

    Idempotent. Only live files are placed. If another commit replaces them meanwhile, their staged
    copies are gone, or what was placed is removed again. A lost file stops no other; LakeDamaged
    names it at the end, and the commit stays unplaced. `files` returns those of the commit if its
    manifest need not be read.
    """
    entry = ledger.commit(n)
    _retire_replaced(store, ledger, entry, _retire)
    listed = files(n, entry) or attempts.committed(store, entry).files
    lost: list[LakeDamaged] = []
    for file in listed:
        if is_live(ledger.fold, n, entry, file):
            try:
                _place(store, file)
            except LakeDamaged as error:
                if is_live(ledger.refresh(), n, entry, file):
                    lost.append(error)
            faults.point("publish.finalising")
    ledger.refresh()
    for file in listed:
        if not is_live(ledger.fold, n, entry, file):
            _retire(store, n, file)
    if lost:
        raise lost[0]
    store.create(layout.placed(n), b"")
    ledger.mark_placed(n)
    faults.point("publish.finalised")


def finalise_each(
    store: Store,
    ledger: Ledger,
    commits: Iterable[int],
    failures: list[TidegateError],
    files: Files = lambda _, __: None,
) -> list[int]:
    """Finalise commits; return those that are in place now, and add errors to `failures`.

    An error of one stops no other, except OtherFormat: until the next plan retries it, readers by
    the ledger use its staged files.
    """
    done = []
    for n in commits:
        try:
            finalise(store, ledger, n, files)
            done.append(n)
        except OtherFormat:
            raise
        except TidegateError as error:
            logger.error("commit #%d cannot be placed: %s", n, error)
            failures.append(error)
    return done


def roll_forward(
    store: Store, ledger: Ledger, failures: list[TidegateError] | None = None
) -> list[int]:
    """Finalise commits of crashed publishers; return those that are in place now.

    Replaced files that a late copy has put back are moved out of `data/` again. Errors are added
    to `failures` and stop no other commit, except OtherFormat.
    """
    failures = [] if failures is None else failures
    unfinished = unplaced(store, ledger.fold)
    for n in unfinished:
        logger.warning("commit #%d was not in place; placing its files now", n)
    done = finalise_each(store, ledger, unfinished, failures)
    for n in recent_replacements(store, ledger.fold):
        if n in unfinished:
            continue  # finalised just now, or its failure is known
        try:
            _retire_replaced(store, ledger, ledger.commit(n), _move_away)
        except OtherFormat:
            raise
        except TidegateError as refused:
            logger.error("what commit #%d replaces cannot be moved out of data/: %s", n, refused)
            failures.append(refused)
    return done


def unplaced(store: Store, fold: Fold, among: Collection[int] | None = None) -> list[int]:
    """Return the live commits, or those of them in `among`, that are not known to be in place."""
    asked = fold.waiting if among is None else fold.waiting.intersection(among)
    waiting = sorted(n for n in asked if n in fold.live)
    if not waiting:
        return []
    before = posixpath.basename(layout.placed(waiting[0] - 1))
    placed = set(store.names(layout.PLACED, after=before))
    return [n for n in waiting if posixpath.basename(layout.placed(n)) not in placed]


def recent_replacements(store: Store, fold: Fold) -> list[int]:
    """Return the live commits that replace files and were not placed `LATE` seconds ago.

    A copy within an object store goes on when the process that asked for it dies. An earlier one
    may therefore put a replaced file back after it was moved away.
    """
    return [
        n
        for n in sorted(fold.waiting)
        if n in fold.live and fold.live[n].replaces and not _is_settled(store, n)
    ]


def _is_settled(store: Store, n: int) -> bool:
    """Return whether a commit was placed so long ago that no earlier copy is in progress."""
    placed = store.modified(layout.placed(n))
    return placed is not None and time.time() - placed >= LATE


def is_live(fold: Fold, n: int, entry: Commit, file: LakeFile) -> bool:
    """Return whether no later commit has replaced a file of commit `n`."""
    f = file.staged
    return fold.holds(n, entry.topic_ids[f.topic], f.partition, f.first)


def _place(store: Store, file: LakeFile) -> None:
    """Give a file its final name. What lies there with another size goes to quarantine first."""
    source, target, size = file.staged.path, file.final, file.staged.size
    try:
        store.place(source, target, size)
    except LakeDamaged:
        if store.size(target) in (None, size) or store.size(source) != size:
            raise
        move_to_quarantine(store, target, quarantine_directory())
        store.place(source, target, size)


def _retire_replaced(store: Store, ledger: Ledger, entry: Commit, retire: Retire) -> None:
    """Take the files that a commit replaces out of `data/`."""
    for m in dict.fromkeys(part.commit for part in entry.replaces):
        old = ledger.commit(m)
        # What it has replaced itself may still be there, or be there again.
        if old.replaces and not _is_settled(store, m):
            _retire_replaced(store, ledger, old, retire)
        for file in attempts.committed(store, old).files:
            if not is_live(ledger.fold, m, old, file):
                retire(store, m, file)


def _retire(store: Store, n: int, file: LakeFile) -> None:
    """Move a replaced file. Its staged copy is deleted first, so that it cannot be placed again."""
    store.delete(file.staged.path)
    faults.point("publish.retiring")
    _move_away(store, n, file)


def _move_away(store: Store, n: int, file: LakeFile) -> None:
    """Move a replaced file out of `data/`, if it is there."""
    size = store.size(file.final)
    if size is None:
        return
    if size != file.staged.size:
        move_to_quarantine(store, file.final, quarantine_directory())
        return
    store.place(file.final, layout.replaced(n, file.final), size)
    store.delete(file.final)


def move_to_quarantine(store: Store, path: str, directory: str) -> int | None:
    """Move a file into a directory, under the path that it has; return its size, None if gone."""
    size = store.size(path)
    if size is not None:
        store.place(path, directory + path, size)
        store.delete(path)
    return size


def quarantine_directory() -> str:
    """Return a new directory for files that no live commit lists as they are."""
    return f"{layout.QUARANTINE}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}/"
