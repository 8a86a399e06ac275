"""Judge: whether an entry may be added to the ledger (the table in docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.core.entries import Abandon, Claim, Commit, Entry, Gap, Origin, Release
from tidegate.core.fold import REPLAY, RESEND, Fold
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.offsets import OffsetRange
from tidegate.core.replacement import Replaced


@dataclass(frozen=True)
class Accepted:
    """The entry may be created as number `n + 1`."""


@dataclass(frozen=True)
class Adopt:
    """The chunk is committed already, as entry `n`: that entry's files are to be placed."""

    n: int


@dataclass(frozen=True)
class CoveredBy:
    """These commits hold every offset already: there is nothing to do."""

    commits: tuple[int, ...]


@dataclass(frozen=True)
class PartlyCovered:
    """Other commits hold a part of it: the run needs the next generation of its plan."""

    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True)
class Lost:
    """An earlier entry has decided the same: the caller reads the ledger again."""


@dataclass(frozen=True)
class Refused:
    """The entry contradicts the ledger, for this reason."""

    reason: str


@dataclass(frozen=True)
class CutTo:
    """Only these parts of the gap are unseen; if there are none, nothing is recorded."""

    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class NotLive:
    """These ranges are not in the live commits that would be replaced."""

    ranges: tuple[OffsetRange, ...]


Verdict = Accepted | Adopt | CoveredBy | PartlyCovered | Lost | Refused | CutTo | NotLive


def judge(fold: Fold, entry: Entry) -> Verdict:
    """Return whether `entry` may follow the entries in `fold`."""
    match entry:
        case Origin():
            origins = fold.origins.get(entry.topic_id, {})
            now = fold.topic_ids.get(entry.topic, entry.topic_id)
            expected = entry.adopts.topic_id if entry.adopts else entry.topic_id
            repeated = not entry.adopts and origins.keys() & entry.partitions.keys()
            return Lost() if now != expected or repeated else Accepted()
        case Commit():
            return _judge_commit(fold, entry)
        case Gap():
            key = entry.topic_id, entry.partition
            uncovered = fold.covered[key].missing(entry.start, entry.end)
            unseen = uncovered.subtract(fold.skipped[key])
            if unseen.spans == ((entry.start, entry.end),):
                return Accepted()
            return CutTo(tuple(replace(entry, start=start, end=end) for start, end in unseen))
        case Abandon():
            n = fold.committed.get((entry.plan_id, entry.chunk))
            if n is not None and n in fold.live and fold.live[n].attempt == entry.attempt:
                return Refused(f"attempt {entry.attempt} is committed as #{n}")
            known_abandoned = (entry.plan_id, entry.chunk, entry.attempt) in fold.abandoned
            return Lost() if known_abandoned else Accepted()
        case Claim():
            return _judge_claim(fold, entry)
        case Release():
            claim = fold.claims.get(entry.plan_id)
            return Accepted() if claim and claim.attempt == entry.attempt else Lost()


def _judge_claim(fold: Fold, claim: Claim) -> Verdict:
    """Judge a claim: one plan at a time has a file or an offset, one sender a plan."""
    n = fold.committed.get((claim.plan_id, 0))
    if n is not None:
        return Adopt(n)
    if claim.plan_id in fold.declared:
        return PartlyCovered(claim.window)
    earlier = fold.claims.get(claim.plan_id)
    if earlier:
        if earlier.attempt == claim.supersedes:
            return Accepted()
        return Refused(f"attempt {earlier.attempt} holds the claim")
    if claim.lane == REPLAY:  # it repeats others on purpose
        return Accepted()
    names = {file.name for file in claim.files}
    for other in (each for each in fold.claims.values() if each.lane != REPLAY):
        if taken := sorted(names & {file.name for file in other.files}):
            return Refused(f"plan {other.plan_id} has claimed {taken[0]}")
        # Even disjoint ranges: two senders of one partition would mix its order.
        if both := claim.partitions & other.partitions:
            return Refused(f"plan {other.plan_id} sends of partition {min(both)[1]}")
    if same := sorted(f.name for f in claim.files if fold.sent.get(f.name) == f.etag):
        return Refused(f"{same[0]} was sent already")
    if claim.lane != RESEND and (sent := sorted(names & fold.sent.keys())):
        return Refused(f"{sent[0]} was sent already, with other content")
    done = fold.sent_part(claim.window, claim.topic_ids)
    return PartlyCovered(tuple(done)) if done else Accepted()


def _judge_commit(fold: Fold, commit: Commit) -> Verdict:
    n = fold.committed.get((commit.plan_id, commit.chunk))
    if n is not None:
        return Adopt(n)
    if (commit.plan_id, commit.chunk, commit.attempt) in fold.abandoned:
        return Refused(f"attempt {commit.attempt} was abandoned")
    if commit.replaces:
        wrong = not_live(fold, commit.topic_ids, [r for _, r in commit.ranges], commit.replaces)
        return NotLive(wrong) if wrong else Accepted()
    window = tuple(r for _, r in commit.ranges)
    covered = [] if commit.lane == REPLAY else fold.covered_part(window, commit.topic_ids)
    if not covered:
        return Accepted()
    if fold.covers(window, commit.topic_ids):
        return CoveredBy(fold.commits_over(window, commit.topic_ids))
    return PartlyCovered(tuple(covered))


def not_live(
    fold: Fold,
    topic_ids: Mapping[str, str],
    window: Iterable[OffsetRange],
    replaces: Iterable[Replaced],
) -> tuple[OffsetRange, ...]:
    """Return the parts to replace that are not live, and the ranges that would replace nothing.

    It is empty if the parts are live and together exactly the window.
    """
    unmatched = OffsetSets()
    for r in window:
        unmatched.add((r.topic, r.partition), r.start, r.end)
    live: dict[int, OffsetSets] = {}
    wrong = []
    for n, r in replaces:
        if n not in live:
            live[n] = OffsetSets()
            for topic_id, each in fold.live_ranges(n) if n in fold.live else ():
                if topic_ids.get(each.topic) == topic_id:
                    live[n].add((each.topic, each.partition), each.start, each.end)
        key = r.topic, r.partition
        if live[n][key].missing(r.start, r.end) or unmatched[key].missing(r.start, r.end):
            wrong.append(r)
        unmatched[key] = unmatched[key].subtract(Intervals.of([(r.start, r.end)]))
    wrong += [
        OffsetRange(topic, p, start, end)
        for (topic, p), rest in unmatched.items()
        for start, end in rest
    ]
    return tuple(wrong)
