"""Rows as read from a source, each with an identity that every reader computes alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

IDENTITY = ("file", "row")
"""The columns of a row's identity: the plan's name of its file, and its place in there."""

WHOLE_FILE = -1
"""In place of a row's number: its fault is why nothing of the file can be sent."""


@dataclass
class FileRows:
    """What is known of the rows of a file: good and `bad` ones, and the largest record in bytes.

    `placed` has the good rows and their digest by target partition, None where Kafka chooses.
    `last` is the number of the last row, `unfit` why nothing of the file can be sent.
    """

    file: str
    rows: int = 0
    bad: int = 0
    largest: int = 0
    placed: dict[int | None, tuple[int, int]] = field(default_factory=dict)
    last: int = -1
    unfit: str | None = None


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
