"""Verify an egress: is each row in the target, as often as its commit says?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Any

from tidegate.broker.cluster import Survey, survey
from tidegate.broker.records import Reader, reading
from tidegate.broker.settings import KafkaSettings
from tidegate.broker.target import compacted
from tidegate.core import canonical
from tidegate.core.entries import Commit, Receipt
from tidegate.core.offsets import OffsetRange
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Egress
from tidegate.runs.verify import Findings

Say = Callable[[str], None]


def verify(spec: Egress, kafka: KafkaSettings | None, say: Say) -> dict[str, Any]:
    """Hold ledger and manifests against each other; with `kafka`, every row against the target.

    Only what the target still retains can be compared; the rest is counted as `expired`, and so are
    rows that a compacted topic has no more.
    """
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name, whole=True).fold
    findings = Findings()
    # Not the pipeline's topics of today: what was sent is where it was sent to.
    topics = sorted({r.topic for commit in fold.live.values() for r in commit.receipts})
    seen = survey(kafka, topics, "read_uncommitted") if kafka else None
    thinned = compacted(kafka, seen.topic_ids) if kafka and seen else ()
    with ExitStack() as stack:
        read = stack.enter_context(reading(kafka)) if kafka else None
        for n, commit in fold.live.items():
            sent = sum(r.sent for r in commit.receipts)
            say(f"commit #{n}: {sent:,} rows")
            findings.commits += 1
            files = _manifest(store, n, commit, findings)
            if files is None:
                continue
            findings.files += len(files)
            findings.rows += sent
            rows = {each["file"]: each["rows"] for each in files}
            if sum(rows.values()) != sent:
                findings.add(
                    f"{sum(rows.values())} rows in the files, receipts for {sent}", commit=n
                )
            _check_accounts(n, commit, files, findings)
            if read and seen:
                _compare(read, seen, thinned, n, commit, rows, findings)
    return findings.to_json(spec.name, against_kafka=kafka is not None)


def _manifest(
    store: Store, n: int, commit: Commit, findings: Findings
) -> list[dict[str, Any]] | None:
    data = store.get(commit.manifest.path)
    if data is None or canonical.digest(data) != commit.manifest.sha256:
        findings.add(
            "the manifest is missing" if data is None else "the manifest was changed",
            commit=n, uri=store.uri(commit.manifest.path),
        )  # fmt: skip
        return None
    return list(json.loads(data)["files"])


def _check_accounts(
    n: int, commit: Commit, files: list[dict[str, Any]], findings: Findings
) -> None:
    """Of a lake: every row of a range was sent or kept back."""
    known = {each["file"]: each["rows"] + each["bad"] for each in files}
    for topic, partitions in commit.accounts.items():
        for p, account in partitions.items():
            rows = known.get(f"{commit.topic_ids[topic]}/{p}", 0)
            if rows != account.rows:
                findings.add(
                    f"{rows} rows were sent or kept back, the commit says {account.rows}",
                    commit=n, topic=topic, partition=p,
                )  # fmt: skip


def _compare(
    read: Reader,
    seen: Survey,
    thinned: Collection[str],
    n: int,
    commit: Commit,
    rows: dict[str, int],
    findings: Findings,
) -> None:
    marks = seen.watermarks
    if any(
        seen.topic_ids.get(r.topic) != r.topic_id or marks[r.topic][r.partition].start > r.before
        for r in commit.receipts
    ):
        findings.expired += sum(r.sent for r in commit.receipts)
        return
    there: Counter[tuple[str, int]] = Counter()
    gone = 0
    # A row counts where its first record is; any other, in whichever partition, is a duplicate.
    for receipt in sorted(commit.receipts):
        of_partition = Counter(_rows(read, commit.plan_id, receipt))
        once = len(of_partition.keys() - there.keys())
        extra = of_partition.total() - once
        there += of_partition
        if receipt.topic in thinned and once <= receipt.sent and extra <= receipt.duplicates:
            gone += receipt.sent - once
        elif (once, extra) != (receipt.sent, receipt.duplicates):
            findings.add(
                f"{once} rows and {extra} duplicates, the receipt says "
                f"{receipt.sent} and {receipt.duplicates}",
                commit=n, topic=receipt.topic, partition=receipt.partition,
            )  # fmt: skip
    findings.compared += there.total()
    findings.expired += gone
    found = Counter(file for file, _ in there)
    for file in sorted(rows.keys() | found.keys()):
        fewest = max(0, rows.get(file, 0) - gone)
        if not fewest <= found[file] <= rows.get(file, 0):
            findings.add(
                f"{found[file]} of its rows are in the target, {rows.get(file, 0)} were sent",
                commit=n, file=file,
            )  # fmt: skip


def _rows(read: Reader, plan_id: str, receipt: Receipt) -> Iterator[tuple[str, int]]:
    r = OffsetRange(receipt.topic, receipt.partition, receipt.before, receipt.after)
    for record in read(r, "read_uncommitted"):
        ours = {key: value or b"" for key, value in record.headers}  # the last of a name
        if ours.get("tidegate-plan") == plan_id.encode():
            yield ours["tidegate-file"].decode(), int(ours["tidegate-row"])
