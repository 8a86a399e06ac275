"""When the rows of a lake were written, as far as Kafka cannot tell any more."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.ledger import Fold
from tidegate.lake.footers import opened
from tidegate.lake.publishing import located
from tidegate.lake.store import Store


def first_since(
    store: Store, fold: Fold, topic_id: str, moment: int, log_starts: Mapping[int, int]
) -> dict[int, int]:
    """Return per partition its first offset in the lake, below the log start, at or after a moment.

    `moment` is in ms since the epoch. Partitions without such a row are missing. Reads the two
    columns of the files in their order, up to the first that holds one.
    """
    expired = sorted(
        (file.staged.partition, file.staged.first, path)
        for n, file, path in located(store, fold)
        if fold.live[n].topic_ids[file.staged.topic] == topic_id
        and file.staged.first < log_starts.get(file.staged.partition, 0)
    )
    found: dict[int, int] = {}
    for partition, _, path in expired:
        if partition not in found:
            offset = _first_since(store, path, moment * 1000)
            if offset is not None and offset < log_starts[partition]:
                found[partition] = offset
    return found


def _first_since(store: Store, path: str, microseconds: int) -> int | None:
    with opened(store, path) as file:
        columns = pq.ParquetFile(file).read(columns=["offset", "timestamp"])
    late = pc.greater_equal(columns["timestamp"].cast(pyarrow.int64()), microseconds)
    offset: int | None = pc.min(columns["offset"].filter(late)).as_py()
    return offset
