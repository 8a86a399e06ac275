"""Records of egress plans in a target: read by their provenance headers, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.broker.cluster import Survey
from tidegate.broker.consumer import Reader, Record
from tidegate.core import row_digest
from tidegate.core.entries import Claim, Receipt, Resent
from tidegate.core.fold import REPLAY
from tidegate.core.offsets import OffsetRange

ISOLATION = "read_uncommitted"


def records_of(
    read: Reader, topic: str, partition: int, start: int, end: int, plan_id: str
) -> Iterator[tuple[str, int, Record]]:
    """Yield file, row and record of a plan's records in a range of the target."""
    for record in read(OffsetRange(topic, partition, start, end), ISOLATION):
        if plan_of(record) == plan_id:
            headers = {key: value or b"" for key, value in record.headers}  # the last of each name
            yield headers["tidegate-file"].decode(), int(headers["tidegate-row"]), record


def plan_of(record: Record) -> str:
    """Return the plan that a record names in its headers; empty if none."""
    plan = dict(record.headers).get("tidegate-plan")  # the last of a name
    return (plan or b"").decode(errors="replace")


def own_headers(headers: row_digest.Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers before the last block of provenance headers; an agent in the producer may
    append more after it.
    """
    own = list(headers)
    names = [name for name, _ in own]
    return own[: len(names) - 1 - names[::-1].index("tidegate-plan")]


@dataclass(frozen=True)
class Rows:
    """The rows of a plan: its files by name and etag, or its ranges of a lake by topic id."""

    plan_id: str
    lane: str
    etags: Mapping[str, str | None]
    ranges: tuple[tuple[str, OffsetRange], ...]

    def has(self, claim: Claim, file: str, row: int) -> bool:
        """Return whether a row that a claim has sent is one of these."""
        if claim.files:
            return any(f.name == file and self.etags.get(file) == f.etag for f in claim.files)
        topic_id, _, partition = file.rpartition("/")
        return any(
            each == topic_id and r.partition == int(partition) and r.start <= row < r.end
            for each, r in self.ranges
        )


def count_resent(
    read: Reader,
    seen: Survey,
    released: Mapping[str, Claim],
    rows: Rows,
    receipts: Iterable[Receipt],
) -> tuple[Resent, ...]:
    """Count the records of rows that claims have left which were released to be sent again.

    `released` are the first such claims by plan. Of the rows' own plan they are before the receipt,
    of other plans anywhere; a replay repeats other plans on purpose. What the target has deleted
    is not counted.
    """
    found = []
    for receipt in sorted(receipts):
        topic, p = receipt.topic, receipt.partition
        marks = seen.watermarks.get(topic, {}).get(p)
        if marks is None or seen.topic_ids.get(topic) != receipt.topic_id:
            continue
        records = 0
        for plan_id, claim in released.items():
            is_own = plan_id == rows.plan_id
            if not is_own and REPLAY in (rows.lane, claim.lane):
                continue
            start = max(marks.start, claim.target.get(topic, {}).get(p, 0))
            end = receipt.before if is_own else marks.high
            sent = records_of(read, topic, p, start, max(start, end), plan_id)
            records += sum(rows.has(claim, file, row) for file, row, _ in sent)
        if records:
            found.append(Resent(topic, p, records))
    return tuple(found)
