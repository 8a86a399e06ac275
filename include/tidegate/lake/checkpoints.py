"""Checkpoints in the lake: opening a long ledger reads one, and the entries after it.

They can be made again from the ledger at any time; losing one loses nothing.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core import canonical, checkpoint, layout
from tidegate.core.ledger import Fold
from tidegate.errors import LakeDamaged, LakeUnavailable
from tidegate.lake import documents
from tidegate.lake.store import Store

KEPT = 3
"""The newest ones stay: whoever has opened one may still ask for its commits."""

logger = logging.getLogger(__name__)


def write(store: Store, pipeline: str, fold: Fold, *, waiting: list[int]) -> int:
    """Write the fold as a checkpoint, and remove all but the newest; return its size in bytes.

    `waiting` are the live commits that are not all in place now.
    """
    lines = checkpoint.lines(fold)
    path = layout.checkpoint_commits(fold.n)
    if not store.create(path, lines):
        raise _changed(store, path)
    whole = checkpoint.head(replace(fold, waiting=set(waiting)))
    form = {
        "format": checkpoint.FORMAT,
        "pipeline": pipeline,
        "commits": {"path": path, "sha256": canonical.digest(lines)},
        "fold": whole,
        "sha256": canonical.digest(canonical.encode(whole)),
    }
    head = canonical.encode(form)
    store.create(layout.checkpoint(fold.n), head)
    _remove_old(store)
    return len(head) + len(lines)


def _remove_old(store: Store) -> None:
    """Keep the newest; of what is older remove also the lines that a killed writer left alone."""
    heads = _numbers(store)
    for n in heads[:-KEPT]:
        store.delete(layout.checkpoint(n))  # first, so that no head is without its lines
    for n in _numbers(store, ".commits"):
        if len(heads) >= KEPT and n < heads[-KEPT]:
            store.delete(layout.checkpoint_commits(n))


def latest(store: Store, pipeline: str) -> Fold | None:
    """Return the fold of the newest checkpoint that can be read; one that cannot is passed over."""
    for n in reversed(_numbers(store)):
        path = layout.checkpoint(n)
        try:
            fold = documents.read(store, path, lambda form: _fold(store, pipeline, form))
        except LakeDamaged as error:
            logger.warning("%s; the ledger is read without it", error)
            continue
        if fold is not None:
            return fold
    return None


def _numbers(store: Store, ending: str = ".json") -> list[int]:
    split = [posixpath.splitext(name) for name in store.names(layout.CHECKPOINTS)]
    return sorted(int(n) for n, end in split if end == ending and n.isdecimal())


def _fold(store: Store, pipeline: str, form: Mapping[str, Any]) -> Fold:
    if (form["format"], form["pipeline"]) != (checkpoint.FORMAT, pipeline):
        raise ValueError(f"format {form['format']!r}, pipeline {form['pipeline']!r}")
    if canonical.digest(canonical.encode(form["fold"])) != form["sha256"]:
        raise ValueError("it was changed")  # one digit of it may hide a million rows
    commits = form["commits"]
    return checkpoint.fold_of(
        form["fold"], lambda: _lines(store, commits["path"], commits["sha256"])
    )


def _lines(store: Store, path: str, sha256: str) -> bytes:
    data = store.get(path)
    if data is None:
        raise LakeUnavailable(f"{store.uri(path)} was removed by a newer checkpoint; try again")
    if canonical.digest(data) != sha256:
        raise _changed(store, path)
    return data


def _changed(store: Store, path: str) -> LakeDamaged:
    return LakeDamaged(
        f"{store.uri(path)} is not what the ledger says; delete {layout.CHECKPOINTS}: `tidegate "
        "checkpoint` makes another from the ledger"
    )
