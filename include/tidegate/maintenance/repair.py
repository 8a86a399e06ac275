"""Repair: place the files of crashed publishers, and move unknown files out of `data/`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from tidegate.core import layout
from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document, Name
from tidegate.core.wording import counted
from tidegate.errors import LakeDamaged, TidegateError
from tidegate.lake import placing
from tidegate.lake.committed_files import files_of, files_of_each
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Listed, Store
from tidegate.runs.spec_protocol import IngestSpec

FORMAT = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class QuarantinedFile(Document):
    """A file that was moved to quarantine: the URIs of both places, and its size."""

    source: Annotated[str, Name("from")]
    target: Annotated[str, Name("to")]
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Repaired(Document):
    """The commits whose files were placed, and the files that are now in quarantine."""

    format: int = FORMAT
    pipeline: str
    placed: tuple[int, ...]
    quarantined: tuple[QuarantinedFile, ...]


def repair_lake(spec: IngestSpec, store: Store) -> Repaired:
    """Place unplaced commits. Move files in `data/` that no live commit lists to quarantine.

    A committed file that is missing or truncated is placed again from its staged copy; LakeDamaged
    at the end if that is gone. The ledger is never written. An unreadable manifest stops the repair
    before any file is moved.
    """
    # Listed before the ledger is read: a file is placed only after its commit, so a listed
    # file that the ledger does not know was never committed.
    listed = store.objects(layout.DATA)
    ledger = Ledger(store, spec.name)
    files = _live_files(store, ledger.fold, ledger.fold.live)
    failures: list[TidegateError] = []
    placed = placing.roll_forward(store, ledger, failures)
    committed = {file.final: file for each in files.values() for file in each}
    kept = placing.kept_files(store, ledger)
    moved = _quarantine(
        store,
        [
            each
            for each in listed
            if each.path not in kept and _is_unknown(store, each, committed.get(each.path))
        ],
    )
    # In a lake that was rolled back, a run with the same plan gives its files the names of unknown
    # ones: files that were committed meanwhile are checked, too.
    fold = ledger.refresh()
    files |= _live_files(store, fold, fold.live.keys() - files.keys())
    sizes = dict(each for each in listed if each not in moved)
    again, damaged = _place_again(store, ledger, files, sizes)
    if failures := [*damaged, *failures]:
        raise failures[0]
    return Repaired(
        pipeline=spec.name,
        placed=tuple(sorted({*placed, *again})),
        quarantined=tuple(moved.values()),
    )


def _live_files(store: Store, fold: Fold, commits: Iterable[int]) -> dict[int, Sequence[LakeFile]]:
    return dict(files_of_each(store, fold, commits))


def _is_unknown(store: Store, listed: Listed, file: LakeFile | None) -> bool:
    """Return whether no live commit lists a file, or only its staged copy has the right size."""
    if file is None:
        return True
    size = file.size
    return listed.size != size and store.size(file.path) == size


def _quarantine(store: Store, unknown: list[Listed]) -> dict[Listed, QuarantinedFile]:
    """Move files to a new quarantine directory, under their names."""
    directory = placing.quarantine_directory()
    moved = {}
    for each in unknown:
        path = each.path
        size = placing.move_to_quarantine(store, path, directory)
        if size is None:
            continue  # a replacement has deleted it meanwhile
        logger.warning("%s: no live commit lists it; moved to quarantine", store.uri(path))
        moved[each] = QuarantinedFile(store.uri(path), store.uri(directory + path), size)
    return moved


def _place_again(
    store: Store,
    ledger: Ledger,
    files: Mapping[int, Sequence[LakeFile]],
    sizes: Mapping[str, int],
) -> tuple[list[int], list[LakeDamaged]]:
    """Place again the files whose size is wrong both in `sizes`, as listed, and now."""
    again, damaged = [], []
    for n, each in files.items():
        if all(_is_whole(store, file, sizes) for file in each) or n not in ledger.refresh().live:
            continue
        lacking = [
            file for file in files_of(store, ledger.fold, n) if not _is_whole(store, file, sizes)
        ]
        lost = [file for file in lacking if store.size(file.path) != file.size]
        if lost:
            damaged.append(
                LakeDamaged(
                    f"{store.uri(lost[0].final)} is not the file that commit #{n} lists, and its "
                    "staged copy is gone: restore it from a copy"
                )
            )
        elif lacking:
            logger.warning("commit #%d: placed again: %s", n, counted(len(lacking), "file"))
            placing.finalise(store, ledger, n)
            again.append(n)
    return again, damaged


def _is_whole(store: Store, file: LakeFile, sizes: Mapping[str, int]) -> bool:
    size = file.size
    return sizes.get(file.final) == size or store.size(file.final) == size
