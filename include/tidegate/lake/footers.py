"""Parquet footers: rows, bounds and columns of files, without reading their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core import canonical
from tidegate.core.accounting import StagedFile
from tidegate.core.offsets import OffsetRange
from tidegate.errors import AttemptWrong, LakeDamaged
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store import Listed, Store

_TAIL = 64 * 1024
_END = 8  # bytes: the length of the metadata, little endian, and "PAR1"
_COLUMNS = {
    "key": ("BYTE_ARRAY", "None"),
    "value": ("BYTE_ARRAY", "None"),
    "partition": ("INT32", ""),
    "offset": ("INT64", ""),
    "timestamp": ("INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
    "timestampType": ("INT32", ""),
    "headers.list.element.key": ("BYTE_ARRAY", "String"),
    "headers.list.element.value": ("BYTE_ARRAY", "None"),
}
"""Column, its physical type, and how its logical type begins."""


def read_staged(store: Store, files: Sequence[tuple[str, Listed]]) -> list[StagedFile]:
    """Read the footers of (topic, object) pairs that were just written.

    Files without rows are left out: Spark writes one if its first task has none.
    AttemptWrong if one is not a whole file, or has not exactly the contract's columns.
    """
    found = in_parallel(lambda pair: read_footer(store, *pair, is_new=True), files)
    return [f for f in found if f.rows]


def read_footer(store: Store, topic: str, listed: Listed, *, is_new: bool = False) -> StagedFile:
    """Return rows, the bounds of `partition` and `offset`, and the SHA-256 of the footer.

    The bounds of a file without rows are 0.
    The pages carry checksums of their own, so the footer's digest is enough to know the file by.
    """
    with _as_wrong(store, listed.path):
        footer = _footer(store, listed)
        metadata = pq.read_metadata(pyarrow.BufferReader(footer))
        if is_new and (wrong := _wrong_columns(metadata)):
            raise AttemptWrong(
                f"{store.uri(listed.path)}: {wrong}: a Spark setting has changed the files' "
                "columns; look at spark.conf of the pipeline, and at Spark's own defaults"
            )
        partition, other = _bounds(metadata, "partition")
        first, last = _bounds(metadata, "offset")
    if partition != other:
        raise AttemptWrong(f"{store.uri(listed.path)}: holds partitions {partition} to {other}")
    return StagedFile(
        path=listed.path,
        size=listed.size,
        digest=canonical.digest(footer),
        topic=topic,
        partition=partition,
        first=first,
        last=last,
        rows=metadata.num_rows,
    )


def rows_within(store: Store, file: StagedFile, r: OffsetRange) -> int:
    """Return how many rows of a committed file, which is at `path`, lie in a range of offsets.

    LakeDamaged if that must be looked up and the file is not the one that was committed.
    """
    if r.start <= file.first and file.last < r.end:
        return file.rows
    try:
        if store.size(file.path) == file.size:
            footer = read_footer(store, file.topic, Listed(file.path, file.size))
            if footer.digest == file.digest:
                return sum(r.start <= offset < r.end for offset in read_offsets(store, [file]))
    except AttemptWrong as error:
        raise LakeDamaged(f"{error}; restore it") from error
    raise LakeDamaged(f"{store.uri(file.path)} is not the file that was committed; restore it")


def read_offsets(store: Store, files: Iterable[StagedFile]) -> list[int]:
    """Return the `offset` column of one partition's files, sorted."""
    offsets: list[int] = []
    for f in files:
        with opened(store, f.path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            column = parquet.read(columns=["offset"]).column("offset")
        offsets += column.take(pc.sort_indices(column)).to_pylist()
    return sorted(offsets)


@contextmanager
def opened_committed(store: Store, path: str) -> Iterator[IO[bytes]]:
    """Open a Parquet file of a commit; LakeDamaged if it cannot be read as one."""
    try:
        with opened(store, path) as file:
            yield file
    except AttemptWrong as error:
        raise LakeDamaged(f"{error}; restore it from a copy") from error


@contextmanager
def opened(store: Store, path: str) -> Iterator[IO[bytes]]:
    """Open a Parquet file; AttemptWrong if it cannot be read as one."""
    with store.open(path) as file, _as_wrong(store, path):
        yield file


@contextmanager
def _as_wrong(store: Store, path: str) -> Iterator[None]:
    """Raise AttemptWrong for what shows that an object is not a Parquet file.

    Not for a failed read, which the store has raised as an error of its own, or lack of memory.
    """
    try:
        yield
    except (pyarrow.ArrowMemoryError, pyarrow.ArrowCancelled):
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise AttemptWrong(f"{store.uri(path)}: not a whole Parquet file: {error}") from None


def _wrong_columns(metadata: pq.FileMetaData) -> str | None:
    """Return which columns differ from the format of data files, or None."""
    columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    found = {each.path: (each.physical_type, str(each.logical_type)) for each in columns}
    if differing := sorted(found.keys() ^ _COLUMNS.keys()):
        return f"columns {', '.join(differing)}"
    for path, (physical, logical) in _COLUMNS.items():
        if found[path][0] != physical or not found[path][1].startswith(logical):
            return f"column {path} is {' '.join(found[path])}"
    return None


def _bounds(metadata: pq.FileMetaData, column: str) -> tuple[int, int]:
    if not metadata.num_rows:
        return 0, 0
    index = metadata.schema.names.index(column)
    statistics = [
        metadata.row_group(group).column(index).statistics
        for group in range(metadata.num_row_groups)
    ]
    if not statistics or any(s is None or not s.has_min_max for s in statistics):
        raise ValueError(f"no statistics for column {column!r}")
    return min(s.min for s in statistics), max(s.max for s in statistics)


def _footer(store: Store, listed: Listed) -> bytes:
    """Return metadata, its length and "PAR1", nearly always by one read: of a bucket, a request.

    The size is the one that was listed: of an object that has another one now, these bytes are no
    footer.
    """
    path, size = listed
    if size < _END:
        raise ValueError("cut short")
    tail = store.read(path, max(0, size - _TAIL), size)
    length = int.from_bytes(tail[-_END:-4], "little") + _END
    if length > size:
        raise ValueError("cut short")
    if length > len(tail):
        tail = store.read(path, size - length, size)
    return tail[-length:]
