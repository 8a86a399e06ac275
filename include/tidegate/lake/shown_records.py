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
"""Bytes in memory of a row group that is read. Larger ones are left out."""
_FILES = 8  # that are opened at most
_PLAIN = ("partition", "offset", "timestamp", "key", "value")
_NOT_TYPED = {*columns.NAMES, UNDECODABLE}
_NEAR = 1_000  # offsets before the cursor of a partition: the last of them may be holes


class ShownRecord(NamedTuple):
    """A record of the lake. `typed` are its decoded columns, `reason` why they do not fit."""

    partition: int
    offset: int
    timestamp: Any
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
    for _, path in zip(range(_FILES), paths, strict=False):
        with open_committed(store, path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            for number in reversed(range(parquet.num_row_groups)):
                group = parquet.metadata.row_group(number)
                if group.total_byte_size > LARGEST or not wanted(group):
                    continue
                rows = choose(parquet.read_row_group(number))
                last = pc.select_k_unstable(
                    rows, MOST, [("timestamp", "descending"), ("offset", "descending")]
                )
                found += map(_shown, rows.take(last).to_pylist())
                break
    found.sort(key=lambda each: (each.timestamp, each.partition, each.offset), reverse=True)
    return found[:MOST]


def _shown(row: dict[str, Any]) -> ShownRecord:
    typed = {name: each for name, each in row.items() if name not in _NOT_TYPED}
    return ShownRecord._make([*(row[name] for name in _PLAIN), typed, row.get(UNDECODABLE)])
