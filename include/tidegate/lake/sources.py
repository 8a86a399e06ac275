"""Source files of an egress: their listing, and the footers of Parquet files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pyarrow.parquet as pq
from obstore.exceptions import BaseError, PermissionDeniedError
from obstore.store import ObjectStore as Obstore

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.source_root import Root
from tidegate.errors import SourceRefused, SourceUnavailable
from tidegate.lake import source_names
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store import opened, reader
from tidegate.lake.store_errors import one_line

__all__ = ["Listing", "Root", "beginning", "changed", "content", "listing", "read_footers"]

_AHEAD = 64  # footers that are read in advance


@dataclass(frozen=True)
class Listing:
    """The files that match, by name; those changed less than `settle` seconds ago are `young`.

    `settles_in`: seconds until all of these have settled, if nothing changes them.
    `left_out` are those that match and cannot be sent because of their names.
    """

    files: tuple[SourceFile, ...]
    young: tuple[SourceFile, ...]
    left_out: tuple[LeftOutFile, ...] = ()
    settles_in: int | None = None


def listing(root: Root, *, settle: int, now: datetime | None = None) -> Listing:
    """List what matches below a root; SourceUnavailable if there is no such root.

    Names with a part that begins with a dot or an underscore are skipped: Spark and others mark
    unfinished files so.
    """
    settled = ((now or datetime.now(UTC)) - timedelta(seconds=settle)).timestamp()
    files: list[SourceFile] = []
    young: list[SourceFile] = []
    left_out: list[LeftOutFile] = []
    latest = settled
    for each in source_names.list_files(root, _opened(root)):
        if isinstance(each, LeftOutFile):
            left_out.append(each)
        else:
            (files if each.modified <= settled else young).append(each.file)
            latest = max(latest, each.modified)
    by_name = sorted(left_out, key=lambda each: each.file)
    settles_in = math.ceil(latest - settled) if young else None
    return Listing(tuple(sorted(files)), tuple(sorted(young)), tuple(by_name), settles_in)


def read_footers(
    root: Root, files: Sequence[SourceFile], most: int
) -> Iterator[SourceFile | LeftOutFile]:
    """Yield Parquet files with their row counts, and those that are broken.

    Ends after `most` whole ones. SourceRefused if two have different columns, SourceUnavailable if
    a footer cannot be read now.
    """
    store = _opened(root)
    first: tuple[SourceFile, pyarrow.Schema] | None = None
    for file, footer in _footers(root, store, files, most):
        if isinstance(footer, str):
            yield LeftOutFile(file.name, footer)
            continue
        schema = footer.schema.to_arrow_schema().remove_metadata()
        first = first or (file, schema)
        if differing := _differences(first[1], schema):
            raise SourceRefused(
                f"source {root.url}: {file.name} and {first[0].name} have different columns: "
                f"{', '.join(differing)}. Nothing was sent: keep them apart by `source.path`, or "
                "give `source.columns`",
                files=[file.name, first[0].name],
            )
        yield SourceFile(file.name, file.size, file.etag, footer.num_rows)


def beginning(root: Root, name: str, size: int) -> bytes:
    """Return at most so many bytes of a file's beginning; none of one that cannot be read now."""
    try:
        with reader(_opened(root), name, errors=nullcontext) as file:
            return file.read(size)
    except (BaseError, OSError):
        return b""


def content(root: Root, name: str) -> str | None:
    """Return the SHA-256 of a file's content; None in a bucket, whose etag is of the content.

    SourceUnavailable if it cannot be read now.
    """
    if not root.url.startswith("file://"):
        return None
    try:
        with Path(root.path(name)).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceUnavailable(
            f"source {root.url}: {name} cannot be read now: {error.strerror}"
        ) from error


def changed(root: Root, files: Sequence[SourceFile]) -> list[str]:
    """Return the names of files that are gone, or are not what they were when planned."""
    now = {file.name: (file.size, file.etag) for file in listing(root, settle=0).files}
    return [file.name for file in files if now.get(file.name) != (file.size, file.etag)]


def _opened(root: Root) -> Obstore:
    try:
        return opened(root.url)
    except (BaseError, ValueError, OSError) as error:
        raise SourceUnavailable(
            f"source {root.url} cannot be opened: {one_line(error)}; make it, or correct "
            "`source.path`"
        ) from error


def _footers(
    root: Root, store: Obstore, files: Sequence[SourceFile], most: int
) -> Iterator[tuple[SourceFile, pq.FileMetaData | str]]:
    """Yield files with their footers, or why they are broken, until `most` are whole."""
    at = whole = 0
    while at < len(files) and whole < most:
        batch = files[at : at + min(_AHEAD, most - whole)]
        footers = list(in_parallel(lambda file: _footer(root, store, file.name), batch))
        at += len(batch)
        whole += sum(not isinstance(footer, str) for footer in footers)
        yield from zip(batch, footers, strict=True)


def _footer(root: Root, store: Obstore, name: str) -> pq.FileMetaData | str:
    """Return a file's footer, or why it is broken; SourceUnavailable if a retry may help."""

    @contextmanager
    def reading() -> Iterator[None]:
        try:
            yield
        except (PermissionError, PermissionDeniedError):
            raise
        except (BaseError, OSError) as error:
            raise SourceUnavailable(
                f"source {root.url}: {name} cannot be read now: {one_line(error)}. Nothing was sent"
            ) from error

    try:
        with reading():
            file = reader(store, name, errors=reading)
        with file:
            return pq.read_metadata(file)
    except (PermissionError, PermissionDeniedError) as error:
        return f"may not be read: {one_line(error)}"
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        return f"not a whole Parquet file: {one_line(error)}"


def _differences(one: pyarrow.Schema, other: pyarrow.Schema) -> list[str]:
    first, second = ({f.name: str(f.type) for f in schema} for schema in (one, other))
    return [
        f"{name} {second.get(name, 'missing')} / {first.get(name, 'missing')}"
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]
