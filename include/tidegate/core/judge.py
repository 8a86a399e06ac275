"""Judge: whether an entry may be added to the ledger (table: docs/internals/architecture.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.entries import Abandon, Claim, Commit, Entry, Gap, Origin, Release
from tidegate.core.fold import REPLAY, RESEND, Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Columns
from tidegate.core.source_root import roots_overlap
from tidegate.core.work import Sending, Standing, delivery_state, standing_of


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
    """Only these parts of the gap are unseen. If there are none, nothing is recorded."""

    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class NotLive:
    """These ranges are not in the live commits that would be replaced."""

    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True)
class Unchecked:
    """Live rows have these decodings, by topic, that the entry's were not compared with."""

    decodings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Moved:
    """The plan was made by what the ledger contradicts now. Another one is needed."""

    reason: str


Verdict = (
    Accepted | Adopt | CoveredBy | PartlyCovered | Lost | Refused | CutTo | NotLive | Unchecked
    | Moved
)  # fmt: skip


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
            known_abandoned = (entry.plan_id, entry.chunk, entry.attempt) in fold.barred
            return Lost() if known_abandoned else Accepted()
        case Claim():
            return _judge_claim(fold, entry)
        case Release():
            claim = fold.egress.claims.get(entry.plan_id)
            return Accepted() if claim and claim.attempt == entry.attempt else Lost()


def _judge_claim(fold: Fold, claim: Claim) -> Verdict:
    """Judge a claim: one plan at a time has a file or an offset, one sender a plan."""
    state = delivery_state(fold, claim.plan_id)
    if state.commit is not None:
        return Adopt(state.commit)
    if state.sending is Sending.DECLARED:
        return PartlyCovered(claim.window)
    if earlier := state.claim:
        if earlier.attempt == claim.supersedes:
            return Accepted()
        return Refused(f"attempt {earlier.attempt} holds the claim")
    for other in fold.egress.claims.values():
        if _differ(claim.cluster_id, other.cluster_id):
            return Refused(f"plan {other.plan_id} sends to cluster {other.cluster_id}")
    is_replay = claim.lane == REPLAY
    if why := moved_premises(
        fold,
        claim.cluster_id,
        None if is_replay else claim.root,
        None if is_replay else claim.columns,
    ):
        return Moved(why)
    if is_replay:  # it repeats others on purpose
        return Accepted()
    names = {file.name for file in claim.files}
    for other in (each for each in fold.egress.claims.values() if each.lane != REPLAY):
        if taken := sorted(names & {file.name for file in other.files}):
            return Refused(f"plan {other.plan_id} has claimed {taken[0]}")
        # Even disjoint ranges: two senders of one partition would mix its order.
        if both := claim.partitions & other.partitions:
            return Refused(f"plan {other.plan_id} sends of partition {min(both)[1]}")
        if claim.root and other.root and roots_overlap(claim.root, other.root):
            return Refused(f"plan {other.plan_id} sends files below {other.root}")
        if _differ(claim.columns, other.columns):
            return Refused(f"plan {other.plan_id} decides the columns of Parquet files")
    if same := sorted(f.name for f in claim.files if fold.egress.sent.get(f.name) == f.etag):
        return Refused(f"{same[0]} was sent already")
    if claim.lane != RESEND and (sent := sorted(names & fold.egress.sent.keys())):
        return Refused(f"{sent[0]} was sent already, with other content")
    done = fold.sent_part(claim.window, claim.topic_ids)
    return PartlyCovered(tuple(done)) if done else Accepted()


def _judge_commit(fold: Fold, commit: Commit) -> Verdict:
    key = commit.plan_id, commit.chunk
    window = tuple(r for _, r in commit.ranges)
    is_replay = commit.lane == REPLAY or bool(commit.replaces)
    standing, contested = standing_of(
        fold, key, window, commit.topic_ids, commit.replaces, is_replay=is_replay
    )
    if standing is Standing.COMMITTED:
        return Adopt(fold.committed[key])
    if (*key, commit.attempt) in fold.barred:
        return Refused(f"attempt {commit.attempt} was abandoned")
    if why := moved_premises(fold, commit.cluster_id):
        return Moved(why)
    if standing is Standing.COVERED:
        return CoveredBy(fold.commits_over(window, commit.topic_ids))
    if standing is Standing.DEAD:
        return NotLive(contested) if is_replay else PartlyCovered(contested)
    return _compared(fold, commit)


def _compared(fold: Fold, commit: Commit) -> Accepted | Unchecked:
    unchecked = tuple(
        (topic, digest)
        for topic, own in sorted((commit.decoded or {}).items())
        for digest in fold.decodings_beside(topic, commit.replaces)
        if digest not in (own.sha256, *own.beside)
    )
    return Unchecked(unchecked) if unchecked else Accepted()


def _differ(one: object, other: object) -> bool:
    """Return whether both are known and differ."""
    return None not in (one, other) and one != other


def moved_premises(
    fold: Fold,
    cluster_id: str | None,
    root: str | None = None,
    columns: Columns | None = None,
) -> str | None:
    """Return what of a plan the ledger contradicts: its cluster, the root of its files' names, or
    the columns of Parquet files. None: nothing.
    """
    if _differ(cluster_id, fold.cluster_id):
        return f"it is of cluster {cluster_id}, and the ledger of {fold.cluster_id}"
    for was in sorted(fold.egress.roots):
        if root and roots_overlap(root, was):
            return f"files were sent by their names below {was}, and it has them below {root}"
    if _differ(columns, fold.egress.columns):
        return "its Parquet files have other columns than those that were sent first"
    return None
