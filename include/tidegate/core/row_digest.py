"""The digest of a row that is sent, and of a file: the XOR of its rows'.

It is XXH64 of these values in turn, each seeded with the digest of those before it, the first with
42: file, row (8 bytes, little endian), topic; key and value, each after its length; the number of
headers, and the key and value of each; where records keep the timestamps of rows, that in ms (8
bytes). Lengths and the number have 4 bytes, little endian. A length of -1 stands for null and is
followed by nothing. The value of a header that is null adds nothing.
`spark.records.content_digest` computes it of the row, `egress.sent_records` of its record.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import xor

_MASK = 0xFFFFFFFFFFFFFFFF


def combine_digests(digests: Iterable[int]) -> str:
    """Return the digest of a file's rows as 16 hex digits. Their order does not matter."""
    return f"{reduce(xor, digests, 0) & _MASK:016x}"
