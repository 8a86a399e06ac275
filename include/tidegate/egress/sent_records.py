"""Records of egress plans in a target: read by their provenance, without Spark."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import xxhash

from tidegate.core import provenance
from tidegate.core.cluster_answers import Reader, Record
from tidegate.core.offsets import OffsetRange

ISOLATION = "read_uncommitted"
_SEED = 42  # Spark's

Headers = Iterable[tuple[str, bytes | None]]


def records_of(
    read: Reader, target: OffsetRange, plan_id: str, names: Sequence[str]
) -> Iterator[tuple[str, int, Record]]:
    """Yield file, row and record of a plan's records in a range of the target.

    `names` are those of the plan's indexes.
    """
    for record in read(target, ISOLATION):
        said = provenance.provenance_of(record.headers)
        if said and said.plan == plan_id and said.at < len(names):
            yield names[said.at], said.row, record


def own_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers before the last one of provenance. An agent in the producer may append
    more after it.
    """
    own = list(headers)
    names = [name for name, _ in own]
    return own[: len(names) - 1 - names[::-1].index(provenance.HEADER)]


def digest_record(
    file: str,
    row: int,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp: int | None = None,
) -> int:
    """Return the digest of a row by its record and its own headers: see `core.row_digest`.

    `timestamp` in milliseconds, if records keep that of their row.
    """
    pairs = list(headers)
    parts = [file.encode(), struct.pack("<q", row), topic.encode(), *_optional(key)]
    parts += [*_optional(value), struct.pack("<i", len(pairs))]
    for name, content in pairs:
        parts += [name.encode()] if content is None else [name.encode(), content]
    if timestamp is not None:
        parts.append(struct.pack("<q", timestamp))
    digest = _SEED
    for part in parts:
        digest = xxhash.xxh64_intdigest(part, digest)
    return digest


def _optional(data: bytes | None) -> tuple[bytes, ...]:
    if data is None:
        return (struct.pack("<i", -1),)
    return struct.pack("<i", len(data)), data
