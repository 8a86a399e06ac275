"""Verify an egress: is each row in the target, as often as its commit says?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from tidegate.broker.cluster import Survey, survey
from tidegate.broker.consumer import Reader, Record, reading
from tidegate.broker.settings import KafkaSettings
from tidegate.broker.target import compacted
from tidegate.core import row_digest
from tidegate.core.entries import Commit
from tidegate.core.offsets import OffsetRange
from tidegate.errors import LakeDamaged
from tidegate.lake import audit, manifests
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Egress
from tidegate.runs.boundaries import refuse_leaderless
from tidegate.runs.findings import Findings

Say = Callable[[str], None]


def verify(spec: Egress, kafka: KafkaSettings | None, say: Say) -> dict[str, Any]:
    """Compare ledger and manifests; with `kafka`, every row with its record, content included.

    Only what the target still retains can be compared; the rest is counted as `expired`, and so are
    rows that a compacted topic has no more. Duplicates are looked for up to the target's end of
    now. BrokerError where a partition of the target has no leader, and so cannot be read.
    """
    store = open_store(spec.lake, spec.name)
    findings = Findings()
    fold, _ = audit.read_ledger(store, spec.name, findings.add)
    # Not the pipeline's topics of today: what was sent is where it was sent to.
    topics = sorted({r.topic for commit in fold.live.values() for r in commit.receipts})
    seen = survey(kafka, topics, "read_uncommitted") if kafka else None
    if seen:
        for topic in seen.identities:
            refuse_leaderless(seen, topic)
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
            rows = sum(each["rows"] for each in files)
            if rows != sent:
                findings.add(f"{rows} rows in the files, receipts for {sent}", commit=n)
            _check_accounts(n, commit, files, findings)
            if read and seen:
                _compare(read, seen, thinned, n, commit, files, findings)
        if read and seen:
            say("duplicates that came later")
            _count_later(read, seen, fold.live, findings)
    return findings.to_json(spec.name, against_kafka=kafka is not None)


def _manifest(
    store: Store, n: int, commit: Commit, findings: Findings
) -> list[dict[str, Any]] | None:
    try:
        return manifests.read_forms(store, commit)
    except LakeDamaged as error:
        findings.add(str(error), commit=n, uri=store.uri(commit.manifest.path))
        return None


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
    files: list[dict[str, Any]],
    findings: Findings,
) -> None:
    """Compare each row of a commit with its record, as far as its receipts reach."""
    marks = seen.watermarks
    if any(
        seen.topic_ids.get(r.topic) != r.topic_id or marks[r.topic][r.partition].start > r.before
        for r in commit.receipts
    ):
        findings.expired += sum(r.sent for r in commit.receipts)
        return
    there: defaultdict[str, dict[int, int]] = defaultdict(dict)  # file → row → its first content
    changed: Counter[str] = Counter()
    gone = 0
    # A row counts where its first record is; any other, in whichever partition, is a duplicate.
    for receipt in sorted(commit.receipts):
        once = extra = 0
        reach = OffsetRange(receipt.topic, receipt.partition, receipt.before, receipt.after)
        for file, row, record in _ours(read(reach, "read_uncommitted"), commit.plan_id):
            digest = row_digest.of_row(
                file, row, receipt.topic, record.key, record.value, _own(record.headers)
            )
            if row not in there[file]:
                there[file][row] = digest
                once += 1
            else:
                extra += 1
                changed[file] += there[file][row] != digest
        if receipt.topic in thinned and once <= receipt.sent and extra <= receipt.duplicates:
            gone += receipt.sent - once
        elif (once, extra) != (receipt.sent, receipt.duplicates):
            findings.add(
                f"{once} rows and {extra} duplicates, the receipt says "
                f"{receipt.sent} and {receipt.duplicates}",
                commit=n, topic=receipt.topic, partition=receipt.partition,
            )  # fmt: skip
        findings.compared += once + extra
    findings.expired += gone
    sent = {each["file"]: each for each in files}
    for file in sorted(sent.keys() | there.keys()):
        rows, found = sent[file]["rows"] if file in sent else 0, there[file]
        if not max(0, rows - gone) <= len(found) <= rows:
            findings.add(
                f"{len(found)} of its rows are in the target, {rows} were sent",
                commit=n, file=file,
            )  # fmt: skip
        elif len(found) == rows and row_digest.of_file(found.values()) != _digest(
            sent, file, found
        ):
            findings.add("its rows in the target have other content than was sent",
                         commit=n, file=file)  # fmt: skip
        if changed[file]:
            findings.add(f"{changed[file]} duplicates have other content than the first",
                         commit=n, file=file)  # fmt: skip


def _digest(sent: Mapping[str, Any], file: str, found: Mapping[int, int]) -> str:
    """Return the digest of what was sent of a file; where an earlier release has sent, none is
    known, and what was found passes.
    """
    told = sent[file].get("digest") if file in sent else None
    return told if isinstance(told, str) else row_digest.of_file(found.values())


def _count_later(
    read: Reader, seen: Survey, commits: Mapping[int, Commit], findings: Findings
) -> None:
    """Find records of committed plans behind the end that their receipts know: when that was read,
    each row was there, so all that came later are duplicates, of a sender that has survived.
    """
    for topic, partitions in seen.watermarks.items():
        # Of each plan, where it ended in each partition; one that was added later: at 0.
        ends: dict[str, tuple[int, dict[int, int]]] = {}
        for n, commit in commits.items():
            ours = [r for r in commit.receipts
                    if (r.topic, r.topic_id) == (topic, seen.topic_ids.get(topic))]  # fmt: skip
            if ours:
                ends[commit.plan_id] = n, {r.partition: r.after for r in ours}
        for p, marks in partitions.items() if ends else ():
            start = max(marks.start, min(after.get(p, 0) for _, after in ends.values()))
            later: Counter[int] = Counter()
            for plan, offset in _plans(read, OffsetRange(topic, p, start, max(start, marks.high))):
                if plan in ends and offset >= ends[plan][1].get(p, 0):
                    later[ends[plan][0]] += 1
            for n, count in sorted(later.items()):
                findings.add(
                    f"{count} duplicates came after the run had read it back: a sender that was "
                    "taken for dead has survived",
                    commit=n, topic=topic, partition=p,
                )  # fmt: skip


def _plans(read: Reader, r: OffsetRange) -> Iterator[tuple[str, int]]:
    """Yield plan and offset of each record in a range that says which plan it is of."""
    for record in read(r, "read_uncommitted"):
        plan = dict(record.headers).get("tidegate-plan")  # the last of a name
        if plan is not None:
            yield plan.decode(errors="replace"), record.offset


def _ours(found: Iterable[Record], plan_id: str) -> Iterator[tuple[str, int, Record]]:
    """Yield file, row and record of those that are of a plan."""
    for record in found:
        ours = {key: value or b"" for key, value in record.headers}  # the last of a name
        if ours.get("tidegate-plan") == plan_id.encode():
            yield ours["tidegate-file"].decode(), int(ours["tidegate-row"]), record


def _own(headers: row_digest.Headers) -> list[tuple[str, bytes | None]]:
    """Return a record's own headers: those before the last block of provenance. Behind it stands
    what an agent in the producer has added.
    """
    own = list(headers)
    names = [name for name, _ in own]
    return own[: len(names) - 1 - names[::-1].index("tidegate-plan")]
