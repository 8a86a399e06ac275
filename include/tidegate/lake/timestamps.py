"""Timestamps of the lake's rows: Kafka may have deleted their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.lake.files import located
from tidegate.lake.footers import opened
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store import Store

_COLUMNS = ["offset", "timestamp"]

Spans = Mapping[int, tuple[int, int]]
"""Per partition the offsets `[start, end)` in which a row is looked for."""


def first_since(
    store: Store, fold: Fold, topic_id: str, spans: Mapping[int, Spans]
) -> dict[int, dict[int, int]]:
    """Return for each moment, per partition, the first row of the lake at or after it.

    `spans` has for each moment (ms since the epoch) where to look. Partitions without such a row
    are missing. Reads the footers of all files there, and of a few the two columns.
    """
    spans = {moment: _with_rows(fold, topic_id, of_moment) for moment, of_moment in spans.items()}
    commits = _commits_over(fold, topic_id, spans.values())
    if not commits:
        return {moment: {} for moment in spans}
    files = sorted(
        (file.staged.partition, file.staged.first, file.staged.last, path)
        for n, file, path in located(store, fold, commits)
        if fold.live[n].topic_ids[file.staged.topic] == topic_id
        and any(
            _meets(of_moment, file.staged.partition, file.staged.first, file.staged.last)
            for of_moment in spans.values()
        )
    )
    latest = list(in_parallel(lambda each: _latest(store, each[3]), files))
    found: dict[int, dict[int, int]] = {}
    for moment, of_moment in spans.items():
        at = found.setdefault(moment, {})
        for (partition, first, last, path), stamp in zip(files, latest, strict=True):
            if partition in at or stamp < moment * 1000:
                continue
            if _meets(of_moment, partition, first, last):
                start, end = of_moment[partition]
                offset = _first_since(store, path, moment * 1000, start)
                if offset is not None and offset < end:
                    at[partition] = offset
    return found


def _with_rows(fold: Fold, topic_id: str, spans: Spans) -> Spans:
    """Return the spans of those partitions that have committed offsets there."""
    return {
        p: span
        for p, span in spans.items()
        if span[0] < span[1] and fold.covered.get((topic_id, p), NOTHING).within(*span)
    }


def _commits_over(fold: Fold, topic_id: str, spans: Iterable[Spans]) -> list[int]:
    """Return the live commits that hold an offset of any span: only their manifests are read."""
    windows = [
        tuple(OffsetRange(topic_id, p, start, end) for p, (start, end) in of_moment.items())
        for of_moment in spans
        if of_moment
    ]
    named = {topic_id: topic_id}
    return sorted({n for window in windows for n in fold.commits_over(window, named)})


def _meets(spans: Spans, partition: int, first: int, last: int) -> bool:
    """Say whether a file with offsets `first` to `last`, inclusive, meets a partition's span."""
    start, end = spans.get(partition, (0, 0))
    return first < end and start <= last


def _latest(store: Store, path: str) -> int:
    """Return the latest timestamp of a file, in microseconds."""
    with opened(store, path) as file:
        metadata = pq.read_metadata(file)
    column = metadata.schema.names.index("timestamp")
    groups = (metadata.row_group(n).column(column) for n in range(metadata.num_row_groups))
    return max(int(group.statistics.max_raw) for group in groups)


def _first_since(store: Store, path: str, microseconds: int, start: int) -> int | None:
    """Return the first offset of a file, from `start` on, that is at or after a moment."""
    with opened(store, path) as file:
        columns = pq.ParquetFile(file).read(columns=_COLUMNS)
    late = pc.greater_equal(columns["timestamp"].cast(pyarrow.int64()), microseconds)
    there = pc.and_(late, pc.greater_equal(columns["offset"], start))
    first = pc.min(columns["offset"].filter(there)).as_py()
    return None if first is None else int(first)
