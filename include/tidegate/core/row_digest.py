"""The digest of a row that is sent. Spark computes it of the row, this module of its record.

It is XXH64 of these values in turn, each seeded with the digest of those before it, the first with
42: file, row (8 bytes, little endian), topic; key and value, each after its length; the number of
headers, and the key and value of each. Lengths and the number have 4 bytes, little endian; a length
of -1 stands for null and is followed by nothing. The value of a header that is null adds nothing.
`spark.content_digest` computes the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import reduce
from operator import xor

SEED = 42
_MASK = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

Headers = Iterable[tuple[str, bytes | None]]


def of_row(
    file: str, row: int, topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> int:
    """Return the digest of one row's record; `headers` are those of the row, without provenance."""
    digest = xxh64(file.encode(), SEED)
    digest = xxh64(struct.pack("<q", row), digest)
    digest = xxh64(topic.encode(), digest)
    digest = _optional(value, _optional(key, digest))
    pairs = list(headers)
    digest = xxh64(struct.pack("<i", len(pairs)), digest)
    for name, content in pairs:
        digest = xxh64(name.encode(), digest)
        digest = digest if content is None else xxh64(content, digest)
    return digest


def of_file(digests: Iterable[int]) -> str:
    """Return the digest of a file's rows as 16 hex digits; their order does not matter."""
    return f"{reduce(xor, digests, 0) & _MASK:016x}"


def _optional(data: bytes | None, seed: int) -> int:
    if data is None:
        return xxh64(struct.pack("<i", -1), seed)
    return xxh64(data, xxh64(struct.pack("<i", len(data)), seed))


def xxh64(data: bytes, seed: int) -> int:
    """Return the XXH64 of `data` as an unsigned integer."""
    size, at = len(data), 0
    if size >= 32:
        a, b = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK
        c, d = seed & _MASK, (seed - _P1) & _MASK
        at = size & ~31
        for w, x, y, z in struct.iter_unpack("<QQQQ", memoryview(data)[:at]):
            # `_round` of each, inlined: a call would take longer than the rest.
            a, b = a + w * _P2 & _MASK, b + x * _P2 & _MASK
            c, d = c + y * _P2 & _MASK, d + z * _P2 & _MASK
            a = (a << 31 & _MASK | a >> 33) * _P1 & _MASK
            b = (b << 31 & _MASK | b >> 33) * _P1 & _MASK
            c = (c << 31 & _MASK | c >> 33) * _P1 & _MASK
            d = (d << 31 & _MASK | d >> 33) * _P1 & _MASK
        digest = (_rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)) & _MASK
        for lane in (a, b, c, d):
            digest = ((digest ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        digest = (seed + _P5) & _MASK
    digest = (digest + size) & _MASK
    while at + 8 <= size:
        digest ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        digest = (_rotated(digest, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        digest ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK
        digest = (_rotated(digest, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        digest = _rotated(digest ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    digest = (digest ^ digest >> 33) * _P2 & _MASK
    digest = (digest ^ digest >> 29) * _P3 & _MASK
    return digest ^ digest >> 32


def _round(lane: int, word: int) -> int:
    lane = (lane + word * _P2) & _MASK
    return ((lane << 31 | lane >> 33) & _MASK) * _P1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK
