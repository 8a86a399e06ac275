"""The latest row of each key: the SQL beside a consumer that keeps a map."""

import random
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow

from tidegate.lake.views import latest_rows

COLUMNS = ("topic", "topic_id", "partition", "offset", "timestamp", "key", "value")
Row = tuple[Any, ...]


def latest(rows: Iterable[Sequence[Any]]) -> list[Row]:
    with duckdb.connect() as db:
        columns = zip(*rows, strict=True)
        db.register("a lake", pyarrow.table(dict(zip(COLUMNS, map(list, columns), strict=True))))
        return sorted(db.execute(latest_rows('"a lake"', COLUMNS[:3])).fetchall())


def test_as_a_consumer_that_keeps_a_map() -> None:
    """Two topics, tombstones, records without a key, a topic that got partitions, and one that was
    recreated: its offsets begin again.
    """
    draw = random.Random(7)
    rows: list[Row] = []
    kept: dict[tuple[str, bytes], Row] = {}
    ends: dict[tuple[str, str, int], int] = {}
    for time in range(6_000):
        topic, topic_id = draw.choice([("t", "t1" if time < 3_000 else "t2"), ("u", "u1")])
        key = draw.choice([None, b"", *(f"k{n}".encode() for n in range(300))])
        partition = zlib.crc32(key or b"") % (3 if time < 4_000 else 5)
        value = draw.choice([None, b"", str(time).encode()])
        offset = ends[topic, topic_id, partition] = ends.get((topic, topic_id, partition), -1) + 1
        rows.append((topic, topic_id, partition, offset, time, key, value))
        if key is not None:
            kept[topic, key] = rows[-1]
    moved = {(r[0], r[5], r[2]) for r in rows if r[5] is not None}
    assert len(moved) > len(kept)  # keys whose partition has changed
    draw.shuffle(rows)
    assert latest(rows) == sorted(row for row in kept.values() if row[6] is not None)


def test_in_a_partition_the_offset_counts_and_not_the_time() -> None:
    older, newer = ("t", "i", 0, 7, 900, b"k", b"first"), ("t", "i", 0, 8, 100, b"k", b"last")
    assert latest([older, newer]) == [newer]
    moved, ended = ("t", "i", 1, 0, 901, b"k", b"moved"), ("t", "i", 1, 1, 50, b"k", None)
    assert latest([older, newer, moved]) == [moved]
    assert latest([older, newer, moved, ended]) == []


def test_two_records_of_one_time_in_two_partitions_are_one_row() -> None:
    rows = [("t", "i", p, 0, 5, b"k", b"v") for p in range(3)]
    assert latest(rows) == [rows[2]]


def test_names_that_a_pipeline_may_have() -> None:
    with duckdb.connect() as db:
        row = ("t", "i", 0, 1, 5, b"k", b"v")
        table = pyarrow.table({name: [value] for name, value in zip(COLUMNS, row, strict=True)})
        for name in ("newest", "ranked", "each", "one", "place"):
            db.register(name, table)
            assert db.execute(latest_rows(f'"{name}"', COLUMNS[:3])).fetchall() == [row]
