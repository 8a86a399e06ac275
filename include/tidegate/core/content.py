"""The content digest of a row that is sent: computed by Spark of the row, here of its record.

It is XXH64 over these, each with the result for the one before as its seed, the first with 42:
file, row (8 bytes, little endian), topic; then key and value, each with its length before it; then
the number of headers, and for each its key and its value, each with its length before it. Lengths
and the number have 4 bytes, little endian; a length of -1 stands for null, and nothing follows it.
`tidegate.spark.content` is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

SEED = 42
_MASK = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

Headers = Iterable[tuple[str, bytes | None]]


def digest(
    file: str, row: int, topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> int:
    """Return the digest of one row's record; `headers` are its own, without those of provenance."""
    told = xxh64(file.encode(), SEED)
    told = xxh64(struct.pack("<q", row), told)
    told = xxh64(topic.encode(), told)
    told = _optional(value, _optional(key, told))
    own = list(headers)
    told = xxh64(struct.pack("<i", len(own)), told)
    for name, content in own:
        told = _optional(content, _optional(name.encode(), told))
    return told


def of_file(digests: Iterable[int]) -> str:
    """Return the digest of all rows of a file, in whichever order: 16 hex digits."""
    together = 0
    for each in digests:
        together ^= each
    return f"{together & _MASK:016x}"


def _optional(data: bytes | None, seed: int) -> int:
    if data is None:
        return xxh64(struct.pack("<i", -1), seed)
    return xxh64(data, xxh64(struct.pack("<i", len(data)), seed))


def xxh64(data: bytes, seed: int) -> int:
    """Return the XXH64 of some bytes, as 64 bits without a sign."""
    size, at = len(data), 0
    if size >= 32:
        a, b = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK
        c, d = seed & _MASK, (seed - _P1) & _MASK
        at = size & ~31
        for w, x, y, z in struct.iter_unpack("<QQQQ", memoryview(data)[:at]):
            # `_round` of each, written out: a call would take longer than all of it.
            a, b = a + w * _P2 & _MASK, b + x * _P2 & _MASK
            c, d = c + y * _P2 & _MASK, d + z * _P2 & _MASK
            a = (a << 31 & _MASK | a >> 33) * _P1 & _MASK
            b = (b << 31 & _MASK | b >> 33) * _P1 & _MASK
            c = (c << 31 & _MASK | c >> 33) * _P1 & _MASK
            d = (d << 31 & _MASK | d >> 33) * _P1 & _MASK
        told = (_rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)) & _MASK
        for lane in (a, b, c, d):
            told = ((told ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        told = (seed + _P5) & _MASK
    told = (told + size) & _MASK
    while at + 8 <= size:
        told ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        told = (_rotated(told, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        told ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK
        told = (_rotated(told, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        told = _rotated(told ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    told = (told ^ told >> 33) * _P2 & _MASK
    told = (told ^ told >> 29) * _P3 & _MASK
    return told ^ told >> 32


def _round(lane: int, word: int) -> int:
    lane = (lane + word * _P2) & _MASK
    return ((lane << 31 | lane >> 33) & _MASK) * _P1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK
