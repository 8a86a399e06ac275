"""The ledger in the lake: numbered objects, each created if absent, chained by digest."""

from __future__ import annotations

import json
import logging
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.core import canonical, layout
from tidegate.core.entries import FORMAT, KINDS, Entry
from tidegate.core.ledger import Accepted, Fold, Verdict, judge
from tidegate.errors import LedgerCorrupt
from tidegate.lake.documents import UNREADABLE
from tidegate.lake.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Appended:
    """The entry stands in the ledger as number `n`."""

    n: int


class Ledger:
    """One pipeline's ledger, folded up to the last entry seen."""

    def __init__(self, store: Store, pipeline: str) -> None:
        self._store = store
        self._pipeline = pipeline
        self._writer = secrets.token_hex(8)
        self.fold = Fold()
        highest = self._highest()
        if self.refresh().n < highest:
            # Going on would commit again what the missing entries have committed.
            raise self._corrupt(f"it is missing, and entry {highest} was there")

    def refresh(self) -> Fold:
        """Fold the entries that were added since; LedgerCorrupt names the one that is wrong."""
        while (data := self._store.get(layout.entry(self.fold.n + 1))) is not None:
            try:
                self.fold.apply(self._parsed(data), canonical.digest(data))
            except UNREADABLE as error:
                raise self._corrupt(repr(error)) from None
        return self.fold

    def append(self, entry: Entry, *, run: str) -> Appended | Verdict:
        """Create the entry under the next number, or say why it may not be.

        The judging is done again each time another writer takes the number first.
        """
        while True:
            verdict = judge(self.refresh(), entry)
            if not isinstance(verdict, Accepted):
                return verdict
            n = self.fold.n + 1
            data = canonical.encode(self._envelope(n, entry, run))
            if self._store.create(layout.entry(n), data):
                self.refresh()
                logger.info("%s: ledger entry %d: %s", self._pipeline, n, entry.kind)
                return Appended(n)

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
        form: Mapping[str, Any] = json.loads(data)
        if form["format"] != FORMAT:
            raise ValueError(f"format {form['format']!r}; this is format {FORMAT}")
        if (form["n"], form["pipeline"]) != (n, self._pipeline):
            raise ValueError(f"it says number {form['n']} of pipeline {form['pipeline']!r}")
        if form["previous"] != self.fold.digest:
            raise ValueError(f"it does not follow from entry {n - 1}: one of them was changed")
        return KINDS[form["kind"]].from_json(form)

    def _highest(self) -> int:
        """Return the highest number that any entry, or any sign of one, bears."""
        listed = [*self._store.objects(layout.LOG), *self._store.objects(layout.PLACED)]
        names = (posixpath.basename(each.path)[:20] for each in listed)
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _corrupt(self, cause: str) -> LedgerCorrupt:
        n = self.fold.n + 1
        return LedgerCorrupt(
            f"ledger of {self._pipeline!r}, entry {n} ({self._store.uri(layout.entry(n))}): "
            f"{cause}. Nothing was done; restore this object from a copy, nothing may be "
            "renumbered",
            entry=n,
        )
