"""Records of egress plans in a target: read by their provenance, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidegate.broker.cluster import Survey
from tidegate.broker.consumer import Reader, Record
from tidegate.core import provenance, row_digest
from tidegate.core.entries import Claim, Receipt, Resent
from tidegate.core.fold import REPLAY
from tidegate.core.offsets import OffsetRange

ISOLATION = "read_uncommitted"


def records_of(
    read: Reader, target: OffsetRange, plan_id: str, names: Sequence[str]
) -> Iterator[tuple[str, int, Record]]:
    """Yield file, row and record of a plan's records in a range of the target.

    `names` are those of the plan's indexes.
    """
    for record in read(target, ISOLATION):
        said = provenance.of(record.headers)
        if said and said.plan == plan_id and said.at < len(names):
            yield names[said.at], said.row, record


def own_headers(headers: row_digest.Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers before the last one of provenance; an agent in the producer may append
    more after it.
    """
    own = list(headers)
    names = [name for name, _ in own]
    return own[: len(names) - 1 - names[::-1].index(provenance.HEADER)]


@dataclass(frozen=True)
class Rows:
    """The rows of a plan: its files by name and etag, or its ranges of a lake by topic id."""

    plan_id: str
    lane: str
    etags: Mapping[str, str | None]
    ranges: tuple[tuple[str, OffsetRange], ...]

    def common(self, claim: Claim) -> Rows:
        """Return those of a claim's files and ranges that these rows have, too."""
        etags = {f.name: f.etag for f in claim.files if self.etags.get(f.name) == f.etag}
        ranges = [
            (topic_id, OffsetRange(r.topic, r.partition, max(r.start, c.start), min(r.end, c.end)))
            for topic_id, r in self.ranges
            for c in claim.window
            if (claim.topic_ids[c.topic], c.partition) == (topic_id, r.partition)
            and max(r.start, c.start) < min(r.end, c.end)
        ]
        return Rows(claim.plan_id, claim.lane, etags, tuple(ranges))

    def has(self, file: str, row: int) -> bool:
        """Return whether a row is one of these."""
        topic_id, _, partition = file.rpartition("/")
        return file in self.etags or any(
            start <= row < end for start, end in self._spans.get((topic_id, partition), ())
        )

    @cached_property
    def _spans(self) -> Mapping[tuple[str, str], list[tuple[int, int]]]:
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for topic_id, r in self.ranges:
            found.setdefault((topic_id, str(r.partition)), []).append((r.start, r.end))
        return found


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
    is not counted. Each partition is read once, from the first of these claims that has any of the
    rows.
    """
    common = {
        plan_id: both
        for plan_id, claim in released.items()
        if plan_id == rows.plan_id or REPLAY not in (rows.lane, claim.lane)
        if (both := rows.common(claim)).etags or both.ranges
    }
    found = []
    for receipt in sorted(receipts) if common else ():
        topic, p = receipt.topic, receipt.partition
        marks = seen.watermarks.get(topic, {}).get(p)
        if marks is None or seen.topic_ids.get(topic) != receipt.topic_id:
            continue
        ends = {
            plan_id: (
                released[plan_id].target.get(topic, {}).get(p, 0),
                receipt.before if plan_id == rows.plan_id else marks.high,
            )
            for plan_id in common
        }
        start = max(marks.start, min(first for first, _ in ends.values()))
        whole = OffsetRange(topic, p, start, max(start, *(end for _, end in ends.values())))
        names = {
            plan_id: provenance.names(claim.files, claim.window, claim.topic_ids)
            for plan_id in common
            for claim in (released[plan_id],)
        }
        records = 0
        for record in read(whole, ISOLATION):
            if (said := provenance.of(record.headers)) is None or said.plan not in ends:
                continue
            first, end = ends[said.plan]
            named = names[said.plan]
            if first <= record.offset < end and said.at < len(named):
                records += common[said.plan].has(named[said.at], said.row)
        if records:
            found.append(Resent(topic, p, records))
    return tuple(found)
