"""The size of a record, by its columns `key`, `value` and `headers`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

PER_HEADER = 10
"""Bytes that a header needs beside its key and value, at most."""


def record_size() -> Column:
    """Return the bytes of key, value and headers, without those of the batch and the record.

    No expression of it is a lambda: they switch code generation off.
    """
    headers = F.concat_ws("", F.col("headers.key"), F.col("headers.value").cast("array<string>"))
    return (
        _bytes(F.col("key"))
        + _bytes(F.col("value"))
        + F.when(F.col("headers").isNull(), F.lit(0)).otherwise(
            _bytes(headers) + F.size("headers") * PER_HEADER
        )
    )


def _bytes(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
