"""The ledger in the lake: numbered objects, each created if absent, chained by digest."""

from __future__ import annotations

import logging
import posixpath
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate import faults
from tidegate.core import canonical, layout
from tidegate.core.canonical import FORMAT
from tidegate.core.entries import KINDS, Commit, Entry, Gap
from tidegate.core.fold import Fold
from tidegate.core.json_codec import MALFORMED, Document
from tidegate.core.judge import Accepted, CutTo, Verdict, judge
from tidegate.errors import (
    ConfigurationError,
    LakeDamaged,
    LakeUnavailable,
    LakeUnsafe,
    LedgerCorrupt,
)
from tidegate.lake import checkpoints, json_documents
from tidegate.lake.store_protocol import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Appended:
    """The entry stands in the ledger as number `n`."""

    n: int


class Ledger:
    """One pipeline's ledger, folded up to the last entry seen.

    Opening it reads the newest checkpoint and the entries after it. `whole` reads every entry,
    `until` those up to a number, for a state of before. `checkpoint` is the number of the last
    entry in that checkpoint, or 0. `watch` is called with each entry before it is added to the
    fold.
    """

    def __init__(
        self,
        store: Store,
        pipeline: str,
        *,
        whole: bool = False,
        until: int | None = None,
        watch: Callable[[Fold, Entry], None] = lambda _, __: None,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._writer = secrets.token_hex(8)
        self._unsafe = False
        self._watch = watch
        is_whole = whole or until is not None
        self.fold = (None if is_whole else checkpoints.latest_checkpoint(store, pipeline)) or Fold()
        self.checkpoint = self.fold.n
        self._checked = 0, ""
        """Number and digest of the last entry when all of the ledger was read or checked."""
        self._read(until)

    def recheck(self) -> None:
        """Refresh, and refuse what opening refuses: for a process that has had it open for long.

        Raises LakeUnsafe, and LedgerCorrupt for entries that are missing or were changed.
        """
        # In a lake that was unmounted meanwhile, the entries of this process alone are there.
        if self._checked[0] != self.fold.n:
            self._check_unchanged(*self._checked)
        self._read()
        self.refuse_unsafe_store()

    def refresh(self) -> Fold:
        """Fold the entries that were added since.

        LedgerCorrupt names the wrong entry, OtherFormat an entry of a newer release.
        """
        while (data := self._store.get(layout.entry(self.fold.n + 1))) is not None:
            self._add(data)
        return self.fold

    def _read(self, until: int | None = None) -> None:
        """Fold all entries, or those up to a number. LedgerCorrupt if one is missing or was
        changed.

        Two listings show the highest number, whether the store is recorded as unsafe, and which
        commits are in place.
        """
        n = self.fold.n
        self._check_unchanged(n, self.fold.digest)
        entries = self._store.names(layout.LOG, after=posixpath.basename(layout.entry(n)))
        self._unsafe = posixpath.basename(layout.UNSAFE_STORE) in entries
        markers = self._store.names(layout.PLACED, after=posixpath.basename(layout.placed(n)))
        placed = _numbers(markers)
        highest = max([n, *_numbers(entries), *placed])
        listed = range(n + 1, (highest if until is None else until) + 1)
        for data in self._store.each(lambda n: self._store.get(layout.entry(n)), listed):
            if data is None:
                # Going on would commit again what the missing entries have committed.
                raise self._corrupt(f"it is missing, and entry {highest} was there")
            self._add(data)
        for m in placed:
            self.mark_placed(m)
        if until is None:
            self.refresh()
        self._checked = self.fold.n, self.fold.digest

    def mark_placed(self, n: int) -> None:
        """Note that the files of a commit are in place: `placing.unplaced_commits` need not look.

        A commit that replaces files is looked at again: a late copy may put those back.
        """
        if n in self.fold.unsettled and n in self.fold.live and not self.fold.live[n].replaces:
            self.fold.unsettled.remove(n)

    def _add(self, data: bytes) -> None:
        try:
            entry = self._parsed(data)
            self._watch(self.fold, entry)
            self.fold.apply(entry, canonical.digest(data))
        except MALFORMED as error:
            raise self._corrupt(repr(error)) from None

    def append(self, entry: Entry, *, run: str) -> Appended | Verdict:
        """Create the entry under the next number, or return the verdict that refuses it.

        The commit loop: a writer that loses the number reads the winner's entry, and its own is
        judged again.
        """
        self.refuse_unsafe_store()
        while True:
            verdict = judge(self.refresh(), entry)
            if not isinstance(verdict, Accepted):
                return verdict
            faults.point("ledger.judged")
            n = self.fold.n + 1
            data = canonical.encode(self._envelope(n, entry, run))
            if self._store.create(layout.entry(n), data):
                self._add(data)
                if not self._checked[0]:
                    self._checked = n, self.fold.digest
                logger.info("%s: ledger entry %d: %s", self._pipeline, n, entry.kind)
                return Appended(n)
            if self.refresh().n < n:  # the next round would be the same
                raise LakeUnavailable(
                    f"ledger of {self._pipeline!r}: the store refuses to create entry {n}, and "
                    "does not show one; nothing was done, try again"
                )

    def refuse_unsafe_store(self) -> None:
        """Raise LakeUnsafe where the doctor has recorded that create-if-absent is not atomic."""
        if self._unsafe:
            raise LakeUnsafe(
                f"ledger of {self._pipeline!r}: `tidegate doctor` saw several writers create one "
                f"name in {self._store.url}: two runs could commit the same offsets. Nothing was "
                "done; use another store, or update this one (`tidegate docs guarantees`), then "
                f"delete {self._store.uri(layout.UNSAFE_STORE)} and run the doctor again"
            )

    def skip(self, gap: Gap, *, run: str) -> list[int]:
        """Record the parts of a gap that are unseen. Return the numbers of their entries."""
        match self.append(gap, run=run):
            case Appended(n):
                return [n]
            case CutTo(parts):
                return [n for part in parts for n in self.skip(part, run=run)]
        return []

    def commit(self, n: int) -> Commit:
        """Return a commit by its number, live or replaced."""
        if n in self.fold.live:
            return self.fold.live[n]
        found = json_documents.read_document(self._store, layout.entry(n), Commit.from_json)
        if found is None:
            raise self._corrupt(f"entry {n} was there, and is gone")
        return found

    def _envelope(self, n: int, entry: Entry, run: str) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "n": n,
            "previous": self.fold.digest,
            "writer": self._writer,
            "kind": entry.kind,
            "pipeline": self._pipeline,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "run": run,
            **entry.to_json(),
        }

    def _parsed(self, data: bytes) -> Entry:
        n = self.fold.n + 1
        uri = self._store.uri(layout.entry(n))
        form: Mapping[str, Any] = json_documents.load_json(data, uri)
        if (form["n"], form["pipeline"]) != (n, self._pipeline):
            raise ValueError(f"it says number {form['n']} of pipeline {form['pipeline']!r}")
        if form["previous"] != self.fold.digest:
            raise ValueError(f"it does not follow from entry {n - 1}: one of them was changed")
        if (kind := form["kind"]) not in KINDS:
            raise json_documents.too_new(uri, f"a ledger entry of kind {kind!r}")
        return KINDS[kind].from_json(form)

    def _check_unchanged(self, n: int, digest: str) -> None:
        """Refuse a ledger if an entry was changed that was read before, or is in a checkpoint."""
        if not n:
            return
        data = self._store.get(layout.entry(n))
        if data is None or canonical.digest(data) != digest:
            state = "is missing" if data is None else "was changed"
            since = "a checkpoint was made of it" if n == self.checkpoint else "it was read"
            raise self._corrupt(f"it {state} since {since}", n=n)

    def _corrupt(self, cause: str, *, n: int | None = None) -> LedgerCorrupt:
        n = self.fold.n + 1 if n is None else n
        return LedgerCorrupt(
            f"ledger of {self._pipeline!r}, entry {n} ({self._store.uri(layout.entry(n))}): "
            f"{cause}. Nothing was done; restore this object from a copy, nothing may be "
            "renumbered",
            entry=n,
        )


@dataclass(frozen=True)
class LastEntry(Document):
    """The last entry of a ledger: its number and kind, and which run wrote it when (ISO 8601)."""

    n: int
    kind: str
    run: str
    at: str


def last_entry(store: Store, fold: Fold) -> LastEntry | None:
    """Return the last entry that was folded. None for no entry."""
    if not fold.n:
        return None
    return json_documents.read_document(store, layout.entry(fold.n), LastEntry.from_json)


def written_at(store: Store, n: int) -> datetime:
    """Return when an entry was written, by the clock of its writer. LakeDamaged if it is gone."""
    form = json_documents.read_document(store, layout.entry(n), dict)
    if form is None:
        raise LakeDamaged(f"entry {n} ({store.uri(layout.entry(n))}) was there, and is gone")
    return datetime.fromisoformat(form["at"])


def as_of(store: Store, pipeline: str, at: int | datetime) -> Fold:
    """Return the state of a ledger after an entry, or after the last one written by a time.

    The time is that of the writers' clocks. ConfigurationError for an entry that there is not.
    """
    last = read_existing(store, pipeline).n
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ConfigurationError(f"the time {at} has no zone")
        n = next((n for n in range(last, 0, -1) if written_at(store, n) <= at), 0)
        if not n:
            raise ConfigurationError(f"pipeline {pipeline!r} has no entry of {at} or earlier")
    elif not 0 < (n := at) <= last:
        raise ConfigurationError(f"pipeline {pipeline!r} has no entry {at}; the last is {last}")
    return Ledger(store, pipeline, until=n).fold


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(n) for name in names if (n := name[:20]).isdecimal()]


def read_existing(store: Store, pipeline: str) -> Fold:
    """Return the state of a ledger. ConfigurationError if it is empty."""
    fold = Ledger(store, pipeline).fold
    refuse_absent(store, fold)
    return fold


def refuse_absent(store: Store, fold: Fold) -> None:
    """Raise ConfigurationError if a ledger has no entry: the lake may be another place.

    LedgerCorrupt if runs have written there, and the ledger is lost.
    """
    if fold.n:
        return
    if store.names(layout.PLACED) or store.objects(layout.DATA):
        raise LedgerCorrupt(
            f"the lake at {store.url} has committed files, and no ledger: it was lost. Nothing was "
            "done; restore `_tidegate/log/` from a copy, and start no run before"
        )
    raise ConfigurationError(
        f"there is no lake at {store.url}: no run has written there. Correct `lake`, or the "
        "variable that it is read from; or start the first run"
    )
