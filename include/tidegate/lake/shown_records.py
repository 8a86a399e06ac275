"""A few records of a lake, for people to look at: the newest, and those that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core import columns
from tidegate.core.decoding import UNDECODABLE
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.lake.committed_files import files_over, locate_files
from tidegate.lake.footers import open_committed
from tidegate.lake.store_protocol import Store

MOST = 20
LARGEST = 64 * 2**20
"""Bytes of a row group that is read, not compressed. Larger ones are left out."""
_FILES, _FOOTERS = 8, 64  # that are read at most
_AT_ONCE = 256  # rows
_NOT_SHOWN = ("headers", "timestampType")
_PLAIN = ("partition", "offset", "timestamp", "key", "value")
_NOT_TYPED = {*columns.NAMES, UNDECODABLE}
_NEAR = 1_000  # offsets before the cursor of a partition: the last of them may be holes


class ShownRecord(NamedTuple):
    """A record of the lake. `microseconds` is its timestamp, since 1970 in UTC. `typed` are its
    decoded columns, `reason` why they do not fit.
    """

    partition: int
    offset: int
    microseconds: int
    key: bytes | None
    value: bytes | None
    typed: dict[str, Any]
    reason: str | None


def newest_records(store: Store, fold: Fold, topic: str) -> list[ShownRecord]:
    """Return at most `MOST` of the last records of a topic, by time, the newest first.

    They are from the files that were committed last. LakeUnavailable, LakeDamaged.
    """
    cursors = fold.cursors(topic).items()
    window = tuple(OffsetRange(topic, p, max(0, at - _NEAR), at) for p, at in cursors if at)
    paths = [path for _, path in files_over(store, fold, window, fold.topic_ids)]
    return _read(store, reversed(paths), lambda _: True)


def unfit_records(store: Store, fold: Fold, topic: str) -> list[ShownRecord]:
    """Return at most `MOST` records that do not fit their schema, from the newest such files.

    LakeUnavailable, LakeDamaged.
    """
    if not fold.undecodable.get(topic):
        return []
    commits = (
        n
        for n in sorted(fold.live, reverse=True)
        if (found := (fold.live[n].decoded or {}).get(topic)) and found.undecodable
    )
    located = chain.from_iterable(locate_files(store, fold, [n]) for n in commits)
    paths = (path for _, file, path in located if file.topic == topic)
    return _read(store, paths, _has_unfit, lambda rows: rows.filter(pc.is_valid(rows[UNDECODABLE])))


def _has_unfit(group: pq.RowGroupMetaData) -> bool:
    """Say whether a row group has rows with a reason, as far as its statistics tell."""
    chunks = (group.column(i) for i in range(group.num_columns))
    found = next((each for each in chunks if each.path_in_schema == UNDECODABLE), None)
    if found is None:
        return False
    known = found.statistics is not None and found.statistics.has_null_count
    return not known or found.statistics.null_count < group.num_rows


def _read(
    store: Store,
    paths: Iterable[str],
    wanted: Callable[[pq.RowGroupMetaData], bool],
    choose: Callable[[pyarrow.Table], pyarrow.Table] = lambda rows: rows,
) -> list[ShownRecord]:
    """Return records of the last row group that is wanted of each file, the newest first."""
    found: list[ShownRecord] = []
    files = 0
    for _, path in zip(range(_FOOTERS), paths, strict=False):
        with open_committed(store, path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            for number in reversed(range(parquet.num_row_groups)):
                group = parquet.metadata.row_group(number)
                if group.total_byte_size <= LARGEST and wanted(group):
                    found += map(_shown, _last_of(parquet, number, choose))
                    files += 1
                    break
        if files == _FILES:
            break
    found.sort(key=lambda each: (each.microseconds, each.partition, each.offset), reverse=True)
    return found[:MOST]


def _last_of(
    parquet: pq.ParquetFile, number: int, choose: Callable[[pyarrow.Table], pyarrow.Table]
) -> list[dict[str, pyarrow.Scalar]]:
    """Return the last rows of a row group by time. Few are in memory at once: a column that is
    small in the file may be large there.
    """
    names = [name for name in parquet.schema_arrow.names if name not in _NOT_SHOWN]
    last: pyarrow.Table | None = None
    for batch in parquet.iter_batches(_AT_ONCE, row_groups=[number], columns=names):
        rows = pyarrow.Table.from_batches([batch])
        rows = choose(rows.set_column(*_microseconds(rows)))
        both = rows if last is None else pyarrow.concat_tables([last, rows])
        order = [("timestamp", "descending"), ("offset", "descending")]
        last = both.take(pc.select_k_unstable(both, MOST, order))
    kept = last if last is not None else pyarrow.table({})
    return [{name: kept[name][i] for name in kept.column_names} for i in range(len(kept))]


def _microseconds(rows: pyarrow.Table) -> tuple[int, str, Any]:
    """Return the column of timestamps as numbers: Python has not all times that Kafka has."""
    place = rows.column_names.index("timestamp")
    times = rows.column(place).cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64())
    return place, "timestamp", times


def _shown(row: dict[str, pyarrow.Scalar]) -> ShownRecord:
    typed = {name: _value(each) for name, each in row.items() if name not in _NOT_TYPED}
    plain = [row[name].as_py() for name in _PLAIN]
    reason = row[UNDECODABLE].as_py() if UNDECODABLE in row else None
    return ShownRecord._make([*plain, typed, reason])


def _value(found: pyarrow.Scalar) -> Any:
    """Return a value of Python, or, for a time that Python has not, what it is."""
    try:
        return found.as_py()
    except (OverflowError, ValueError):
        return f"a {found.type} before the year 1 or after 9999"
