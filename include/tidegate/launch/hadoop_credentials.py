"""A file of Hadoop credentials with one secret key, as `HADOOP_TOKEN_FILE_LOCATION` names it.

The format is that of `org.apache.hadoop.security.Credentials` 3.4, version 0: the magic `HDTS`, a
byte for the version, the tokens, then the secret keys as pairs of name and bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

_MAGIC = b"HDTS\0"
_NO_TOKENS = b"\0"


def write_credentials(path: Path, name: str, secret: bytes) -> None:
    """Create the file, readable by its owner only from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(_MAGIC + _NO_TOKENS + _length(1) + _sized(name.encode()) + _sized(secret))


def _sized(value: bytes) -> bytes:
    return _length(len(value)) + value


def _length(number: int) -> bytes:
    """Return a number as `WritableUtils.writeVInt` writes it: up to 127 in a byte of its own."""
    if number <= 127:
        return bytes([number])
    value = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(value)]) + value
