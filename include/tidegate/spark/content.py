"""The content digest of a row that is sent, in Spark; `tidegate.core.row_digest` says of what."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.core import row_digest


def digest() -> Column:
    """Return the digest of a shaped row."""
    headers = F.transform(
        "headers", lambda h: F.struct(*_optional(h["key"]), *_optional(h["value"]))
    )
    count = F.when(F.col("headers").isNull(), F.lit(0)).otherwise(F.size("headers"))
    return F.xxhash64(
        "file", F.col("row").cast("long"), "topic", *_optional(F.col("key")),
        *_optional(F.col("value")), count, headers,
    )  # fmt: skip


def of_file(told: int | None) -> str:
    """Return the digest of all rows of a file, as text, of what `bit_xor` told."""
    return row_digest.of_file([told or 0])


def _optional(column: Column) -> tuple[Column, Column]:
    return F.coalesce(F.octet_length(column), F.lit(-1)), column
