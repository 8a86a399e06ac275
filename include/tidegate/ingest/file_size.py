"""The number of records per file, so that files have the size that is asked for. The largest rows
decide.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.errors import LakeDamaged
from tidegate.lake import attempts
from tidegate.lake.store_protocol import Store
from tidegate.runs.kafka_protocol import Kafka

_MEASURABLE = 1024 * 1024  # bytes of a topic's files; of smaller ones, footers are a large part
_MOST_SAMPLED = 16  # partitions
_FEW = 256  # records of 1 MiB, a broker's default limit, fit into one file
MOST_RECORDS = 1_000_000
"""Per file, at most, while the size of records is known from a sample only."""
UNKNOWN_RECORDS = 1 << 17
"""Per file, at most, while the size of records is unknown."""


class Density(NamedTuple):
    """The rows of files, and their size in bytes."""

    rows: int
    size: int


def measure_density(store: Store, fold: Fold) -> Density | None:
    """Return rows and bytes of the newest commit, or None before the first."""
    files = _newest_files(store, fold)
    return _density(files) if files else None


def records_per_file(
    store: Store,
    fold: Fold,
    kafka: Kafka,
    chunks: tuple[Window, ...],
    isolation: str,
    size: int,
) -> int:
    """Return the number of records that make a file of about `size` bytes, for every topic of a
    plan.

    Record sizes are those of the newest commit's files; of topics that are not in it, those of a
    sample. Rounded down to a power of two, so that small changes in the data do not change plans.
    """
    measured = _measured(store, fold)
    ranges = [r for window in chunks for r in window]
    sizes = [measured[topic] for topic in {r.topic for r in ranges} & measured.keys()]
    longest: dict[tuple[str, int], OffsetRange] = {}
    for r in ranges:
        if r.topic not in measured and len(r) > _FEW:
            longest[r.topic, r.partition] = max(
                r, longest.get((r.topic, r.partition), r), key=len
            )  # fmt: skip
    chosen = sorted(longest.values(), key=lambda r: (-len(r), r))[:_MOST_SAMPLED]
    most = None
    if chosen:
        sampled = kafka.mean_size(chosen, isolation)
        most = MOST_RECORDS if sampled else UNKNOWN_RECORDS
        sizes += [sampled] if sampled else []
    elif not sizes:
        most = MOST_RECORDS
    limit = 1 << max(0, int(size / max(sizes)).bit_length() - 1) if sizes else MOST_RECORDS
    return limit if most is None else min(limit, most)


def _measured(store: Store, fold: Fold) -> dict[str, float]:
    """Return the bytes per row of the topics that have at least 1 MiB in the newest commit."""
    by_topic: dict[str, list[LakeFile]] = {}
    for file in _newest_files(store, fold):
        by_topic.setdefault(file.topic, []).append(file)
    found = {topic: _density(files) for topic, files in by_topic.items()}
    return {t: each.size / each.rows for t, each in found.items() if each.size >= _MEASURABLE}


def _newest_files(store: Store, fold: Fold) -> list[LakeFile]:
    if not fold.live:
        return []
    try:
        return list(attempts.committed_manifest(store, fold.live[max(fold.live)]).files)
    except LakeDamaged:
        return []  # only the estimate is affected. `verify` reports the damage


def _density(files: list[LakeFile]) -> Density:
    return Density(sum(f.rows for f in files), sum(f.size for f in files))
