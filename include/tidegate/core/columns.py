"""The columns of data files. Writers, readers, checks and the page of formats derive from them."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.core.canonical import FORMAT


class LakeColumn(NamedTuple):
    """A column of the data files. `type` is Spark's, `since` the first format number with it."""

    name: str
    type: str
    meaning: str = ""
    since: int = FORMAT


COLUMNS = (
    LakeColumn("key", "binary", "may be null"),
    LakeColumn("value", "binary", "may be null"),
    LakeColumn("partition", "int", "never null"),
    LakeColumn("offset", "bigint", "never null"),
    LakeColumn("timestamp", "timestamp", "microseconds, UTC"),
    LakeColumn(
        "timestampType",
        "int",
        "0 set by the producer (CreateTime), 1 by the broker (LogAppendTime)",
    ),
    LakeColumn(
        "headers", "array<struct<key:string,value:binary>>", "null if the record has no headers"
    ),
)  # fmt: skip
NAMES = tuple(column.name for column in COLUMNS)
FROM_THE_LEDGER = {"topic": "string", "topic_id": "string"}
"""What readers add to the rows of a file, with its type: no file has it."""


def data_file_ddl() -> str:
    """Return the columns as Spark's DDL. A file of an earlier format reads as null where it has
    none.
    """
    return ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
