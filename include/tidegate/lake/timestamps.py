"""Timestamps of the lake's rows: Kafka may have deleted their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.accounting import StagedFile
from tidegate.core.fold import Fold
from tidegate.core.intervals import NOTHING
from tidegate.core.offsets import OffsetRange
from tidegate.lake.files import located
from tidegate.lake.footers import opened_committed
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store import Store

_COLUMNS = ["offset", "timestamp"]

Spans = Mapping[int, tuple[int, int]]
"""Per partition the offsets `[start, end)` in which a row is looked for."""


def first_since(
    store: Store, fold: Fold, topic_id: str, spans: Mapping[int, Spans]
) -> dict[int, dict[int, int]]:
    """Return for each timestamp, per partition, the first row of the lake at or after it.

    `spans` has for each timestamp (ms since the epoch) where to look. Partitions without such a row
    are missing. Reads the footers of all files there, and of a few the two columns.
    """
    spans = {ms: _with_rows(fold, topic_id, each) for ms, each in spans.items()}
    found: dict[int, dict[int, int]] = {ms: {} for ms in spans}
    commits = _commits_over(fold, topic_id, spans.values())
    if not commits:
        return found
    files = [
        (file.staged, path)
        for n, file, path in located(store, fold, commits)
        if fold.live[n].topic_ids[file.staged.topic] == topic_id
        and any(_overlaps(each, file.staged) for each in spans.values())
    ]
    files.sort(key=lambda each: (each[0].partition, each[0].first))
    latest = list(in_parallel(lambda each: _latest(store, each[1]), files))
    for ms, each in spans.items():
        for (file, path), newest in zip(files, latest, strict=True):
            p = file.partition
            if p not in found[ms] and newest >= ms * 1000 and _overlaps(each, file):
                start, end = each[p]
                offset = _first_since(store, path, ms * 1000, start)
                if offset is not None and offset < end:
                    found[ms][p] = offset
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
    commits: set[int] = set()
    for each in filter(None, spans):
        window = tuple(OffsetRange(topic_id, p, start, end) for p, (start, end) in each.items())
        commits.update(fold.commits_over(window, {topic_id: topic_id}))
    return sorted(commits)


def _overlaps(spans: Spans, file: StagedFile) -> bool:
    """Return whether a file has offsets in the span of its partition."""
    start, end = spans.get(file.partition, (0, 0))
    return file.first < end and start <= file.last


def _latest(store: Store, path: str) -> int:
    """Return the latest timestamp of a file, in microseconds."""
    with opened_committed(store, path) as file:
        metadata = pq.read_metadata(file)
    column = metadata.schema.names.index("timestamp")
    groups = (metadata.row_group(n).column(column) for n in range(metadata.num_row_groups))
    return max(int(group.statistics.max_raw) for group in groups)


def _first_since(store: Store, path: str, microseconds: int, start: int) -> int | None:
    """Return the first offset of a file, from `start` on, that is at or after a timestamp."""
    with opened_committed(store, path) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        columns = parquet.read(columns=_COLUMNS)
    late = pc.greater_equal(columns["timestamp"].cast(pyarrow.int64()), microseconds)
    there = pc.and_(late, pc.greater_equal(columns["offset"], start))
    first = pc.min(columns["offset"].filter(there)).as_py()
    return None if first is None else int(first)
