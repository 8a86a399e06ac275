"""Attempts as the job leaves them: small real Parquet files and `_done.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core import canonical, layout
from tidegate.core.canonical import FORMAT
from tidegate.core.entries import Account, Commit, Origin, Reference
from tidegate.core.intervals import NOTHING
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt, Manifest
from tidegate.lake.footers import SCHEMA
from tidegate.lake.ledger import Ledger

if TYPE_CHECKING:
    from tidegate.lake.store import LocalStore

STAMPED = pa.schema([SCHEMA.field(name) for name in ("partition", "offset", "timestamp")])
TOPIC_IDS = {"t": "id-t", "u": "id-u"}


def plan_of(
    *windows: tuple[OffsetRange, ...],
    pipeline: str = "p",
    topic_ids: Mapping[str, str] = TOPIC_IDS,
) -> Plan:
    """Return a plan with these chunks."""
    return Plan(
        pipeline=pipeline,
        kind="ingest",
        lane="live",
        window_date="2024-05-01",
        cluster_id="cluster",
        isolation="read_committed",
        topics={r.topic: topic_ids[r.topic] for window in windows for r in window},
        chunks=windows,
        destination="here",
        byte_settings={"compression": "zstd", "level": 1, "max_records_per_file": 1000},
    )


def write_file(store: LocalStore, directory: str, name: str, partition, offsets: Iterable[int]):
    """Write one Parquet file of an attempt; `partition` is one number, or one for each row."""
    offsets = list(offsets)
    partitions = [partition] * len(offsets) if isinstance(partition, int) else partition
    rows = {
        "key": [b"k"] * len(offsets),
        "value": [b"%d" % offset for offset in offsets],
        "partition": partitions,
        "offset": offsets,
        "timestamp": [0] * len(offsets),
        "timestampType": [0] * len(offsets),
    }
    path = Path(store.native(directory), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(lake_table(rows), path, compression="zstd", write_page_checksum=True)
    return path


def lake_table(rows: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return rows with all columns of a data file; those that are not given are null."""
    empty = [None] * len(rows["offset"])
    return pa.table({name: rows.get(name, empty) for name in SCHEMA.names}, SCHEMA)


def stage(
    store: LocalStore,
    plan: Plan,
    name: str = "attempt",
    *,
    chunk: int = 0,
    rows: int | None = None,
    files: Mapping[tuple[str, int], Iterable[Iterable[int]]] | None = None,
) -> Attempt:
    """Leave a finished attempt: a file per range of the chunk, or `files` with their offsets."""
    attempt = Attempt(plan.id, chunk, name)
    if files is None:
        files = {(r.topic, r.partition): [range(r.start, r.end)] for r in plan.chunks[chunk]}
    count = 0
    for (topic, partition), each in files.items():
        for i, offsets in enumerate(map(list, each)):
            file = f"topic={topic}/part-{partition:05d}-{i}.c000.zstd.parquet"
            write_file(store, attempt.directory, file, partition, offsets)
            count += len(offsets)
    done = {
        "format": FORMAT,
        "plan_id": plan.id,
        "chunk": chunk,
        "rows": count if rows is None else rows,
        "largest": 9,
        "files": [],
        "versions": {},
    }
    path = Path(store.native(attempt.done_path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(done))
    return attempt


def unfinished(store: LocalStore, attempt: Attempt) -> Attempt:
    """Take back that Spark has finished an attempt: it may be given up when it is old."""
    store.delete(attempt.done_path)
    return attempt


def manifest_of(plan_id: str, files: Iterable[Mapping[str, object]]) -> bytes:
    """Return the manifest of the attempt "a" with these files, without accounts."""
    form = {
        "format": FORMAT, "plan_id": plan_id, "chunk": 0, "attempt": "a", "files": [*files],
        "largest": None, "partitions": {}, "seen": {"epochs": {}}, "versions": {},
    }  # fmt: skip
    return canonical.encode(form)


def no_probe(holes):
    raise AssertionError("there is no hole to probe")


def check(store: LocalStore, plan: Plan, attempt: Attempt, *, probe=no_probe, **given) -> Manifest:
    """Check an attempt; the logs start at 0 unless `log_starts` says otherwise."""
    done = attempts.read_done(store, attempt)
    assert done is not None
    return attempts.check_attempt(
        store,
        plan,
        attempt,
        done,
        probe=probe,
        **{
            "log_starts": {topic: {} for topic in plan.topics},
            "bound": 200,
            "seen": {"topic_ids": dict(plan.topics), "log_starts": {}, "epochs": {}},
            "versions": {"tidegate": "test"},
            **given,
        },
    )


def seal(store: LocalStore, plan: Plan, name: str = "attempt", *, chunk: int = 0) -> Manifest:
    """Leave a sealed attempt."""
    sealed = check(store, plan, stage(store, plan, name, chunk=chunk))
    attempts.create_manifest(store, sealed)
    return sealed


def ledger_of(store: LocalStore, pipeline: str = "p") -> Ledger:
    """Return the pipeline's ledger; a new one gets the origins 0 for t and u."""
    ledger = Ledger(store, pipeline)
    if not ledger.fold.n:
        for topic, topic_id in TOPIC_IDS.items():
            ledger.append(Origin(topic, topic_id, {0: 0, 1: 0}), run="test")
    return ledger


def covered(ledger: Ledger, topic: str, partition: int) -> tuple[tuple[int, int], ...]:
    """Return the committed spans of a partition."""
    return ledger.fold.covered.get((TOPIC_IDS[topic], partition), NOTHING).spans


def commit_stamped(
    store: LocalStore, *parts: tuple[int, int, list[int]], topic_id: str = "id", files: int = 1
) -> None:
    """Commit a file of t with parts (partition, first offset, timestamps of its rows in ms).

    Of one partition: the rows are dealt out to so many `files`.
    """
    plan = "-".join(f"{partition}-{first}" for partition, first, _ in parts)
    rows = [
        {"partition": partition, "offset": first + i, "timestamp": stamp * 1000}
        for partition, first, stamps in parts
        for i, stamp in enumerate(stamps)
    ]
    ends = {partition: first + len(stamps) for partition, first, stamps in parts}
    made = []
    for n in range(files):
        path = f"_tidegate/staging/{plan}-{n}.parquet"
        native = Path(store.native(path))
        native.parent.mkdir(parents=True, exist_ok=True)
        dealt = rows[n::files]
        pq.write_table(pa.Table.from_pylist(dealt, STAMPED), native, row_group_size=3)
        found: dict[int, list[int]] = {}
        for row in dealt:
            found.setdefault(row["partition"], []).append(row["offset"])
        made.append({
            "path": path, "size": native.stat().st_size, "digest": "", "topic": "t",
            "parts": [[p, each[0], each[-1], len(each)] for p, each in found.items()],
            "ascending": True, "final": f"data/{plan}-{n}",
        })  # fmt: skip
    data = manifest_of(plan, made)
    manifest = Reference(layout.manifest(plan, 0, "a"), canonical.digest(data))
    store.create(manifest.path, data)
    accounts = {"t": {p: Account(first, ends[p], len(stamps), 0) for p, first, stamps in parts}}
    Ledger(store, "p").append(
        Commit("live", plan, "", 0, "a", "cluster", {"t": topic_id}, accounts, manifest), run="r"
    )
