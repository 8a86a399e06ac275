"""Repair: finish what crashed publishers left, and take strangers out of `data/`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidegate.core import layout
from tidegate.core.ledger import Fold
from tidegate.errors import LakeDamaged, TidegateError
from tidegate.lake import placing
from tidegate.lake.files import files_of, files_of_each
from tidegate.lake.ledger import Ledger
from tidegate.lake.manifests import LakeFile
from tidegate.lake.store import Listed, Store, open_store
from tidegate.pipelines.spec import Ingest

FORMAT = 1

logger = logging.getLogger(__name__)


def repair(spec: Ingest) -> dict[str, Any]:
    """Place unplaced commits; move files in `data/` that no live commit lists to quarantine.

    A committed file that is gone or cut is placed again from its staged copy, and where there is
    none any more LakeDamaged names it, when all else is done. The ledger is read and never
    written. A manifest that cannot be read stops it before anything is moved.
    """
    store = open_store(spec.lake, spec.name)
    # Listed first: a file is placed only after its commit, so what is listed here and unknown to
    # the ledger that is read next was never committed.
    listed = store.objects(layout.DATA)
    ledger = Ledger(store, spec.name)
    files = _live_files(store, ledger.fold, ledger.fold.live)
    failures: list[TidegateError] = []
    placed = placing.roll_forward(store, ledger, failures)
    known = {file.final: file for each in files.values() for file in each}
    moved = _quarantine(
        store, [each for each in listed if _is_strange(store, each, known.get(each.path))]
    )
    # A run that planned the same once more, in a lake that was rolled back, gives its files the
    # names that strangers had: what it has committed meanwhile is looked at too.
    fold = ledger.refresh()
    files |= _live_files(store, fold, fold.live.keys() - files.keys())
    there = dict(each for each in listed if each not in moved)
    again, damaged = _place_again(store, ledger, files, there)
    if failures := [*damaged, *failures]:
        raise failures[0]
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "placed": sorted({*placed, *again}),
        "quarantined": list(moved.values()),
    }


def _live_files(store: Store, fold: Fold, commits: Iterable[int]) -> dict[int, Sequence[LakeFile]]:
    return dict(files_of_each(store, fold, commits))


def _is_strange(store: Store, listed: Listed, known: LakeFile | None) -> bool:
    """Say whether no live commit lists a file, or lists it otherwise and a better one is there."""
    if known is None:
        return True
    size = known.staged.size
    return listed.size != size and store.size(known.staged.path) == size


def _quarantine(store: Store, strangers: list[Listed]) -> dict[Listed, dict[str, Any]]:
    """Move files to a directory of this repair's own, under the names that they had."""
    directory = placing.quarantine_directory()
    moved = {}
    for each in strangers:
        path = each.path
        size = placing.move_to_quarantine(store, path, directory)
        if size is None:
            continue  # a replace has moved it away meanwhile
        logger.warning("%s: no live commit lists it so; moved to quarantine", store.uri(path))
        moved[each] = {"from": store.uri(path), "to": store.uri(directory + path), "bytes": size}
    return moved


def _place_again(
    store: Store,
    ledger: Ledger,
    files: Mapping[int, Sequence[LakeFile]],
    there: Mapping[str, int],
) -> tuple[list[int], list[LakeDamaged]]:
    """Finalise the commits whose files are not all `there`, by path and size, nor are now."""
    again, damaged = [], []
    for n, each in files.items():
        if all(_is_whole(store, file, there) for file in each) or n not in ledger.refresh().live:
            continue
        lacking = [
            file for file in files_of(store, ledger.fold, n) if not _is_whole(store, file, there)
        ]
        lost = [file for file in lacking if store.size(file.staged.path) != file.staged.size]
        if lost:
            damaged.append(
                LakeDamaged(
                    f"{store.uri(lost[0].final)} is not the file that commit #{n} lists, and its "
                    "staged copy is gone: restore it from a copy"
                )
            )
        elif lacking:
            logger.warning("commit #%d: %d files are placed again", n, len(lacking))
            placing.finalise(store, ledger, n)
            again.append(n)
    return again, damaged


def _is_whole(store: Store, file: LakeFile, there: Mapping[str, int]) -> bool:
    size = file.staged.size
    return there.get(file.final) == size or store.size(file.final) == size
