"""Placing: the files of commits get their final names under `data/`, replaced ones are deleted.

Everything here may be repeated, by any process, at any time after the commit.
"""

from __future__ import annotations

import functools
import logging
import posixpath
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate import faults
from tidegate.core import layout
from tidegate.core.entries import Commit
from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.errors import LakeDamaged, OtherFormat, TidegateError
from tidegate.lake import attempts
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store

LATE = 24 * 3600.0
"""Seconds after a commit was placed in which an earlier copy may still complete."""

Clock = Callable[[], float]
"""Returns the time by the clock that dates the lake's objects, in seconds since the epoch."""

Files = Callable[[int, Commit], Sequence[LakeFile] | None]
"""The files of a commit, by its number and entry, where they are known; else None."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Replacement:
    """The files that commit `n` has replaced. They stay under `data/` for `keep` seconds.

    Ages are by the clock of the store.
    """

    n: int
    keep: int
    files: tuple[LakeFile, ...]

    def is_due(self, store: Store, clock: Clock) -> bool:
        """Return whether the files have been kept long enough."""
        return not self.keep or _age(store, layout.entry(self.n), clock) >= self.keep

    def is_settled(self, store: Store, fold: Fold, clock: Clock) -> bool:
        """Return whether the files were due a day ago, so that no copy of one is in progress.

        A copy may begin until the commit is placed. If the files are kept, or the commit was
        replaced itself and may never be placed, the day begins when they were due.
        """
        if self.keep or self.n not in fold.live:
            return _age(store, layout.entry(self.n), clock) >= self.keep + LATE
        return _age(store, layout.placed(self.n), clock) >= LATE


def finalise(store: Store, ledger: Ledger, n: int, files: Files = lambda _, __: None) -> None:
    """Make `data/` what commit `n` says: its files are placed, then those it replaces are deleted.

    Idempotent. Only live files are placed. If another commit replaces them meanwhile, their staged
    copies are gone, or what was placed is deleted again. A lost file stops no other; LakeDamaged
    names it at the end, and the commit stays unplaced. `files` returns those of the commit if its
    manifest need not be read.
    """
    entry = ledger.commit(n)
    for each in _replacements(store, ledger, n) if entry.replaces else ():
        if not each.keep:
            for file in each.files:  # a paused finaliser then has nothing to place
                store.delete(file.path)
                faults.point("publish.retiring")
    listed = files(n, entry) or attempts.committed_manifest(store, entry).files
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
    dead = [file for file in listed if not is_live(ledger.fold, n, entry, file)]
    kept = kept_files(store, ledger) if dead else set()
    for file in dead:
        if file.final not in kept:
            store.delete(file.path)
            _delete(store, file)
    if lost:
        raise lost[0]
    if entry.replaces:
        _delete_replaced(store, ledger, n, _clock_of(store))
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
    """Finalise commits. Return those that are in place now, and add errors to `failures`.

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
    """Finalise commits of crashed publishers. Return those that are in place now.

    Replaced files are deleted when they are due, and again if a late copy has put them back. Errors
    are added to `failures` and stop no other commit, except OtherFormat.
    """
    failures = [] if failures is None else failures
    unfinished = unplaced_commits(store, ledger.fold)
    for n in unfinished:
        logger.warning("commit #%d was not in place; placing its files now", n)
    done = finalise_each(store, ledger, unfinished, failures)
    clock = _clock_of(store)
    for n in uncleared_replacements(store, ledger.fold):
        if n in unfinished:
            continue  # finalised just now, or its failure is known
        try:
            _delete_replaced(store, ledger, n, clock, clear=True)
        except OtherFormat:
            raise
        except TidegateError as refused:
            logger.error("what commit #%d replaces cannot be deleted: %s", n, refused)
            failures.append(refused)
    return done


def unplaced_commits(store: Store, fold: Fold, among: Collection[int] | None = None) -> list[int]:
    """Return the live commits, or those of them in `among`, that are not known to be in place."""
    asked = fold.unsettled if among is None else fold.unsettled.intersection(among)
    waiting = sorted(n for n in asked if n in fold.live)
    if not waiting:
        return []
    before = posixpath.basename(layout.placed(waiting[0] - 1))
    placed = set(store.names(layout.PLACED, after=before))
    return [n for n in waiting if posixpath.basename(layout.placed(n)) not in placed]


def uncleared_replacements(store: Store, fold: Fold) -> list[int]:
    """Return the live commits that replace files which may be under `data/`.

    They are kept there for a while, or a copy within an object store puts one back: it goes on when
    the process that asked for it dies.
    """
    asked = sorted(n for n in fold.unsettled if n in fold.live and fold.live[n].replaces)
    if not asked:
        return []
    cleared = set(store.names(layout.PLACED, after=posixpath.basename(layout.placed(asked[0]))))
    return [n for n in asked if posixpath.basename(layout.cleared(n)) not in cleared]


def kept_files(store: Store, ledger: Ledger) -> set[str]:
    """Return the final names of replaced files that stay under `data/` for now.

    Files whose manifest is lost or damaged are not among them: `verify` reports that.
    """
    kept: set[str] = set()
    for n in uncleared_replacements(store, ledger.fold):
        with suppress(LakeDamaged):
            for each in _replacements(store, ledger, n):
                kept |= {file.final for file in each.files} if each.keep else set()
    return kept


def is_live(fold: Fold, n: int, entry: Commit, file: LakeFile) -> bool:
    """Return whether no later commit has replaced a file of commit `n`."""
    return fold.holds(n, entry.topic_ids[file.topic], *file.any_offset)


def _place(store: Store, file: LakeFile) -> None:
    """Give a file its final name. What lies there with another size goes to quarantine first."""
    source, target, size = file.path, file.final, file.size
    try:
        store.place(source, target, size)
    except LakeDamaged:
        if store.size(target) in (None, size) or store.size(source) != size:
            raise
        move_to_quarantine(store, target, quarantine_directory())
        store.place(source, target, size)


def _replacements(store: Store, ledger: Ledger, n: int) -> Iterator[Replacement]:
    """Yield what commit `n` has replaced, then what the replaced commits had replaced in turn.

    A chain ends at a commit whose replaced files are deleted for good, by its marker.
    """
    waiting, seen = [n], set[int]()
    while waiting:
        replacing = waiting.pop()
        if replacing in seen:
            continue
        seen.add(replacing)
        if replacing != n and store.size(layout.cleared(replacing)) is not None:
            continue
        entry, files = ledger.commit(replacing), list[LakeFile]()
        for m in dict.fromkeys(part.commit for part in entry.replaces):
            old = ledger.commit(m)
            if old.replaces:
                waiting.append(m)
            parts = [part.range for part in entry.replaces if part.commit == m]
            committed = attempts.committed_manifest(store, old).files
            files += [file for file in committed if any(map(file.stands_in, parts))]
        yield Replacement(replacing, entry.keep_replaced, tuple(files))


def _delete_replaced(
    store: Store, ledger: Ledger, n: int, clock: Clock, *, clear: bool = False
) -> None:
    """Delete the replaced files that are due, the oldest first.

    With `clear`, mark the commits whose files can no longer come back.
    """
    for each in sorted(_replacements(store, ledger, n), key=lambda each: each.n):
        if not each.is_due(store, clock):
            clear = False
            continue
        for file in each.files:
            if each.keep:
                store.delete(file.path)
            _delete(store, file)
        clear = clear and each.is_settled(store, ledger.fold, clock)
        if clear:
            store.create(layout.cleared(each.n), b"")


def _delete(store: Store, file: LakeFile) -> None:
    """Delete a replaced file, if it is under `data/`. Another one with its name is kept aside."""
    size = store.size(file.final)
    if size is None:
        return
    if size != file.size:
        move_to_quarantine(store, file.final, quarantine_directory())
    else:
        store.delete(file.final)


def move_to_quarantine(store: Store, path: str, directory: str) -> int | None:
    """Move a file into a directory, under the path that it has. Return its size, None if gone."""
    size = store.size(path)
    if size is not None:
        store.place(path, directory + path, size)
        store.delete(path)
    return size


def quarantine_directory() -> str:
    """Return a new directory for files that no live commit lists as they are."""
    return f"{layout.QUARANTINE}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}/"


def _age(store: Store, path: str, clock: Clock) -> float:
    """Return how many seconds ago an object was written. Less than 0 if it does not exist."""
    written = store.modified(path)
    return -1.0 if written is None else clock() - written


def _clock_of(store: Store) -> Clock:
    """Return the store's clock, which is asked at most once: it costs three requests."""
    return functools.cache(lambda: store_clock(store))


def store_clock(store: Store) -> float:
    """Return the time by the clock that dates the lake's objects."""
    path = f"{layout.PROBES}{secrets.token_hex(8)}"
    store.create(path, b"")
    try:
        return store.modified(path) or 0.0
    finally:
        store.delete(path)
