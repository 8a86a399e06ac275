"""Files of the lake as the ledger lists them: each committed row exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypedDict

from tidegate.core.entries import Commit
from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.core.locations import without_scheme
from tidegate.core.offsets import Window
from tidegate.lake import attempts
from tidegate.lake.placing import is_live, unplaced_commits
from tidegate.lake.store_protocol import Store


def files_of(store: Store, fold: Fold, n: int) -> list[LakeFile]:
    """Return the files of a live commit that no later one has replaced."""
    return _live_of(store, fold, n, fold.live[n])


def files_of_each(
    store: Store, fold: Fold, commits: Iterable[int]
) -> Iterator[tuple[int, list[LakeFile]]]:
    """Yield live commits with their files, in order. Several manifests are read at a time."""
    # Looked up first: of a checkpoint the commits are read when the first one is asked for.
    entries = {n: fold.live[n] for n in commits}
    found = store.each(lambda n: _live_of(store, fold, n, entries[n]), entries)
    yield from zip(entries, found, strict=True)


def _live_of(store: Store, fold: Fold, n: int, entry: Commit) -> list[LakeFile]:
    listed = attempts.committed_manifest(store, entry).files
    return [file for file in listed if is_live(fold, n, entry, file)]


class CommittedPart(TypedDict):
    """The rows of one partition in a file: offsets `first` to `last`, both inclusive."""

    partition: int
    first: int
    last: int
    rows: int


class CommittedFile(TypedDict):
    """A file of the lake (contract: `files --json`), with its parts in the order of partitions.

    `uri` is its final name once its commit is placed, else the staged one. `path` the same without
    scheme and encoding: of a bucket, its name and the key.
    """

    uri: str
    path: str
    topic: str
    topic_id: str
    cluster_id: str
    parts: list[CommittedPart]
    rows: int
    bytes: int
    plan_id: str
    commit: int


def live_files(store: Store, fold: Fold) -> list[CommittedFile]:
    """List every file of the lake, each row exactly once."""
    return [live_file(store, fold, *each) for each in locate_files(store, fold)]


def live_file(store: Store, fold: Fold, n: int, file: LakeFile, path: str) -> CommittedFile:
    """Return a file of commit `n`, which lies at `path` now."""
    commit = fold.live[n]
    return {
        "uri": store.uri(path),
        "path": without_scheme(store.native(path)),
        "topic": file.topic,
        "topic_id": commit.topic_ids[file.topic],
        "cluster_id": commit.cluster_id,
        "parts": committed_parts(file),
        "rows": file.rows,
        "bytes": file.size,
        "plan_id": commit.plan_id,
        "commit": n,
    }


def committed_parts(file: LakeFile) -> list[CommittedPart]:
    """Return the parts of a file as the JSON documents of commands have them."""
    return [
        {"partition": p, "first": first, "last": last, "rows": rows}
        for p, first, last, rows in file.parts
    ]


def files_over(
    store: Store, fold: Fold, window: Window, topic_ids: Mapping[str, str]
) -> list[tuple[LakeFile, str]]:
    """Return the files that hold any offset of a window, and where each lies now."""
    wanted: dict[str, dict[int, tuple[int, int]]] = {}
    for r in window:
        wanted.setdefault(topic_ids[r.topic], {})[r.partition] = r.start, r.end
    return [
        (file, path)
        for n, file, path in locate_files(store, fold, fold.commits_over(window, topic_ids))
        if file.overlaps(wanted.get(fold.live[n].topic_ids[file.topic], {}))
    ]


def locate_files(
    store: Store, fold: Fold, commits: Iterable[int] | None = None
) -> Iterator[tuple[int, LakeFile, str]]:
    """Yield each live file of some commits, else of all: the commit, the file, where it lies."""
    waiting = set(unplaced_commits(store, fold))
    for n, files in files_of_each(store, fold, fold.live if commits is None else commits):
        for file in files:
            yield n, file, file.path if n in waiting else file.final
