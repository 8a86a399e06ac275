"""The content digest of rows in Spark; `tidegate.core.row_digest` defines it."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.core.row_digest import of_file


def row_digest() -> Column:
    """Return the digest of a row to send."""
    # Not by a lambda over the headers: it would switch off Spark's code generation.
    count = F.when(F.col("headers").isNull(), F.lit(0)).otherwise(F.size("headers"))
    return F.xxhash64(
        "file", F.col("row").cast("long"), "topic", *_optional(F.col("key")),
        *_optional(F.col("value")), count, "headers",
    )  # fmt: skip


def file_digest(parts: Iterable[int]) -> str:
    """Return the digest of a file, as text; of each of its `parts` the `bit_xor` of its rows'."""
    return of_file(parts)


def _optional(column: Column) -> tuple[Column, Column]:
    return F.coalesce(F.octet_length(column), F.lit(-1)), column
