"""When the rows of a lake were written, as far as Kafka cannot tell any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.ledger import Fold
from tidegate.lake.footers import opened
from tidegate.lake.publishing import located
from tidegate.lake.store import Store

_AT_ONCE = 8
_COLUMNS = ["offset", "timestamp"]


def first_since(
    store: Store, fold: Fold, topic_id: str, moments: Iterable[int], log_starts: Mapping[int, int]
) -> dict[int, dict[int, int]]:
    """Return for each moment, per partition, the first offset at or after it below the log start.

    Moments are in ms since the epoch. Partitions without such a row in the lake are missing. Reads
    the footers of all files there, and of a few the two columns.
    """
    expired = sorted(
        (file.staged.partition, file.staged.first, path)
        for n, file, path in located(store, fold)
        if fold.live[n].topic_ids[file.staged.topic] == topic_id
        and file.staged.first < log_starts.get(file.staged.partition, 0)
    )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        latest = list(pool.map(lambda each: _latest(store, each[2]), expired))
    found: dict[int, dict[int, int]] = {}
    for moment in moments:
        at = found.setdefault(moment, {})
        for (partition, _, path), last in zip(expired, latest, strict=True):
            if partition not in at and last >= moment * 1000:
                offset = _first_since(store, path, moment * 1000)
                if offset < log_starts[partition]:
                    at[partition] = offset
    return found


def _latest(store: Store, path: str) -> int:
    """Return the latest timestamp of a file, in microseconds."""
    with opened(store, path) as file:
        metadata = pq.read_metadata(file)
    column = metadata.schema.names.index("timestamp")
    groups = (metadata.row_group(n).column(column) for n in range(metadata.num_row_groups))
    return max(int(group.statistics.max_raw) for group in groups)


def _first_since(store: Store, path: str, microseconds: int) -> int:
    """Return the first offset of a file at or after a moment that it reaches."""
    with opened(store, path) as file:
        columns = pq.ParquetFile(file).read(columns=_COLUMNS)
    late = pc.greater_equal(columns["timestamp"].cast(pyarrow.int64()), microseconds)
    return int(pc.min(columns["offset"].filter(late)).as_py())
