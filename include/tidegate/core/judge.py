"""Judge: whether an entry may be added to the ledger (the table of docs/design.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.core.entries import Abandon, Claim, Commit, Entry, Gap, Origin, Release
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.ledger import REPLAY, Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.replacement import Replaced


@dataclass(frozen=True)
class Accepted:
    """The entry may be created as number `n + 1`."""


@dataclass(frozen=True)
class Adopt:
    """The chunk is committed as entry `n`: finalise that entry's files."""

    n: int


@dataclass(frozen=True)
class CoveredBy:
    """Every offset is in the lake already, by these commits: nothing to do."""

    commits: tuple[int, ...]


@dataclass(frozen=True)
class PartlyCovered:
    """Others have committed a part: the run needs the next generation of its plan."""

    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True)
class Lost:
    """Someone else's entry says it already, perhaps otherwise: look again."""


@dataclass(frozen=True)
class Refused:
    """The attempt was abandoned, or is committed and cannot be; or another holds the claim."""

    reason: str


@dataclass(frozen=True)
class CutTo:
    """Only these parts of the gap are unseen; none: nothing to record."""

    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class NotLive:
    """What it would replace is not, or not all, what some live commit holds."""

    ranges: tuple[OffsetRange, ...]


Verdict = Accepted | Adopt | CoveredBy | PartlyCovered | Lost | Refused | CutTo | NotLive


def judge(fold: Fold, entry: Entry) -> Verdict:
    """Say what comes of adding `entry` after the entries in `fold` (docs/design.md, the table)."""
    match entry:
        case Origin():
            known = fold.origins.get(entry.topic_id, {})
            now = fold.topic_ids.get(entry.topic, entry.topic_id)
            expected = entry.adopts.topic_id if entry.adopts else entry.topic_id
            doubled = not entry.adopts and known.keys() & entry.partitions.keys()
            return Lost() if now != expected or doubled else Accepted()
        case Commit():
            return _judge_commit(fold, entry)
        case Gap():
            key = entry.topic_id, entry.partition
            unseen = (
                fold.covered.get(key, NOTHING)
                .missing(entry.start, entry.end)
                .subtract(fold.skipped.get(key, NOTHING))
            )
            if unseen.spans == ((entry.start, entry.end),):
                return Accepted()
            return CutTo(tuple(replace(entry, start=start, end=end) for start, end in unseen))
        case Abandon():
            n = fold.committed.get((entry.plan_id, entry.chunk))
            if n is not None and n in fold.live and fold.live[n].attempt == entry.attempt:
                return Refused(f"attempt {entry.attempt} is committed as #{n}")
            given_up = (entry.plan_id, entry.chunk, entry.attempt) in fold.abandoned
            return Lost() if given_up else Accepted()
        case Claim():
            return _judge_claim(fold, entry)
        case Release():
            held = fold.claims.get(entry.plan_id)
            return Accepted() if held and held.attempt == entry.attempt else Lost()


def _judge_claim(fold: Fold, claim: Claim) -> Verdict:
    """A file or an offset belongs to one plan at a time, and a plan to one sender."""
    n = fold.committed.get((claim.plan_id, 0))
    if n is not None:
        return Adopt(n)
    if claim.plan_id in fold.declared:
        return PartlyCovered(claim.window)
    held = fold.claims.get(claim.plan_id)
    if held:
        if held.attempt == claim.supersedes:
            return Accepted()
        return Refused(f"attempt {held.attempt} holds the claim")
    names = {file.name for file in claim.files}
    for other in fold.claims.values():
        if taken := sorted(names & {file.name for file in other.files}):
            return Refused(f"plan {other.plan_id} has claimed {taken[0]}")
        # Not only ranges that meet: two senders of one partition would mix its order.
        both = claim.partitions & other.partitions
        if both and REPLAY not in (claim.lane, other.lane):
            return Refused(f"plan {other.plan_id} sends of partition {min(both)[1]}")
    if same := sorted(f.name for f in claim.files if fold.sent.get(f.name) == f.etag):
        return Refused(f"{same[0]} was sent already")
    if claim.lane == REPLAY:
        return Accepted()
    if sent := sorted(names & fold.sent.keys()):
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
    """Return what is not live of what would be replaced, and what of the window replaces nothing.

    Empty: the parts are live, and exactly the window.
    """
    left: dict[tuple[str, int], Intervals] = {}
    for r in window:
        key = r.topic, r.partition
        left[key] = left.get(key, NOTHING).add(r.start, r.end)
    held: dict[int, dict[tuple[str, int], Intervals]] = {}
    wrong = []
    for n, r in replaces:
        if n not in held:
            held[n] = {}
            for topic_id, each in fold.live_ranges(n) if n in fold.live else ():
                if topic_ids.get(each.topic) == topic_id:
                    key = each.topic, each.partition
                    held[n][key] = held[n].get(key, NOTHING).add(each.start, each.end)
        key = r.topic, r.partition
        mine = left.get(key, NOTHING)
        if held[n].get(key, NOTHING).missing(r.start, r.end) or mine.missing(r.start, r.end):
            wrong.append(r)
        left[key] = mine.subtract(Intervals.of([(r.start, r.end)]))
    wrong += [OffsetRange(topic, p, s, e) for (topic, p), rest in left.items() for s, e in rest]
    return tuple(wrong)
