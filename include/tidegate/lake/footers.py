"""Data files as Parquet: whether they have the lake's columns, and which offsets they hold."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import IO, NamedTuple

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core import canonical, columns, schema
from tidegate.core.decoding import UNDECODABLE
from tidegate.core.files import Contents, LakeFile
from tidegate.core.schema import Fields, Type
from tidegate.errors import AttemptWrong, LakeDamaged
from tidegate.lake.store_protocol import Listed, Store

MOST_REASONS = 20
OTHER_REASONS = "other reasons"
_TAIL = 64 * 1024
_END = 8  # bytes: the length of the metadata, little endian, and "PAR1"
# From a number of Python's PyArrow would import pandas: more work than all checks of a small run.
_ONE = pyarrow.Array.from_buffers(
    pyarrow.int64(), 1, [None, pyarrow.py_buffer((1).to_bytes(8, sys.byteorder))]
)[0]
_ARROW = {
    "bigint": pyarrow.int64(),
    "binary": pyarrow.binary(),
    "boolean": pyarrow.bool_(),
    "date": pyarrow.date32(),
    "double": pyarrow.float64(),
    "float": pyarrow.float32(),
    "int": pyarrow.int32(),
    "smallint": pyarrow.int16(),
    "string": pyarrow.string(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "timestamp_ntz": pyarrow.timestamp("us"),
    "tinyint": pyarrow.int8(),
}
"""PyArrow's type of Spark's, as Parquet files have it."""


def arrow_type(kind: Type) -> pyarrow.DataType:
    """Return PyArrow's type of a column, as Parquet files have it."""
    inner = [pyarrow.field(part.name, arrow_type(part.type)) for part in kind.parts]
    match kind.name:
        case "decimal":
            return pyarrow.decimal128(*(kind.digits or ()))
        case "struct":
            return pyarrow.struct(inner)
        case "array":
            return pyarrow.list_(inner[0].type)
        case "map":
            return pyarrow.map_(inner[0].type, inner[1].type)
    return _ARROW[kind.name]


SCHEMA = pyarrow.schema(
    [(f.name, arrow_type(f.type)) for f in schema.parse_columns(columns.data_file_ddl())]
)
"""The columns of a data file."""
FROM_THE_LEDGER = pyarrow.schema(
    [(name, _ARROW[kind]) for name, kind in columns.FROM_THE_LEDGER.items()]
)


class ParquetFile(NamedTuple):
    """What a Parquet file holds, and the SHA-256 of its footer, by which it is known.

    The pages carry checksums of their own, so the footer's digest is enough. `undecodable` counts,
    in a new file, the rows that do not fit their schema, by reason.
    """

    contents: Contents
    digest: str
    undecodable: Mapping[str, int]


def read_data_file(
    store: Store, listed: Listed, *, is_new: bool = False, decoded: Fields = ()
) -> ParquetFile:
    """Read the footer and the offsets of a data file.

    AttemptWrong if it is not a whole file, an offset occurs twice, or, if it `is_new`, it has not
    exactly the lake's columns and those of `decoded`.
    """
    with _as_wrong(store, listed.path):
        tail = _tail(store, listed)
        footer = tail[-_metadata_length(tail) :]
        metadata = pq.read_metadata(pyarrow.BufferReader(footer))
        if is_new and (wrong := _wrong_columns(metadata, decoded)):
            raise AttemptWrong(
                f"{store.uri(listed.path)}: {wrong}: a Spark setting has changed the files' "
                "columns; look at spark.conf of the pipeline, and at Spark's own defaults"
            )
        rows = None
        if metadata.num_rows:
            # A small file was read as a whole already.
            whole = BytesIO(tail) if len(tail) == listed.size else None
            with whole or store.open(listed.path) as file:
                parquet = pq.ParquetFile(
                    file, metadata=metadata, pre_buffer=True, page_checksum_verification=True
                )
                reasons = [UNDECODABLE] if decoded else []
                rows = parquet.read(columns=["partition", "offset", *reasons])
    try:
        counts = _reasons(rows) if decoded and rows is not None else {}
        return ParquetFile(_contents(rows), canonical.digest(footer), counts)
    except ValueError as error:
        raise AttemptWrong(f"{store.uri(listed.path)}: {error}") from None


def footer_digest(store: Store, listed: Listed) -> str:
    """Return the SHA-256 of a file's footer. AttemptWrong if it has none."""
    # A digest of the whole file would read every byte of a commit again. This one does not cover
    # the pages: `verify` finds a flipped byte by their checksums.
    with _as_wrong(store, listed.path):
        tail = _tail(store, listed)
        return canonical.digest(tail[-_metadata_length(tail) :])


def rows_within(
    store: Store, file: LakeFile, spans: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """Return how many rows of a committed file, which is at `path`, lie in the spans `[start, end)`
    of its partitions, by partition.

    LakeDamaged if that must be looked up and the file is not the one that was committed.
    """
    parts = [part for part in file.parts if part.overlaps(spans)]
    if all(
        spans[part.partition][0] <= part.first and part.last < spans[part.partition][1]
        for part in parts
    ):
        return {part.partition: part.rows for part in parts}
    try:
        if store.size(file.path) == file.size:
            found = read_data_file(store, Listed(file.path, file.size))
            if found.digest == file.digest:
                offsets = found.contents.offsets
                return {
                    part.partition: len(offsets[part.partition].within(*spans[part.partition]))
                    for part in parts
                }
    except AttemptWrong as error:
        raise LakeDamaged(f"{error}; restore it") from error
    raise LakeDamaged(f"{store.uri(file.path)} is not the file that was committed; restore it")


@contextmanager
def open_committed(store: Store, path: str) -> Iterator[IO[bytes]]:
    """Open a Parquet file of a commit. LakeDamaged if it cannot be read as one."""
    try:
        with store.open(path) as file, _as_wrong(store, path):
            yield file
    except AttemptWrong as error:
        raise LakeDamaged(f"{error}; restore it from a copy") from error


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


def _contents(rows: pyarrow.Table | None) -> Contents:
    """Return the offsets of rows, by their columns `partition` and `offset` in file order.

    ValueError for an offset that occurs twice.
    """
    if rows is None:
        return Contents({}, ascending=True)
    partition, offset = (rows[name].combine_chunks() for name in ("partition", "offset"))
    if partition.null_count or offset.null_count:
        raise ValueError("a row without a partition or an offset")
    n = len(rows)
    follows = pc.and_(
        pc.equal(partition[1:], partition[: n - 1]),
        pc.equal(pc.subtract(offset[1:], offset[: n - 1]), _ONE),
    )
    before = pc.indices_nonzero(pc.invert(follows))
    firsts = [offset[0].as_py(), *offset[1:].take(before).to_pylist()]
    lasts = [*offset.take(before).to_pylist(), offset[n - 1].as_py()]
    partitions = [partition[0].as_py(), *partition[1:].take(before).to_pylist()]
    return Contents.of(list(zip(partitions, firsts, lasts, strict=True)))


def _reasons(rows: pyarrow.Table) -> dict[str, int]:
    """Count the rows that do not fit their schema by reason, the most frequent reasons first.

    Beyond `MOST_REASONS` they are counted together.
    """
    found = pc.value_counts(rows[UNDECODABLE].drop_null()).to_pylist()
    counts = Counter({each["values"]: each["counts"] for each in found}).most_common()
    kept = dict(counts[:MOST_REASONS])
    if others := sum(n for _, n in counts[MOST_REASONS:]):
        kept[OTHER_REASONS] = others
    return kept


def _wrong_columns(metadata: pq.FileMetaData, decoded: Fields) -> str | None:
    """Return which columns differ from the lake's and those of `decoded`, or None."""
    expected = pyarrow.schema([*SCHEMA, *((f.name, arrow_type(f.type)) for f in decoded)])
    paths = {metadata.schema.column(i).path for i in range(metadata.num_columns)}
    if differing := sorted(paths ^ {path for field in expected for path in _leaves(field)}):
        return f"columns {', '.join(differing)}"
    found = metadata.schema.to_arrow_schema()
    for name in expected.names:
        if found.field(name).type != expected.field(name).type:
            return f"column {name} is {found.field(name).type}"
    return None


def _leaves(field: pyarrow.Field) -> list[str]:
    """Return the paths of a column's values in Parquet."""
    if pyarrow.types.is_list(field.type):
        return _leaves(pyarrow.field(f"{field.name}.list.element", field.type.value_type))
    if pyarrow.types.is_map(field.type):
        keys = pyarrow.field(f"{field.name}.key_value.key", field.type.key_type)
        items = pyarrow.field(f"{field.name}.key_value.value", field.type.item_type)
        return [*_leaves(keys), *_leaves(items)]
    if pyarrow.types.is_struct(field.type):
        inner = [each for part in field.type for each in _leaves(part)]
        return [f"{field.name}.{each}" for each in inner]
    return [field.name]


def _tail(store: Store, listed: Listed) -> bytes:
    """Return the end of a file, with all of its footer, nearly always by one read: of a bucket, a
    request.

    The size is the one that was listed: of an object that has another one now, these bytes are no
    footer.
    """
    path, size = listed
    if size < _END:
        raise ValueError("cut short")
    tail = store.read(path, max(0, size - _TAIL), size)
    if (length := _metadata_length(tail)) > size:
        raise ValueError("cut short")
    return tail if length <= len(tail) else store.read(path, size - length, size)


def _metadata_length(tail: bytes) -> int:
    """Return the length of a footer: the metadata, their length, little endian, and "PAR1"."""
    return int.from_bytes(tail[-_END:-4], "little") + _END
