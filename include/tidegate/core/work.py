"""Work: where the chunks of an ingest plan stand, and how far an egress plan is sent.

Both by the ledger alone. A chunk's standing is what the judge will say of its commit. Each step
asks for it before it acts, and the judge asks again when the entry is appended, so no step waits
for what is refused. An answer holds for one state of the ledger: after an entry it is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from tidegate.core.entries import Claim
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.core.replacement import Replaced


class Standing(StrEnum):
    """What the ledger says of a chunk, whatever its attempts have done.

    - `COMMITTED`: its plan has committed it.
    - `COVERED`: other commits hold all its offsets. A chunk of a replay is never covered.
    - `DEAD`: others hold a part of it, or have replaced what it was to replace. This is final:
      coverage never shrinks, and a replaced part never becomes live again.
    - `PENDING`: it may be committed, also if it is skipped: a commit overrides a gap.
    """

    COMMITTED = "committed"
    COVERED = "covered"
    DEAD = "dead"
    PENDING = "pending"


class PlannedChunk(NamedTuple):
    """A chunk of a plan. `contested` are the offsets by which it is dead, else none."""

    number: int
    window: Window
    standing: Standing
    contested: tuple[OffsetRange, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether its rows are in the lake."""
        return self.standing in (Standing.COMMITTED, Standing.COVERED)


def chunk_of(fold: Fold, plan: Plan, number: int) -> PlannedChunk:
    """Return a chunk of a plan as it stands."""
    window = plan.chunks[number]
    standing, contested = standing_of(
        fold,
        (plan.id, number),
        window,
        plan.topics,
        plan.replaces(number),
        is_replay=plan.replay is not None,
    )
    return PlannedChunk(number, window, standing, contested)


def chunks_of(fold: Fold, plan: Plan) -> list[PlannedChunk]:
    """Return the chunks of a plan as they stand."""
    return [chunk_of(fold, plan, number) for number in range(len(plan.chunks))]


def chunks_to_commit(fold: Fold, plan: Plan) -> list[PlannedChunk]:
    """Return the chunks of a plan whose rows are not in the lake."""
    return [chunk for chunk in chunks_of(fold, plan) if not chunk.is_done]


def commits_of(fold: Fold, plan: Plan) -> dict[int, int]:
    """Return the numbers of the commits that a plan has made, by chunk."""
    found = ((number, fold.committed.get((plan.id, number))) for number in range(len(plan.chunks)))
    return {number: n for number, n in found if n is not None}


def may_be_committed(fold: Fold, attempt: tuple[str, int, str]) -> bool:
    """Return whether an attempt may still be committed: no attempt of its chunk is, and it is not
    abandoned.

    An attempt is plan id, chunk and name.
    """
    return attempt[:2] not in fold.committed and attempt not in fold.barred


def standing_of(
    fold: Fold,
    key: tuple[str, int],
    window: Window,
    topic_ids: Mapping[str, str],
    replaces: Iterable[Replaced],
    *,
    is_replay: bool,
) -> tuple[Standing, tuple[OffsetRange, ...]]:
    """Return how a chunk stands, and the offsets by which it is dead.

    `key` is plan id and chunk number. `replaces` are the parts that its commit would replace.
    """
    if key in fold.committed:
        return Standing.COMMITTED, ()
    replaces = tuple(replaces)
    if is_replay:
        gone = _not_live(fold, topic_ids, window, replaces) if replaces else ()
        return (Standing.DEAD, gone) if gone else (Standing.PENDING, ())
    taken = tuple(fold.covered_part(window, topic_ids))
    if not taken:
        return Standing.PENDING, ()
    if sum(map(len, taken)) == sum(map(len, window)):
        return Standing.COVERED, ()
    return Standing.DEAD, taken


def _not_live(
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


class Sending(StrEnum):
    """What the ledger says of an egress plan.

    `CLAIMED`: an attempt may be sending, or has died. `SENT`: it is committed. `DECLARED`: an
    operator has declared it sent. `RELEASED`: its last claim was released in another way.
    """

    UNCLAIMED = "unclaimed"
    CLAIMED = "claimed"
    SENT = "sent"
    DECLARED = "declared"
    RELEASED = "released"


class Delivered(NamedTuple):
    """How far an egress plan is sent, by the ledger alone.

    `commit` is the number of its commit, `claim` the open one. `ends` say how claims were released.
    """

    sending: Sending
    commit: int | None
    claim: Claim | None
    ends: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Whether nothing of it will be sent."""
        return self.sending in (Sending.SENT, Sending.DECLARED)

    @property
    def is_unsent(self) -> bool:
        """Whether it was claimed, and it is proven that no record of it was sent."""
        return self.sending is Sending.RELEASED and set(self.ends) == {"nothing sent"}


def delivery_state(fold: Fold, plan_id: str) -> Delivered:
    """Return how far an egress plan is sent."""
    commit, claim = fold.committed.get((plan_id, 0)), fold.egress.claims.get(plan_id)
    ends = tuple(fold.egress.released.get(plan_id, ()))
    if commit is not None:
        sending = Sending.SENT
    elif claim:
        sending = Sending.CLAIMED
    elif ends[-1:] == ("declare sent",):
        sending = Sending.DECLARED
    else:
        sending = Sending.RELEASED if ends else Sending.UNCLAIMED
    return Delivered(sending, commit, claim, ends)


def earlier_attempts(fold: Fold, plan_id: str) -> list[str]:
    """Return the attempts of an egress plan whose claims were superseded or released.

    They may have sent, unlike the abandoned attempts of an ingest, which count for nothing.
    """
    return sorted(name for of, _, name in fold.barred if of == plan_id)
