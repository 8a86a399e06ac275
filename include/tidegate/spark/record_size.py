"""The size of a record, by its columns `key`, `value` and `headers`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

PER_HEADER = 10
"""Bytes that a header needs beside its key and value, at most."""
# A text, because PySpark asks Java for each part of a Column: 35 ms for these.
_SIZE = f"""
coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)
+ if(
    headers IS NULL,
    0,
    octet_length(concat_ws('', headers.key, CAST(headers.value AS array<string>)))
    + size(headers) * {PER_HEADER}
)
"""


def record_size() -> Column:
    """Return the bytes of key, value and headers, without those of the batch and the record.

    No expression of it is a lambda: they switch code generation off.
    """
    return F.expr(_SIZE)
