"""Rows as the oracle compares them: by digest."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

Where = tuple[str, int]  # topic, partition

_STORED = struct.Struct("<qi16s")
_STORED_COLUMNS = np.dtype([("offset", "<i8"), ("file", "<i4"), ("high", "<u8"), ("low", "<u8")])
_FIXED = struct.Struct("<qiqqq")
_LENGTHS = struct.Struct("<qq")


class Row(NamedTuple):
    """What a row says, its place apart; `timestamp` in microseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    timestampType: int  # the column's name
    headers: Sequence[tuple[str, bytes | None]]

    def digest(self) -> bytes:
        """Return 128 bits; every length goes in first, so that no two rows look alike."""
        sizes = _size(self.key), _size(self.value), len(self.headers)
        fixed = _FIXED.pack(self.timestamp, self.timestampType, *sizes)
        total = blake2b(fixed + (self.key or b"") + (self.value or b""), digest_size=16)
        for name, content in self.headers:
            encoded = name.encode()
            total.update(_LENGTHS.pack(len(encoded), _size(content)))
            total.update(encoded + (content or b""))
        return total.digest()

    def shown(self) -> dict[str, Any]:
        return {
            "key": _shown(self.key),
            "value": _shown(self.value),
            "timestamp": self.timestamp,
            "timestampType": self.timestampType,
            "headers": [[name, _shown(content)] for name, content in self.headers],
        }

    def differences(self, other: Row) -> list[str]:
        found = []
        for name in self._fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine == theirs:
                continue
            if isinstance(mine, bytes) and isinstance(theirs, bytes):
                pairs = enumerate(zip(mine, theirs, strict=False))
                first = next((at for at, (one, two) in pairs if one != two), None)
                name += f" from byte {min(len(mine), len(theirs)) if first is None else first}"
            found.append(name)
        return found


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _shown(content: bytes | None) -> str | None:
    if content is None or len(content) <= 40:
        return None if content is None else repr(content)
    return f"{content[:40]!r}… ({len(content)} bytes)"


class Rows:
    """One side's rows, 28 bytes each: offset, number of the file, digest."""

    def __init__(self) -> None:
        self.stored: dict[Where, bytearray] = {}

    def add(self, where: Where, offset: int, row: Row, *, file: int = 0) -> None:
        if where not in self.stored:
            self.stored[where] = bytearray()
        self.stored[where] += _STORED.pack(offset, file, row.digest())

    def by_offset(self, where: Where) -> np.ndarray:
        found = np.frombuffer(self.stored.get(where, b""), dtype=_STORED_COLUMNS)
        return found[np.argsort(found["offset"], kind="stable")]
