"""Source files of an egress: their listing, and the footers of Parquet files."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import IO, Any, NamedTuple

import pyarrow
import pyarrow.parquet as pq

from tidegate.core.plan import Columns, LeftOutFile, SourceFile
from tidegate.core.wording import one_line
from tidegate.errors import SourceUnavailable
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store_protocol import SourceFiles

__all__ = [
    "Listing",
    "changed_files",
    "compression_complaint",
    "digest_content",
    "explain_columns",
    "list_source",
    "read_beginning",
    "read_footers",
    "with_long_lines",
]

LONGEST_LINE = 16 << 20
"""Bytes of a line that is not to blame when an application runs out of memory."""

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


def list_source(source: SourceFiles, *, settle: int, now: datetime | None = None) -> Listing:
    """List the files of a source. SourceUnavailable if there is no such root.

    Names with a part that begins with a dot or an underscore are skipped: Spark and others mark
    unfinished files so.
    """
    settled = ((now or datetime.now(UTC)) - timedelta(seconds=settle)).timestamp()
    files: list[SourceFile] = []
    young: list[SourceFile] = []
    left_out: list[LeftOutFile] = []
    latest = settled
    for each in source.files():
        if isinstance(each, LeftOutFile):
            left_out.append(each)
        else:
            (files if each.modified <= settled else young).append(each.file)
            latest = max(latest, each.modified)
    by_name = sorted(left_out, key=lambda each: each.file)
    settles_in = math.ceil(latest - settled) if young else None
    return Listing(tuple(sorted(files)), tuple(sorted(young)), tuple(by_name), settles_in)


class _Footer(NamedTuple):
    rows: int
    columns: Columns  # sorted by name


def read_footers(
    source: SourceFiles,
    files: Sequence[SourceFile],
    most: int,
    columns: Columns | None = None,
    *,
    any_columns: bool = False,
) -> tuple[Columns | None, Iterator[SourceFile | LeftOutFile]]:
    """Return the columns of Parquet files, and the files: with their row counts, or left out.

    The files end after `most` whole ones with these columns. Without `columns`, those that most of
    the first `most` files have. With `any_columns` none are compared, and None is returned for
    them. SourceUnavailable, also later, if a footer cannot be read now.
    """
    footers: Iterable[tuple[SourceFile, _Footer | str]] = _footers(source, files, most, columns)
    others = "those that were sent before"
    if any_columns:
        return None, (_judged(file, footer, None, "") for file, footer in footers)
    if columns is None:
        footers, others = list(footers), "most others"
        found = Counter(each.columns for _, each in footers if not isinstance(each, str))
        columns = next((each for each, _ in found.most_common(1)), None)
    return columns, (_judged(file, footer, columns or (), others) for file, footer in footers)


def _judged(
    file: SourceFile, footer: _Footer | str, columns: Columns | None, others: str
) -> SourceFile | LeftOutFile:
    if isinstance(footer, str):
        return LeftOutFile(file.name, footer)
    if columns is not None and footer.columns != columns:
        differing = _differences(columns, footer.columns) or ["a name twice"]
        return LeftOutFile(
            file.name,
            f"other columns than {others}: {', '.join(differing)}. Keep them apart by "
            "source.path, or give source.columns",
        )
    return replace(file, rows=footer.rows)


def explain_columns(source: SourceFiles, file: LeftOutFile) -> LeftOutFile:
    """Return a Parquet file that Spark could not read, with the columns that Spark does not know.

    Such a file may be valid. Spark's own errors do not say which column it is.
    """
    try:
        with source.open(file.file) as opened_file:
            schema = pq.read_metadata(opened_file).schema
    except (OSError, ValueError, pyarrow.ArrowException, SourceUnavailable):
        return file
    columns = [schema.column(i) for i in range(len(schema))]
    odd = {c.path: kind for c in columns if (kind := _unknown_to_spark(c))}
    if not odd:
        return file
    named = ", ".join(f"{path} ({kind})" for path, kind in odd.items())
    cure = "write them as other types"
    if not _IN_THE_FOOTER & {*odd.values()}:
        cure += ", or name the other columns in source.columns"
    why = f"{file.reason}. The file may be valid: Spark's reader does not know {named}: {cure}"
    return replace(file, reason=why)


_IN_THE_FOOTER = {"GEOMETRY", "GEOGRAPHY", "UNDEFINED"}
"""Types for which Spark does not read the file, whatever columns it is asked for."""


def _unknown_to_spark(column: pq.ColumnSchema) -> str | None:
    """Return the type of a column if Spark 4.0 does not read it."""
    kind = column.logical_type
    if kind.type in _IN_THE_FOOTER | {"TIME", "FLOAT16", "INTERVAL"}:
        return str(kind.type)
    if kind.type == "TIMESTAMP" and "nanoseconds" in str(kind):
        return "TIMESTAMP in nanoseconds"
    if kind.type == "DECIMAL" and column.physical_type == "BYTE_ARRAY":
        return "DECIMAL in BYTE_ARRAY"
    return None


def read_beginning(source: SourceFiles, name: str, size: int) -> bytes:
    """Return at most so many bytes of a file's beginning. No bytes if it cannot be read now."""
    try:
        with source.open(name) as file:
            return file.read(size)
    except (SourceUnavailable, PermissionError):
        return b""


def digest_content(source: SourceFiles, name: str) -> str | None:
    """Return the SHA-256 of a file's content. None where its etag is of the content.

    SourceUnavailable if it cannot be read now.
    """
    if source.has_content_etags:
        return None
    try:
        with source.open(name) as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK):
                digest.update(block)
            return digest.hexdigest()
    except PermissionError as error:
        raise SourceUnavailable(
            f"source {source.root.url}: {name} may not be read: {one_line(error)}"
        ) from error


def changed_files(source: SourceFiles, files: Sequence[SourceFile]) -> list[str]:
    """Return the names of files that are gone, or are not what they were when planned."""
    listed = list_source(source, settle=0)  # a file that was touched by a clock ahead is young
    now = {file.name: (file.size, file.etag) for file in (*listed.files, *listed.young)}
    return [file.name for file in files if now.get(file.name) != (file.size, file.etag)]


def _footers(
    source: SourceFiles, files: Sequence[SourceFile], most: int, columns: Columns | None
) -> Iterator[tuple[SourceFile, _Footer | str]]:
    """Yield files with their footers, or why they are broken, until `most` are whole and have these
    columns.
    """
    at = fit = 0
    while at < len(files) and fit < most:
        batch = files[at : at + min(_AHEAD, most - fit)]
        footers = list(in_parallel(lambda file: read_footer(source, file.name), batch))
        at += len(batch)
        fit += sum(
            not isinstance(footer, str) and columns in (None, footer.columns) for footer in footers
        )
        yield from zip(batch, footers, strict=True)


def read_footer(source: SourceFiles, name: str) -> _Footer | str:
    """Return a file's footer, or why it is broken. SourceUnavailable if a retry may help."""
    try:
        with source.open(name) as file:
            footer = pq.read_metadata(file)
            if why := _torn_lists(file, footer):
                return why
    except PermissionError as error:
        return f"may not be read: {one_line(error)}"
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if "encrypted" in str(error):
            return "encrypted Parquet: Spark and PyArrow have no keys for it here; decrypt it first"
        return f"not a whole Parquet file: {one_line(error)}"
    try:
        schema = footer.schema.to_arrow_schema()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        return (
            f"Parquet whose schema PyArrow cannot read: {one_line(error)}. Write it with a newer "
            "writer"
        )
    if codec := _unknown_codec(footer):
        return f"compressed by {codec}: write it with zstd, snappy or gzip"
    columns = ((field.name, str(field.type)) for field in schema)
    return _Footer(footer.num_rows, tuple(sorted(columns)))


def _torn_lists(file: IO[bytes], footer: pq.FileMetaData) -> str | None:
    """Return why a file with lists is damaged: the first value of a row group goes on with a list
    that does not begin there. Spark would make rows of it, and other readers refuse it.
    """
    columns = [footer.schema.column(n) for n in range(footer.num_columns)]
    lists = [column.path for column in columns if column.max_repetition_level]
    if not lists:
        return None
    try:
        content = pq.ParquetFile(file, metadata=footer, buffer_size=_PAGE)
        for group in range(footer.num_row_groups):
            next(content.iter_batches(1, [group], lists), None)
    except OSError as error:
        if "repetition level" in str(error):
            return f"damaged: {one_line(error)}. Write it again"
    except (pyarrow.ArrowException, ValueError):
        pass  # what PyArrow does not know, Spark may
    return None


_PAGE = 1 << 16  # bytes that are read at a time
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD"}


def _unknown_codec(footer: pq.FileMetaData) -> str | None:
    """Return the codec of a Parquet file that Spark does not read without further jars."""
    first = footer.row_group(0) if footer.num_row_groups else None
    found = {first.column(n).compression for n in range(first.num_columns)} if first else set()
    return next((codec.lower() for codec in sorted(found - _CODECS)), None)


_FOREIGN = {
    ".lz4": (bytes.fromhex("04224d18"), "lz4", "of the command lz4"),
    ".snappy": (bytes.fromhex("ff060000734e61507059"), "snappy", "in snappy's framing format"),
}
"""By the ending of a name: how a file begins that is not in Hadoop's form of a codec."""


def compression_complaint(source: SourceFiles, name: str) -> str | None:
    """Return why a compressed file of text cannot be read by Hadoop. None if it may be.

    Hadoop takes other forms for lengths, and would ask for more memory than there is.
    """
    ending = name[name.rfind(".") :].lower()
    if ending not in _FOREIGN:
        return None
    begins, codec, what = _FOREIGN[ending]
    if read_beginning(source, name, len(begins)) != begins:
        return None
    return f"{what}, not in Hadoop's form of {codec}: write it with gzip or zstd"


_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BLOCK = 1 << 20


def with_long_lines(
    source: SourceFiles, files: Sequence[SourceFile], ends: bytes
) -> list[LeftOutFile]:
    """Return the files with a line of more than LONGEST_LINE bytes. `ends` are the bytes, any of
    which ends a line.

    An application that has ended by OutOfMemory does not say at which file. One that cannot be read
    here is not named.
    """
    why = (
        f"a line of more than {LONGEST_LINE >> 20} MiB, and Spark ran out of memory: make the line "
        "shorter, or give driver and executors more memory and run with --resend"
    )
    return [LeftOutFile(file.name, why) for file in files if _has_long_line(source, file, ends)]


def _has_long_line(source: SourceFiles, given: SourceFile, ends: bytes) -> bool:
    codec, so_far = _COMPRESSED.get(given.name[given.name.rfind(".") :].lower()), 0
    if given.size <= LONGEST_LINE and codec is None:
        return False
    try:
        with source.open(given.name) as file:
            plain: Any = pyarrow.CompressedInputStream(file, codec) if codec else file
            while block := plain.read(_BLOCK):
                first = min((at for end in ends if (at := block.find(end)) >= 0), default=None)
                if so_far + (len(block) if first is None else first) > LONGEST_LINE:
                    return True
                if first is None:
                    so_far += len(block)
                else:
                    so_far = len(block) - 1 - max(block.rfind(end) for end in ends)
    except (SourceUnavailable, OSError, pyarrow.ArrowException):
        pass
    return False


def _differences(wanted: Columns, found: Columns) -> list[str]:
    first, second = dict(wanted), dict(found)
    return [
        f"{name} {second.get(name, 'missing')} / {first.get(name, 'missing')}"
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]
