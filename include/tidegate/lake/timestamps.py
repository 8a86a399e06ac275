"""Timestamps of the lake's rows: Kafka may have deleted their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.fold import Fold
from tidegate.core.intervals import NOTHING
from tidegate.core.offsets import OffsetRange
from tidegate.lake.committed_files import locate_files
from tidegate.lake.footers import open_committed
from tidegate.lake.store_protocol import Store

_COLUMNS = ["partition", "offset", "timestamp"]

Spans = Mapping[int, tuple[int, int]]
"""Per partition the offsets `[start, end)` in which a row is looked for."""


def first_since(
    store: Store, fold: Fold, topic_id: str, spans: Mapping[int, Spans]
) -> dict[int, dict[int, int]]:
    """Return for each timestamp, per partition, the first row of the lake at or after it.

    `spans` has for each timestamp (ms since the epoch) where to look. Partitions without such a row
    are missing. Reads the footers of all files there, and of a few these columns.
    """
    spans = {ms: _with_rows(fold, topic_id, each) for ms, each in spans.items()}
    found: dict[int, dict[int, int]] = {ms: {} for ms in spans}
    commits = _commits_over(fold, topic_id, spans.values())
    if not commits:
        return found
    files = [
        (file, path)
        for n, file, path in locate_files(store, fold, commits)
        if fold.live[n].topic_ids[file.topic] == topic_id
        and any(map(file.overlaps, spans.values()))
    ]
    paths = [path for _, path in files]
    newest = dict(
        zip(paths, store.each(lambda path: latest_timestamp(store, path), paths), strict=True)
    )
    parts = sorted((part, path) for file, path in files for part in file.parts)
    for ms, each in spans.items():
        for part, path in parts:
            p = part.partition
            least = found[ms].get(p, part.first + 1)  # files may have offsets between one another's
            if part.first < least and newest[path] >= ms * 1000 and part.overlaps(each):
                offset = _first_since(store, path, ms * 1000, p, each[p])
                if offset is not None:
                    found[ms][p] = min(offset, found[ms].get(p, offset))
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


def latest_timestamp(store: Store, path: str) -> int:
    """Return the latest timestamp of a file, in microseconds."""
    with open_committed(store, path) as file:
        metadata = pq.read_metadata(file)
    column = metadata.schema.names.index("timestamp")
    groups = (metadata.row_group(n).column(column) for n in range(metadata.num_row_groups))
    return max(int(group.statistics.max_raw) for group in groups)


def _first_since(
    store: Store, path: str, microseconds: int, partition: int, span: tuple[int, int]
) -> int | None:
    """Return the first offset of a partition in a file and a span that is at or after a
    timestamp.
    """
    with open_committed(store, path) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        columns = parquet.read(columns=_COLUMNS)
    late = pc.greater_equal(columns["timestamp"].cast(pyarrow.int64()), microseconds)
    there = pc.and_(
        pc.equal(columns["partition"], partition),
        pc.and_(pc.greater_equal(columns["offset"], span[0]), pc.less(columns["offset"], span[1])),
    )
    first = pc.min(columns["offset"].filter(pc.and_(late, there))).as_py()
    return None if first is None else int(first)
