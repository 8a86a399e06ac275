"""Checkpoints in the lake: opening a long ledger reads one, and the entries after it.

They can be made again from the ledger at any time. Losing one loses nothing.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core import canonical, checkpoint, layout
from tidegate.core.canonical import FORMAT
from tidegate.core.entries import Commit, Reference
from tidegate.core.fold import Fold
from tidegate.core.json_codec import MALFORMED, Document
from tidegate.errors import LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.store_protocol import Store

KEPT = 3
"""The newest ones stay: a process that has opened one may still read its commits."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Document):
    """The document of a checkpoint: the fold without its live commits, and the digest of that.

    `commits` has one line for each of them.
    """

    format: int = FORMAT
    pipeline: str
    commits: Reference
    fold: Mapping[str, Any]
    sha256: str


def write_checkpoint(store: Store, pipeline: str, fold: Fold, *, unsettled: Collection[int]) -> int:
    """Write the fold as a checkpoint, and remove all but the newest. Return its size in bytes.

    `unsettled` are the live commits that are not all in place now, and those whose replaced files a
    late copy may still put back.
    """
    lines = checkpoint.commit_lines(fold)
    path = layout.checkpoint_commits(fold.n)
    if not store.create(path, lines):  # another release left them, or they were changed
        store.delete(layout.checkpoint(fold.n))
        store.delete(path)
        store.create(path, lines)
    whole = checkpoint.fold_head(replace(fold, unsettled=set(unsettled)))
    made = Checkpoint(
        pipeline=pipeline,
        commits=Reference(path, canonical.digest(lines)),
        fold=whole,
        sha256=canonical.digest(canonical.encode(whole)),
    )
    head = canonical.encode(made.to_json())
    store.create(layout.checkpoint(fold.n), head)
    _remove_old(store)
    return len(head) + len(lines)


def _remove_old(store: Store) -> None:
    """Delete all but the newest, and the lines of older ones that a killed writer has left."""
    heads = checkpoint_numbers(store)
    for n in heads[:-KEPT]:
        store.delete(layout.checkpoint(n))  # first, so that no head is without its lines
    for n in checkpoint_numbers(store, ".commits"):
        if len(heads) >= KEPT and n < heads[-KEPT]:
            store.delete(layout.checkpoint_commits(n))


def latest_checkpoint(store: Store, pipeline: str) -> Fold | None:
    """Return the fold of the newest checkpoint that can be read. Others are skipped."""
    for n in reversed(checkpoint_numbers(store)):
        path = layout.checkpoint(n)
        try:
            fold = json_documents.read_document(
                store, path, lambda form: _fold(store, pipeline, Checkpoint.from_json(form))
            )
        except LakeDamaged as error:
            logger.warning("%s; the ledger is read without it", error)
            continue
        if fold is not None:
            return fold
    return None


def checkpoint_numbers(store: Store, ending: str = ".json") -> list[int]:
    """Return the numbers of the entries that have checkpoints."""
    split = [posixpath.splitext(name) for name in store.names(layout.CHECKPOINTS)]
    return sorted(int(n) for n, end in split if end == ending and n.isdecimal())


def checkpoint_differences(store: Store, pipeline: str, fold: Fold) -> tuple[list[str], set[int]]:
    """Return how the checkpoint of entry `fold.n` differs from `fold`, and its unplaced commits.

    A checkpoint may have the digest of its own content, and wrong content.
    """
    path = layout.checkpoint(fold.n)
    where = store.uri(path)
    everything = set(range(1, fold.n + 1))
    try:
        head = json_documents.read_document(store, path, Checkpoint.from_json)
        if head is None:
            return [], everything  # deleted meanwhile, as the oldest
        kept, expected = head.fold, checkpoint.fold_head(fold)
        found = [
            f"the checkpoint {where} has another `{name}` than the entries 1 to {fold.n} add up to"
            for name in sorted(kept.keys() | expected.keys())
            if name != "waiting"  # what was placed since is no difference
            and canonical.encode(kept.get(name)) != canonical.encode(expected.get(name))
        ]
        lines = canonical.digest(checkpoint.commit_lines(fold))
        if head.commits.sha256 != lines:
            found.append(f"the checkpoint {where} names other live commits than there are")
        data = store.get(head.commits.path)
        if data is None or canonical.digest(data) != lines:
            found.append(f"the live commits of the checkpoint {where} are gone, or were changed")
        content = canonical.digest(canonical.encode(kept))
        if (head.pipeline, head.sha256) != (pipeline, content):
            found.append(f"the checkpoint {where} was changed")
        return found, checkpoint.FORMS["unsettled"].read(kept["waiting"])
    except LakeDamaged as error:
        return [str(error)], everything
    except MALFORMED as error:
        return [f"the checkpoint {where} cannot be read: {error!r}"], everything


def _fold(store: Store, pipeline: str, head: Checkpoint) -> Fold:
    if head.pipeline != pipeline:
        raise ValueError(f"pipeline {head.pipeline!r}")
    if canonical.digest(canonical.encode(head.fold)) != head.sha256:
        raise ValueError("it was changed")
    live = checkpoint.FORMS["live"].read(head.fold["live"])
    return checkpoint.fold_of(head.fold, lambda: _lines(store, head.commits, live))


def _lines(store: Store, kept: Reference, numbers: Iterable[int]) -> bytes:
    """Return the lines of live commits; from their entries if they are gone or were changed."""
    data = store.get(kept.path)
    if data is not None and canonical.digest(data) == kept.sha256:
        return data
    logger.warning("%s is gone, or was changed; the entries are read", store.uri(kept.path))
    return b"\n".join(canonical.encode(_commit(store, n).to_json()) for n in numbers)


def _commit(store: Store, n: int) -> Commit:
    path = layout.entry(n)
    if found := json_documents.read_document(store, path, Commit.from_json):
        return found
    raise LakeDamaged(f"{store.uri(path)} was there, and is gone; restore it")
