"""Rows as read from a source, each with an identity that every reader computes alike."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

IDENTITY = ("file", "row")
"""The columns of a row's identity: the plan's name of its file, and its place in there."""

WHOLE_FILE = -1
"""In place of a row's number: its fault is why nothing of the file can be sent."""


def no_text() -> Column:
    return F.lit(None).cast("string")


@dataclass(frozen=True)
class RowFrame:
    """The rows, and expressions for each.

    `file` and `row` are its identity; `as_json` is the whole row, `line` the line of a file of JSON
    (None if there is no such form); `fault` is why the row cannot be sent, else null; `text` is
    then the row as far as it is known. `hidden` are columns of the frame that the source has not.
    """

    frame: DataFrame
    file: Column
    row: Column
    as_json: Column | None
    fault: Column
    text: Column
    hidden: tuple[str, ...] = ()
    line: Column | None = None
