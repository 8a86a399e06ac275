"""How the data files of a plan are written: their directories, order, size and compression.

Directories are named as Hive's, by what all rows of a file have in common:
`data/topic=flights/timestamp_day=2026-03-14/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from tidegate.core import columns, schema
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.nearest import did_you_mean
from tidegate.core.schema import Fields

TOPIC, WINDOW_DATE = "topic", "window_date"
DEFAULT = (TOPIC, WINDOW_DATE)
MOST = 4
"""Levels of directories, at most."""
LONGEST_NAME = 64
"""Characters of a column that a directory is named after, at most."""
PLAIN_VALUE = r"\A(?!__HIVE)[A-Za-z0-9_.-]([A-Za-z0-9_. -]{0,38}[A-Za-z0-9_.-])?\z"
"""The texts that are directories' names as they are, as a pattern of Java. For any other one, a
digest is: a text may be longer than a name can be, hold what no name can, or what a JVM in another
locale writes as `?`; or be what Hive writes for null."""

_TIMES = frozenset(("timestamp", "timestamp_ntz"))
# There are no `bucket` and `truncate`, because readers of plain directories cannot use them.
_TYPES: Mapping[str, frozenset[str]] = {
    "month": _TIMES | {"date"},
    "day": _TIMES | {"date"},
    "hour": _TIMES,
    "identity": frozenset(
        ("string", "boolean", "date", "tinyint", "smallint", "int", "bigint")
    ),
}  # fmt: skip
_SUFFIXES = {"identity": "value"}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(\s*([A-Za-z_]\w*)\s*\)\s*", re.ASCII)


@dataclass(frozen=True)
class ParquetSettings(Document):
    """The settings of a plan's data files.

    `level` is that of the codec. None for its own. Within a file, rows are sorted by the columns of
    `sort_by`, or as they were read.
    """

    compression: str
    level: int | None
    max_records_per_file: int
    partition_by: Annotated[tuple[str, ...], OMITTED] = DEFAULT
    sort_by: Annotated[tuple[str, ...], OMITTED] = ()

    @property
    def fields(self) -> tuple[PartitionField, ...]:
        """The levels of directories that depend on rows; ValueError as `parse`."""
        return tuple(parse_field(each) for each in self.partition_by if each not in DEFAULT)

    def directories(self, window_date: str, of_rows: Iterable[str]) -> list[str]:
        """Return the directories of a data file below that of its topic, by those that depend on
        its rows: they are where it was staged.
        """
        found = iter(of_rows)
        return [
            f"{WINDOW_DATE}={window_date}" if each == WINDOW_DATE else next(found)
            for each in self.partition_by[1:]
        ]


class PartitionField(NamedTuple):
    """A transform of a column. `str` is as in `partition_by`."""

    transform: str
    column: str

    def __str__(self) -> str:
        return f"{self.transform}({self.column})"

    @property
    def directory(self) -> str:
        """The name of its directories, before the `=`: no column has it."""
        # Engines put a directory's text in place of a column of its name, with a type that they
        # guess: `007` becomes 7.
        return f"{self.column}_{_SUFFIXES.get(self.transform, self.transform)}"


def parse_field(text: str) -> PartitionField:
    """Return a field of a text such as `day(timestamp)`; ValueError for anything else."""
    found = _CALL.fullmatch(text)
    if not found:
        raise ValueError(
            f"{text!r} is none of {TOPIC}, {WINDOW_DATE}, "
            + ", ".join(f"{each}(COLUMN)" for each in _TYPES)
        )
    transform, column = found[1].lower(), found[2]
    if transform not in _TYPES:
        near = did_you_mean(transform, _TYPES)
        raise ValueError(f"{text!r}: there is no {found[1]}(); there are {', '.join(_TYPES)}{near}")
    if len(column) > LONGEST_NAME:
        raise ValueError(f"{text!r}: a column of more than {LONGEST_NAME} characters")
    return PartitionField(transform, column)


def normalise_partition_by(partition_by: Iterable[str]) -> tuple[str, ...]:
    """Return `partition_by` in one form for each meaning; ValueError as `parse`."""
    return tuple(each if each in DEFAULT else str(parse_field(each)) for each in partition_by)


def complaints(partition_by: Sequence[str], known: Sequence[Fields]) -> list[str]:
    """Return what is wrong with `partition_by` of topics whose decoded columns are `known`."""
    if partition_by[:1] != (TOPIC,):
        return [f"must begin with {TOPIC}: the rows of a file are of one topic"]
    try:
        fields = [parse_field(each) for each in partition_by if each not in DEFAULT]
    except ValueError as error:
        return [str(error)]
    found = []
    if len(partition_by) > MOST:
        found.append(f"has {len(partition_by)} levels; {MOST} at most")
    of_each = [by_name(each) for each in known]
    names = {name for each in of_each for name in each}
    for field in fields:
        types = {each[field.column] for each in of_each if field.column in each}
        if not types:
            found.append(f"{field}: there is no such column{did_you_mean(field.column, names)}")
        for kind in sorted(types - _TYPES[field.transform]):
            allowed = ", ".join(sorted(_TYPES[field.transform])).upper()
            found.append(f"{field}: it is {kind.upper()}, not one of {allowed}")
        if field.directory.lower() in {name.lower() for name in names}:
            found.append(f"{field}: its directories would be named as column {field.directory}")
    levels = [TOPIC, WINDOW_DATE, *(field.directory for field in fields)]
    if len(set(partition_by)) < len(partition_by) or len(set(levels)) < len(levels):
        found.append("one level occurs twice")
    return found


def unsortable(sort_by: Iterable[str], known: Sequence[Fields]) -> list[str]:
    """Return which columns rows cannot be sorted by, and why, as `complaints`."""
    found = []
    of_each = [by_name(each) for each in known]
    for column in sort_by:
        types = {each[column] for each in of_each if column in each}
        if not types:
            near = did_you_mean(column, {name for each in of_each for name in each})
            found.append(f"{column}: there is no such column{near}")
        for kind in sorted(types & {"array", "map", "struct"}):
            found.append(f"{column}: rows are not sorted by {kind.upper()}")
    return found


def by_name(decoded: Fields) -> dict[str, str]:
    """Return the types of a data file's columns by name, with the `decoded` ones."""
    return {
        name: kind.name for name, kind in (*schema.parse_columns(columns.data_file_ddl()), *decoded)
    }


def typed_directory(level: str) -> str:
    """Return a level of directories as a column of DDL, with the type of its values."""
    is_date = level == WINDOW_DATE or level.endswith("_day")
    return f"{level} {'DATE' if is_date else 'STRING'}"


def staged_directories(path: str, fields: Sequence[PartitionField]) -> list[str] | None:
    """Return the directories of a data file of an attempt, `topic=…` first, by its path there.

    None for what Spark has not written as one: committers leave files of their own.
    """
    *directories, name = path.split("/")
    levels = [TOPIC, *(field.directory for field in fields)]
    is_file = [each.partition("=")[0] for each in directories] == levels
    return directories if is_file and name.endswith(".parquet") else None
