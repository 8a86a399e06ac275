"""Fold: the state that the ledger's entries add up to. `tidegate.lake.ledger` stores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidegate.core.cursor import Progress
from tidegate.core.entries import Abandon, Claim, Commit, Entry, Gap, Origin, Release
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Columns
from tidegate.core.replacement import Replaced

REPLAY = "replay"
"""Lane of replays: they replace data or send it again, and never change what other runs do."""
RESEND = "resend"
"""Lane of `--resend`: files that were sent with other content count as sent with the new one."""


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that a plan could not send: its etag, by which settings it was judged, and why."""

    etag: str
    judged_by: str
    reason: str
    plan_id: str

    def stands(self, etag: str, judged_by: str) -> bool:
        """Return whether the file would be refused again, as it and the settings are now."""
        return (self.etag, self.judged_by) == (etag, judged_by)


class LiveDecoding(NamedTuple):
    """A plan that has a decoding, and how many live offsets were decoded by it."""

    plan_id: str
    offsets: int


@dataclass
class EgressFold:
    """What an egress has sent, and its open claims.

    `claims` are by plan, each with the target's ends at the plan's first claim. `sent` has the
    etags of files by name, `refused` the files that could not be sent. `columns` are those of the
    first Parquet files that declared none. `roots` are the directories that names of sent files are
    below. `released` says how the claims of a plan ended.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)
    refused: dict[str, RefusedFile] = field(default_factory=dict)
    columns: Columns | None = None
    roots: set[str] = field(default_factory=set)
    target_ends: dict[str, dict[int, int]] = field(default_factory=dict)
    released: dict[str, list[str]] = field(default_factory=dict)

    def open_claim(self, claim: Claim) -> Claim | None:
        """Add a claim. Return the claim of the same plan that it supersedes, if any."""
        superseded = self.claims.get(claim.plan_id)
        if superseded:
            claim = replace(claim, target=superseded.target)
        self.claims[claim.plan_id] = claim
        return superseded

    def end_claim(self, release: Release) -> Claim:
        """Remove a claim that is released, and remember the files that were refused. Return it."""
        claim = self.claims.pop(release.plan_id)
        self.released.setdefault(release.plan_id, []).append(release.how)
        reasons = {each.file: each.reason for each in release.refused}
        for file in (file for file in claim.files if file.name in reasons):
            self.refused[file.name] = RefusedFile(
                file.etag, release.judged_by or "", reasons[file.name], release.plan_id
            )
        if release.how == "declare sent":
            self._send(claim)
        return claim

    def commit(self, commit: Commit) -> None:
        """Count what the plan of a commit claimed as sent. One of an ingest changes nothing."""
        self.columns = self.columns or commit.columns
        if claim := self.claims.pop(commit.plan_id, None):
            self._send(claim)
        for each in commit.receipts:
            self.target_ends.setdefault(each.topic, {})[each.partition] = each.after

    def _send(self, claim: Claim) -> None:
        if claim.lane == REPLAY:
            return
        for file in claim.files:
            self.sent[file.name] = file.etag
            self.refused.pop(file.name, None)
        self.roots |= {claim.root} if claim.root else set()

    @property
    def oldest_open_claim(self) -> Claim | None:
        """The oldest open claim that the next send must finish first, if there is one.

        Replays do not count: they block no other plan, and are resumed by their id.
        """
        return next((claim for claim in self.claims.values() if claim.lane != REPLAY), None)


@dataclass
class Fold:
    """The sum of entries 1 to `n`. Sets of offsets are per (topic id, partition)."""

    n: int = 0
    digest: str = ""  # of entry n. Empty before the first
    topic_ids: dict[str, str] = field(default_factory=dict)
    earlier_ids: dict[str, list[str]] = field(default_factory=dict)  # of recreated topics
    origins: dict[str, dict[int, int]] = field(
        default_factory=dict
    )  # topic id → partition → offset
    covered: OffsetSets = field(default_factory=OffsetSets)
    skipped: OffsetSets = field(default_factory=OffsetSets)
    live: MutableMapping[int, Commit] = field(default_factory=dict)
    # Live commits whose files may not be placed yet, or whose replaced files may still be there:
    # all but those that a checkpoint has verified.
    unsettled: set[int] = field(default_factory=set, compare=False)
    # The parts of live commits that later commits have replaced.
    replaced: dict[int, OffsetSets] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)  # (plan, chunk) → n
    # Attempts that may never be committed, as (plan, chunk, attempt): abandoned ones of an ingest,
    # and superseded or released ones of an egress, which may have sent.
    barred: set[tuple[str, int, str]] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    cluster_id: str | None = None
    # topic → digest of a decoding that live rows have.
    decodings: dict[str, dict[str, LiveDecoding]] = field(default_factory=dict)
    # topic → reason → rows of live commits, those of replaced files of such a commit included.
    undecodable: dict[str, dict[str, int]] = field(default_factory=dict)
    egress: EgressFold = field(default_factory=EgressFold)

    def apply(self, entry: Entry, digest: str) -> None:
        """Add the entry numbered `n + 1`, whose bytes have this digest."""
        match entry:
            case Origin():
                self._apply_origin(entry)
            case Commit():
                self._apply_commit(self.n + 1, entry)
            case Gap():
                self.gaps.append(entry)
                self.skipped.add((entry.topic_id, entry.partition), entry.start, entry.end)
            case Abandon():
                self.barred.add((entry.plan_id, entry.chunk, entry.attempt))
            case Claim():
                if superseded := self.egress.open_claim(entry):
                    # It may have sent: the new claim keeps the target's ends from before it.
                    self.barred.add((entry.plan_id, 0, superseded.attempt))
            case Release():
                self._apply_release(entry)
        self.n, self.digest = self.n + 1, digest

    def _apply_origin(self, entry: Origin) -> None:
        if entry.adopts:
            self.earlier_ids.setdefault(entry.topic, []).append(entry.adopts.topic_id)
        self.topic_ids[entry.topic] = entry.topic_id
        recorded = self.origins.get(entry.topic_id, {})
        self.origins[entry.topic_id] = {**entry.partitions, **recorded}

    def _apply_commit(self, n: int, entry: Commit) -> None:
        self.live[n] = entry
        self.unsettled.add(n)
        for part in entry.replaces:
            self._replace(part)
        self.committed[entry.plan_id, entry.chunk] = n
        self.cluster_id = entry.cluster_id
        for topic, decoded in (entry.decoded or {}).items():
            offsets = sum(a.end - a.start for a in entry.accounts[topic].values())
            self._decode(topic, decoded.sha256, entry.plan_id, offsets)
        self._count_undecodable(entry, 1)
        if entry.lane != REPLAY:
            for topic_id, r in entry.ranges:
                self._cover(topic_id, r)
        self.egress.commit(entry)

    def _apply_release(self, entry: Release) -> None:
        claim = self.egress.end_claim(entry)
        self.barred.add((entry.plan_id, 0, claim.attempt))
        if entry.how != "nothing sent":
            self.cluster_id = self.cluster_id or claim.cluster_id
        if entry.how == "declare sent":
            for r in claim.window if claim.lane != REPLAY else ():
                self._cover(claim.topic_ids[r.topic], r)

    def _cover(self, topic_id: str, r: OffsetRange) -> None:
        key = topic_id, r.partition
        self.covered.add(key, r.start, r.end)
        if key in self.skipped:  # a commit overrides a gap
            self.skipped[key] = self.skipped[key].subtract(Intervals.of([(r.start, r.end)]))

    def _replace(self, part: Replaced) -> None:
        old, r = self.live[part.commit], part.range
        if decoded := (old.decoded or {}).get(r.topic):
            self._decode(r.topic, decoded.sha256, old.plan_id, -len(r))
        parts = self.replaced.setdefault(part.commit, OffsetSets())
        parts.add((old.topic_ids[r.topic], r.partition), r.start, r.end)
        if not any(self.live_ranges(part.commit)):
            del self.live[part.commit], self.replaced[part.commit]
            self._count_undecodable(old, -1)

    def _count_undecodable(self, entry: Commit, sign: int) -> None:
        for topic, decoded in (entry.decoded or {}).items():
            counts = Counter(self.undecodable.get(topic, {}))
            counts.update({reason: sign * rows for reason, rows in decoded.undecodable.items()})
            self.undecodable[topic] = dict(+counts)

    def _decode(self, topic: str, sha256: str, plan_id: str, offsets: int) -> None:
        found = self.decodings.setdefault(topic, {})
        plan_id, live = found.get(sha256, (plan_id, 0))
        found[sha256] = LiveDecoding(plan_id, live + offsets)
        if not live + offsets:
            del found[sha256]

    def decodings_beside(self, topic: str, replaces: Iterable[Replaced] = ()) -> dict[str, str]:
        """Return the decodings of a topic's live rows by digest, each with a plan that has it, as
        they are without the replaced parts.
        """
        left = {sha256: each.offsets for sha256, each in self.decodings.get(topic, {}).items()}
        for n, r in replaces:
            of = (self.live[n].decoded or {}).get(topic) if n in self.live else None
            if of and r.topic == topic:
                left[of.sha256] -= len(r)
        return {d: self.decodings[topic][d].plan_id for d, offsets in left.items() if offsets > 0}

    def live_ranges(self, n: int) -> Iterator[tuple[str, OffsetRange]]:
        """Yield topic id and range of the parts of a live commit that none has replaced."""
        replaced = self.replaced.get(n, OffsetSets())
        for topic_id, r in self.live[n].ranges:
            for start, end in replaced[topic_id, r.partition].missing(r.start, r.end):
                yield topic_id, OffsetRange(r.topic, r.partition, start, end)

    def holds(self, n: int, topic_id: str, partition: int, offset: int) -> bool:
        """Return whether commit `n` is live and no later commit has replaced this offset of it."""
        replaced = self.replaced.get(n, OffsetSets())[topic_id, partition]
        return n in self.live and not replaced.within(offset, offset + 1)

    def progress(self, topic_id: str, partition: int) -> Progress:
        """Return what the ledger says of a partition; KeyError where it has no origin."""
        key = topic_id, partition
        return Progress(self.origins[topic_id][partition], self.covered[key], self.skipped[key])

    def cursors(self, topic: str) -> dict[int, int]:
        """Return the cursor of each partition that has an origin."""
        return self._cursors_of(self.topic_ids[topic])

    def highest_cursors(self, topic: str) -> dict[int, int]:
        """Return the highest cursor per partition under any topic id that the topic has had."""
        highest: dict[int, int] = {}
        for topic_id in (*self.earlier_ids.get(topic, ()), self.topic_ids[topic]):
            for p, cursor in self._cursors_of(topic_id).items():
                highest[p] = max(cursor, highest.get(p, 0))
        return highest

    def _cursors_of(self, topic_id: str) -> dict[int, int]:
        return {p: self.progress(topic_id, p).cursor for p in sorted(self.origins[topic_id])}

    def covered_part(self, window: Window, topic_ids: Mapping[str, str]) -> list[OffsetRange]:
        """Return the parts of a window that live commits hold."""
        return _within(self.covered, window, topic_ids)

    def sent_part(self, window: Window, topic_ids: Mapping[str, str]) -> list[OffsetRange]:
        """Return the parts of an egress window that were sent or declared sent."""
        return self.covered_part(window, topic_ids) + _within(self.skipped, window, topic_ids)

    def covers(self, window: Window, topic_ids: Mapping[str, str]) -> bool:
        """Return whether every offset of a window is in some live commit."""
        return sum(map(len, self.covered_part(window, topic_ids))) == sum(map(len, window))

    def commits_over(self, window: Window, topic_ids: Mapping[str, str]) -> tuple[int, ...]:
        """Return the live commits that hold any offset of a window."""
        wanted = {(topic_ids[r.topic], r.partition): r for r in window}
        return tuple(
            n
            for n in self.live
            if any(
                (w := wanted.get((topic_id, r.partition))) and r.start < w.end and w.start < r.end
                for topic_id, r in self.live_ranges(n)
            )
        )


def _within(sets: OffsetSets, window: Window, topic_ids: Mapping[str, str]) -> list[OffsetRange]:
    return [
        part
        for r in window
        for part in r.parts(sets[topic_ids[r.topic], r.partition].within(r.start, r.end))
    ]
