"""Verify: compare the lake with the ledger, and with Kafka."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core import columns, layout
from tidegate.core.cluster_answers import NotUtf8, Reader, Record, Survey, are_equal
from tidegate.core.entries import Account, Commit
from tidegate.core.files import LakeFile
from tidegate.core.fold import Fold
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.offsets import OffsetRange
from tidegate.core.wording import counted
from tidegate.errors import AttemptWrong, BrokerError, LakeDamaged
from tidegate.lake import audit, footers, placing, plans
from tidegate.lake.attempts import Manifest
from tidegate.lake.footers import open_committed
from tidegate.lake.ledger import Ledger, refuse_absent
from tidegate.lake.store_protocol import Listed, Store
from tidegate.runs.findings import Findings, Verified
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import IngestSpec

Say = Callable[[str], None]
_TRIES = 3
_BATCH = 20_000  # rows
_MOST_OPEN = 200  # files


def verify(spec: IngestSpec, store: Store, kafka: Kafka | None, say: Say) -> Verified:
    """Check that ledger, plans, manifests, footers and pages agree. Return the findings.

    Reading the ledger checks its chain of digests, reading the pages their checksums. Every commit
    is compared with its plan and its manifest, every checkpoint with the entries; with `kafka`,
    every row with its record. What differs is looked at again if the ledger, topic ids or log
    starts have changed meanwhile. Read-only. BrokerError if nothing differs and a partition has no
    leader now: its rows were not compared.
    """
    # Listed before the ledger is read: files committed in between are not unknown.
    listed = [each.path for each in store.objects(layout.DATA)]
    findings = Findings()
    fold, commits = audit.read_ledger(store, spec.name, findings.add)
    refuse_absent(store, fold)
    plan_of = lru_cache(maxsize=64)(lambda plan_id: plans.load_plan(store, plan_id))
    _check_ranges(fold, findings)
    committed: set[str] = set()
    with kafka.reading() if kafka and fold.live else nullcontext() as read:
        now = _Now(store, spec, kafka, fold)
        for n, commit in commits.items():
            manifest = audit.check_commit(store, n, commit, plan_of, findings.add)
            if n not in fold.live:
                continue
            say(f"commit #{n}: {counted(commit.rows, 'row')}")
            if manifest is None:
                findings.commits += 1
                continue
            committed.update(
                file.final for file in manifest.files if placing.is_live(fold, n, commit, file)
            )
            found = _check_commit(now, read, n, commit, manifest, plan_of)
            for _ in range(_TRIES):
                if not (found.found and now.has_changed()):
                    break
                found = _check_commit(now, read, n, commit, manifest, plan_of)
            findings.include(found)
    unlisted = [path for path in listed if path not in committed]
    ledger = Ledger(store, spec.name, whole=True) if unlisted else None
    kept = placing.kept_files(store, ledger) if ledger else set()
    for path in unlisted:
        if path not in kept and store.size(path) is not None:  # not replaced meanwhile
            findings.add("a file that no live commit lists", uri=store.uri(path))
    if findings.not_utf8:
        say(
            f"{counted(findings.not_utf8, 'record')} with header keys that are not UTF-8: Spark "
            "reads U+FFFD in place of such bytes, and so does who reads the lake"
        )
    _refuse_leaderless(findings, say)
    return findings.conclude(spec.name, against_kafka=kafka is not None)


class _Now:
    """The ledger, and the cluster if rows are compared, as they were when they were last asked."""

    def __init__(self, store: Store, spec: IngestSpec, kafka: Kafka | None, fold: Fold) -> None:
        self.store, self.spec, self._kafka = store, spec, kafka
        self.fold = fold
        self._look()

    def _look(self) -> None:
        self.waiting = set(placing.unplaced_commits(self.store, self.fold))
        self.seen: Survey | None = None
        if self._kafka and self.fold.live:
            live = self.fold.live.values()
            topics = sorted({topic for commit in live for topic in commit.topic_ids})
            self.seen = self._kafka.survey(topics, self.spec.isolation)

    def has_changed(self) -> bool:
        """Ask again. Return whether something is otherwise that may explain a difference."""
        before = self._state()
        self.fold = Ledger(self.store, self.spec.name).fold
        self._look()
        return self._state() != before

    def _state(self) -> tuple[Any, ...]:
        marks = self.seen.watermarks if self.seen else {}
        starts = {topic: {p: m.start for p, m in each.items()} for topic, each in marks.items()}
        return self.fold.n, self.waiting, self.seen and self.seen.topic_ids, starts


def _check_commit(
    now: _Now,
    read: Reader | None,
    n: int,
    commit: Commit,
    manifest: Manifest,
    plan_of: audit.PlanOf,
) -> Findings:
    """Check the files of a commit, and compare its rows. Nothing if it was replaced meanwhile."""
    findings = Findings()
    if n not in now.fold.live:
        return findings
    findings.commits += 1
    files = [file for file in manifest.files if placing.is_live(now.fold, n, commit, file)]
    damaged = _check_files(now, n, commit, files, findings)
    if read and now.seen:
        whole = [file for file in files if file not in damaged]
        _compare_commit(now, now.seen, read, n, plan_of, whole, damaged, findings)
    return findings


def _refuse_leaderless(findings: Findings, say: Say) -> None:
    """Raise BrokerError if rows were not compared; only report it if something differs."""
    if not findings.leaderless:
        return
    partitions = [f"{topic}-{p}" for topic, p in sorted(findings.leaderless)]
    message = f"{', '.join(partitions)} have no leader now: their rows were not compared"
    if not findings.found:
        raise BrokerError(
            f"{message}; nothing else differs. Try again when they have one",
            partitions=partitions,
        )
    say(message)


def _check_ranges(fold: Fold, findings: Findings) -> None:
    """Add a finding for each partition whose live committed ranges overlap."""
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for n in fold.live:
        for topic_id, r in fold.live_ranges(n):
            spans.setdefault((topic_id, r.topic, r.partition), []).append((r.start, r.end))
    for (_, topic, partition), each in spans.items():
        if sum(end - start for start, end in each) != len(Intervals.of(each)):
            findings.add("committed ranges overlap", topic=topic, partition=partition)


def _check_files(
    now: _Now, n: int, commit: Commit, files: list[LakeFile], findings: Findings
) -> list[LakeFile]:
    """Check the files of a commit, and its accounts. Return the files that cannot be read."""
    store, damaged = now.store, []
    rows: dict[tuple[str, int], int] = {}
    ranges = {(r.topic, r.partition): r for _, r in commit.ranges}
    for file in files:
        path = file.path if n in now.waiting else file.final
        findings.files += 1
        size = store.size(path)
        if size is None:
            findings.add("a file of the lake is missing", commit=n, uri=store.uri(path))
            damaged.append(file)
            continue
        try:
            found = footers.read_data_file(store, Listed(path, size))
            _read_pages(store, path)
        except (AttemptWrong, OSError, pyarrow.ArrowException) as error:
            findings.add(str(error), commit=n, uri=store.uri(path))
            damaged.append(file)
            continue
        if (size, found.digest) != (file.size, file.digest):
            findings.add("not the file that was committed", commit=n, uri=store.uri(path))
        findings.rows += found.contents.rows
        for part in found.contents.parts:
            key = file.topic, part.partition
            r = ranges.get(key)
            if r is None or not (r.start <= part.first and part.last < r.end):
                findings.add(
                    f"offsets {part.first} to {part.last} of {file.topic}-{part.partition}, "
                    "outside of the commit's ranges",
                    commit=n, uri=store.uri(path),
                )  # fmt: skip
            rows[key] = rows.get(key, 0) + part.rows
    for (topic, partition), account in _whole_accounts(now.fold, n, commit).items():
        if (had := rows.get((topic, partition), 0)) != account.rows:
            findings.add(
                f"{counted(had, 'row')}, the commit says {account.rows:,}",
                commit=n, topic=topic, partition=partition,
            )  # fmt: skip
    return damaged


def _whole_accounts(fold: Fold, n: int, commit: Commit) -> dict[tuple[str, int], Account]:
    """Return the accounts of partitions without replaced rows: only they still hold."""
    replaced = fold.replaced.get(n, ())
    return {
        (topic, p): account
        for topic, partitions in commit.accounts.items()
        for p, account in partitions.items()
        if (commit.topic_ids[topic], p) not in replaced
    }


def _read_pages(store: Store, path: str) -> None:
    """Read all pages of a file. OSError if one does not match its checksum."""
    with (
        store.open(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True) as parquet,
    ):
        for _ in parquet.iter_batches():
            pass


def _compare_commit(
    now: _Now,
    seen: Survey,
    read: Reader,
    n: int,
    plan_of: audit.PlanOf,
    files: list[LakeFile],
    damaged: list[LakeFile],
    findings: Findings,
) -> None:
    """Compare the rows of a commit's `files` with their records."""
    try:
        plan = plan_of(now.fold.live[n].plan_id)
    except LakeDamaged:
        return  # a finding already
    expected = now.spec.select(now.fold.live[n].topic_ids)
    for topic_id, r in now.fold.live_ranges(n):
        if r.topic not in seen.topic_ids and r.topic in expected:
            findings.add(
                f"{counted(len(r), 'offset')} not compared: no such topic, or this user may not "
                "DESCRIBE it",
                commit=n, topic=r.topic, partition=r.partition,
            )  # fmt: skip
            continue
        if seen.topic_ids.get(r.topic) != topic_id:
            findings.expired += len(r)  # deleted or recreated: nothing to compare with
            continue
        if r.partition in seen.leaderless.get(r.topic, ()):
            findings.leaderless.add((r.topic, r.partition))
            continue
        marks = seen.watermarks[r.topic].get(r.partition)
        log_start = marks.start if marks else r.end  # a partition that vanished
        start = min(max(r.start, log_start), r.end)
        findings.expired += start - r.start
        where = {"commit": n, "topic": r.topic, "partition": r.partition}
        lost = Intervals.of(
            (part.first, part.last + 1)
            for file in damaged
            for part in file.parts
            if (file.topic, part.partition) == (r.topic, r.partition)
        )
        for retained in r.parts(Intervals.of([(start, r.end)])):
            rows, records = _rows(now.store, files, retained), read(retained, plan.isolation)
            try:
                for offset, difference in _differences(rows, records, findings, lost):
                    findings.add(difference, **where, offset=offset)
            except LakeDamaged as error:
                findings.add(f"the rows of {retained} were not all compared: {error}", **where)


def _differences(
    lake: Iterator[Record],
    kafka: Iterator[Record],
    findings: Findings,
    lost: Intervals = NOTHING,
) -> Iterator[tuple[int, str]]:
    """Yield the offsets that are in one stream only or differ. Both are in offset order.

    The rows of `lost` may be in a damaged file: only those that are in a whole one are compared.
    """
    row, record = next(lake, None), next(kafka, None)
    while row or record:
        findings.compared += 1
        if record is None or (row and row.offset < record.offset):
            assert row
            yield row.offset, "a row that Kafka does not show (duplicated, or compacted since)"
            row = next(lake, None)
        elif row is None or record.offset < row.offset:
            if lost.within(record.offset, record.offset + 1):
                findings.compared -= 1
            else:
                yield record.offset, "a record that is not in the lake"
            record = next(kafka, None)
        else:
            if row != record and not _is_as_spark_reads(row, record):
                yield row.offset, "the row is not the record"
            findings.not_utf8 += any(isinstance(key, NotUtf8) for key, _ in record.headers)
            row, record = next(lake, None), next(kafka, None)


def _is_as_spark_reads(row: Record, record: Record) -> bool:
    """Return whether they differ in nothing but U+FFFD in the keys of headers."""
    keys, values = zip(*row.headers, strict=True) if row.headers else ((), ())
    theirs, others = zip(*record.headers, strict=True) if record.headers else ((), ())
    same = row._replace(headers=()) == record._replace(headers=()) and values == others
    return same and are_equal(keys, theirs)


def _rows(store: Store, files: list[LakeFile], r: OffsetRange) -> Iterator[Record]:
    """Yield the rows of a range as records, in the order of their offsets."""
    of_range = sorted(
        (part.first, part.last, n)
        for n, file in enumerate(files)
        for part in file.parts
        if file.topic == r.topic and part.overlaps({r.partition: (r.start, r.end)})
    )
    end, groups = -1, list[list[LakeFile]]()  # of files with offsets between one another's
    for first, last, n in of_range:
        if first > end:
            groups.append([])
        groups[-1].append(files[n])
        end = max(end, last)
    for group in groups:
        are_in_order = all(file.ascending and len(file.parts) == 1 for file in group)
        if are_in_order and len(group) <= _MOST_OPEN:
            most = _BATCH // len(group) + 1
            rows = (_records(_batches(store, file, most), r) for file in group)
            yield from heapq.merge(*rows, key=lambda row: row.offset)
        elif len(group) == 1:
            yield from _records(_sorted(store, group[0]), r)
        else:
            yield from _records(_together(store, group, r), r)


def _records(batches: Iterable[pyarrow.RecordBatch], r: OffsetRange) -> Iterator[Record]:
    """Yield the rows of a range in batches that have them in the order of their offsets."""
    for batch in batches:
        batch = batch.filter(pc.equal(batch.column("partition"), r.partition))
        # As numbers: a timestamp may lie in a year that no Python datetime holds.
        microseconds = batch.column("timestamp").cast("int64").to_pylist()
        given = batch.drop_columns(["timestamp"]).to_pydict()
        for i, offset in enumerate(given["offset"]):
            if r.start <= offset < r.end:
                yield Record(
                    offset,
                    given["key"][i],
                    given["value"][i],
                    microseconds[i] // 1000,
                    given["timestampType"][i],
                    tuple((h["key"], h["value"]) for h in given["headers"][i] or ()),
                )


def _batches(store: Store, file: LakeFile, most: int) -> Iterator[pyarrow.RecordBatch]:
    path = file.final if store.size(file.final) is not None else file.path
    with open_committed(store, path) as opened:
        parquet = pq.ParquetFile(opened, page_checksum_verification=True)
        yield from parquet.iter_batches(batch_size=most, columns=[*columns.NAMES])


def _together(store: Store, files: list[LakeFile], r: OffsetRange) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a range in several files by offset: all of them are in memory at once."""
    offset = pc.field("offset")
    kept = (pc.field("partition") == r.partition) & (offset >= r.start) & (offset < r.end)
    tables = [
        pyarrow.Table.from_batches([batch]).filter(kept)
        for file in files
        for batch in _batches(store, file, _BATCH)
    ]
    yield from pyarrow.concat_tables(tables).sort_by("offset").to_batches(_BATCH)


@lru_cache(maxsize=4)
def _sorted(store: Store, file: LakeFile) -> list[pyarrow.RecordBatch]:
    """Return the rows of a file by partition and offset. It is asked for once per partition."""
    table = pyarrow.Table.from_batches(_batches(store, file, _BATCH))
    if not file.ascending:
        table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    batches: list[pyarrow.RecordBatch] = table.to_batches()
    return batches
