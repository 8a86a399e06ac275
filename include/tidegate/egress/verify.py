"""Verify an egress: compare the rows of its commits with the records in the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tidegate.core import provenance, row_digest
from tidegate.core.cluster_answers import Reader, Survey
from tidegate.core.entries import Commit, Receipt
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.core.wording import counted
from tidegate.egress.byte_settings import settings_of_plan
from tidegate.egress.lake_source import window_of
from tidegate.egress.sent_records import (
    ISOLATION,
    digest_record,
    own_headers,
    records_of,
)
from tidegate.errors import LakeDamaged
from tidegate.lake import audit, deliveries, plans
from tidegate.lake.deliveries import SentFile
from tidegate.lake.store_protocol import Store
from tidegate.runs.boundary_search import refuse_leaderless
from tidegate.runs.findings import Findings, Verified
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import EgressSpec

Say = Callable[[str], None]
Files = Sequence[SentFile]


@dataclass
class _Target:
    """A reader of the target, a survey of its topics, and those that are compacted."""

    read: Reader
    seen: Survey
    compacted: Collection[str]
    look: Callable[[], Survey]

    def has_changed(self) -> bool:
        """Ask again. Return whether records have expired meanwhile, or a topic was recreated."""
        before = self._starts()
        self.seen = self.look()
        return self._starts() != before

    def retained(self, receipt: Receipt) -> OffsetRange:
        """Return what the target still has of a receipt's range. Nothing if it was recreated."""
        start = receipt.after
        if self.seen.topic_ids.get(receipt.topic) == receipt.topic_id:
            marks = self.seen.watermarks[receipt.topic].get(receipt.partition)
            start = min(max(receipt.before, marks.start), start) if marks else start
        return OffsetRange(receipt.topic, receipt.partition, start, receipt.after)

    def _starts(self) -> tuple[Any, ...]:
        """Return topic ids and log starts."""
        marks = self.seen.watermarks.items()
        return self.seen.topic_ids, {t: {p: m.start for p, m in each.items()} for t, each in marks}


def verify(spec: EgressSpec, store: Store, kafka: Kafka | None, say: Say) -> Verified:
    """Compare ledger and manifests; with `kafka`, every row with its record, content included.

    Rows that the target does not retain, by retention or by compaction, are counted as `expired`.
    Duplicates are searched up to the target's current end. BrokerError if a partition of the target
    has no leader.
    """
    findings = Findings()
    known: dict[int, Plan] = {}
    fold, _ = audit.read_ledger(store, spec.name, findings.add)
    # Rows were sent to these topics. The pipeline may name others today.
    topics = sorted({r.topic for commit in fold.live.values() for r in commit.receipts})
    with _opened(kafka, topics) if kafka else nullcontext() as target:
        for n, commit in fold.live.items():
            sent = sum(r.sent for r in commit.receipts)
            say(f"commit #{n}: {counted(sent, 'row')}")
            findings.commits += 1
            files = _manifest(store, n, commit, findings)
            if files is None:
                continue
            findings.files += len(files)
            findings.rows += sent
            rows = sum(each.rows for each in files)
            if rows != sent:
                findings.add(
                    f"{counted(rows, 'row')} in the files, receipts for {sent:,}", commit=n
                )
            _check_accounts(n, commit, files, findings)
            if target and (plan := _plan(store, n, commit, findings)):
                known[n] = plan
                found = _compare(target, n, commit, plan, files)
                if found.found and target.has_changed():
                    found = _compare(target, n, commit, plan, files)
                findings.include(found)
        if target:
            say("searching the rest of the target for duplicates")
            _count_later(target, {n: fold.live[n] for n in known}, known, findings)
    return findings.conclude(spec.name, against_kafka=kafka is not None)


@contextmanager
def _opened(kafka: Kafka, topics: Sequence[str]) -> Iterator[_Target]:
    def look() -> Survey:
        seen = kafka.survey(topics, ISOLATION)
        for topic in seen.identities:
            refuse_leaderless(seen, topic)
        return seen

    seen = look()
    with kafka.reading() as read:
        yield _Target(read, seen, kafka.compacted(seen.topic_ids), look)


def _manifest(store: Store, n: int, commit: Commit, findings: Findings) -> Files | None:
    try:
        return deliveries.committed_delivery(store, commit).files
    except LakeDamaged as error:
        findings.add(str(error), commit=n, uri=store.uri(commit.manifest.path))
        return None


def _plan(store: Store, n: int, commit: Commit, findings: Findings) -> Plan | None:
    """Return the plan of a commit. None if it is damaged."""
    try:
        return plans.load_plan(store, commit.plan_id)
    except LakeDamaged as error:
        findings.add(str(error), commit=n)
        return None


def _names(plan: Plan) -> Sequence[str]:
    """Return what the indexes of a plan's records stand for."""
    return provenance.provenance_names(plan.files, window_of(plan), plan.topics)


def _check_accounts(n: int, commit: Commit, files: Files, findings: Findings) -> None:
    """For a lake source, check that every row of a range was sent or quarantined."""
    counts = {each.file: each.rows + each.bad for each in files}
    for topic, partitions in commit.accounts.items():
        for p, account in partitions.items():
            rows = counts.get(f"{commit.topic_ids[topic]}/{p}", 0)
            if rows != account.rows:
                findings.add(
                    f"{counted(rows, 'row')} sent or kept back, the commit says {account.rows:,}",
                    commit=n, topic=topic, partition=p,
                )  # fmt: skip


def _compare(target: _Target, n: int, commit: Commit, plan: Plan, files: Files) -> Findings:
    """Compare each row of a commit with its record, within the ranges of its receipts."""
    findings, names = Findings(), _names(plan)
    keeps_time = settings_of_plan(plan).timestamps == "source"
    retained = {receipt: target.retained(receipt) for receipt in commit.receipts}
    has_expired = any(r.start > receipt.before for receipt, r in retained.items())
    first_digests: defaultdict[str, dict[int, int]] = defaultdict(dict)  # file → row → digest
    changed: Counter[str] = Counter()
    gone = 0
    # A row counts in the partition of its first record. All further records are duplicates.
    for receipt in sorted(commit.receipts):
        once = extra = 0
        r = retained[receipt]
        for file, row, record in records_of(target.read, r, commit.plan_id, names):
            digest = digest_record(
                file, row, receipt.topic, record.key, record.value, own_headers(record.headers),
                record.timestamp if keeps_time else None,
            )  # fmt: skip
            if row not in first_digests[file]:
                first_digests[file][row] = digest
                once += 1
            else:
                extra += 1
                changed[file] += first_digests[file][row] != digest
        sent, total = receipt.sent, receipt.sent + receipt.duplicates
        if receipt.topic in target.compacted and has_expired:
            fits = once + extra <= total
            gone += max(0, sent - once)
        elif has_expired:  # of a row whose first record has expired, a duplicate is the first
            most = r.start - receipt.before
            fits = total - most <= once + extra <= total
            gone += min(max(0, sent - once), most)
        elif receipt.topic in target.compacted:
            fits = once <= sent and extra <= receipt.duplicates
            gone += max(0, sent - once)
        else:
            fits = (once, extra) == (sent, receipt.duplicates)
        if not fits:
            findings.add(
                f"{counted(once, 'row')} and {counted(extra, 'duplicate')}, the receipt says "
                f"{sent:,} and {receipt.duplicates:,}",
                commit=n, topic=receipt.topic, partition=receipt.partition,
            )  # fmt: skip
        findings.compared += once + extra
    findings.expired += gone
    by_name = {each.file: each for each in files}
    for file in sorted(by_name.keys() | first_digests.keys()):
        rows, found = by_name[file].rows if file in by_name else 0, first_digests[file]
        content = row_digest.combine_digests(found.values())
        if not max(0, rows - gone) <= len(found) <= rows:
            findings.add(
                f"{len(found)} of its rows are in the target, {rows} were sent",
                commit=n, file=file,
            )  # fmt: skip
        elif len(found) == rows and not (file in by_name and by_name[file].digest == content):
            findings.add("its rows in the target have other content than was sent",
                         commit=n, file=file)  # fmt: skip
        if changed[file]:
            findings.add(f"{changed[file]} duplicates have other content than the first",
                         commit=n, file=file)  # fmt: skip
    return findings


def _count_later(
    target: _Target,
    commits: Mapping[int, Commit],
    plans_of: Mapping[int, Plan],
    findings: Findings,
) -> None:
    """Find records of committed plans after their receipts' ends.

    All rows of a plan were in the target at the read-back, so its later records are duplicates,
    from a sender that was wrongly taken for dead.
    """
    names = {n: _names(plan) for n, plan in plans_of.items()}
    for topic, partitions in target.seen.watermarks.items():
        # By plan: its commit, and its end in each partition. Added partitions began at 0.
        ends: dict[str, tuple[int, dict[int, int]]] = {}
        identity = topic, target.seen.topic_ids.get(topic)
        for n, commit in commits.items():
            receipts = [r for r in commit.receipts if (r.topic, r.topic_id) == identity]
            if receipts:
                ends[commit.plan_id] = n, {r.partition: r.after for r in receipts}
        for p, marks in partitions.items() if ends else ():
            start = max(marks.start, min(after.get(p, 0) for _, after in ends.values()))
            later: Counter[int] = Counter()
            r = OffsetRange(topic, p, start, max(start, marks.high))
            for record in target.read(r, ISOLATION):
                said = provenance.provenance_of(record.headers)
                if said is None or said.plan not in ends:
                    continue
                n, after = ends[said.plan]
                if said.at < len(names[n]) and record.offset >= after.get(p, 0):
                    later[n] += 1
            for n, count in sorted(later.items()):
                findings.add(
                    f"{count} duplicates came after the run had read it back: a sender that was "
                    "taken for dead has survived",
                    commit=n, topic=topic, partition=p,
                )  # fmt: skip
