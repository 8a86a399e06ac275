"""Where chunks stand: what the judge will say, in any state of the ledger.

The oracle is by hand: each offset of a made ledger has its commit, live or replaced.
"""

import random
from dataclasses import dataclass, field, replace

import pytest

from support.staged_attempts import plan_of
from tidegate.core.entries import Account, Commit, Gap, Origin, Reference
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, Adopt, CoveredBy, NotLive, PartlyCovered, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.replacement import Replaced, replaces_to_json
from tidegate.core.work import Standing, chunk_of, chunks_to_commit, may_be_committed

END = 12
"""Of each of two partitions."""


@dataclass
class Made:
    """A ledger of some entries, with the commit that holds each offset now and all that had it."""

    rng: random.Random
    fold: Fold = field(default_factory=Fold)
    holder: dict = field(default_factory=dict)  # (partition, offset) → commit that is live
    covered: set = field(default_factory=set)
    plans: list = field(default_factory=list)

    def window(self):
        """One or two ranges, of one partition each."""
        ranges = []
        for p in self.rng.sample((0, 1), self.rng.randint(1, 2)):
            start = self.rng.randrange(END)
            ranges.append(OffsetRange("t", p, start, self.rng.randint(start + 1, END)))
        return tuple(sorted(ranges))

    def live_plan(self):
        made = plan_of(*(self.window() for _ in range(self.rng.randint(1, 2))))
        return replace(made, destination=str(self.rng.random()))

    def replay_plan(self):
        """A re-ingest of some of what is live now; None while nothing is."""
        if not self.holder:
            return None
        p, first = self.rng.choice(sorted(self.holder))
        end, parts = first, []
        while (p, end) in self.holder and end - first < 4:
            n = self.holder[p, end]
            if parts and parts[-1].commit == n:
                parts[-1] = Replaced(n, replace_end(parts[-1].range, end + 1))
            else:
                parts.append(Replaced(n, OffsetRange("t", p, end, end + 1)))
            end += 1
        made = plan_of((OffsetRange("t", p, first, end),))
        asked = {"id": str(self.rng.random()), "replaces": [replaces_to_json(parts)]}
        return replace(made, lane="replay", replay=asked)

    def step(self):
        plan = self.replay_plan() if self.rng.random() < 0.3 else self.live_plan()
        if plan is None:
            return
        self.plans.append(plan)
        if self.rng.random() < 0.2:
            p, start = self.rng.randrange(2), self.rng.randrange(END - 1)
            gap = Gap("t", "id-t", p, start, start + 1, "expired", "run")
            if isinstance(judge(self.fold, gap), Accepted):
                self.fold.apply(gap, "digest")
        made = self.rng.choice(self.plans)
        number = self.rng.randrange(len(made.chunks))
        entry = commit_of(made, number)
        if isinstance(judge(self.fold, entry), Accepted):
            self.fold.apply(entry, "digest")
            for r in made.chunks[number]:
                for offset in range(r.start, r.end):
                    self.holder[r.partition, offset] = self.fold.n
                    self.covered.add((r.partition, offset))

    def expected(self, plan, number):
        """Return how a chunk stands, offset by offset."""
        offsets = [(r.partition, o) for r in plan.chunks[number] for o in range(r.start, r.end)]
        if (plan.id, number) in self.fold.committed:
            return Standing.COMMITTED
        if plan.replay is not None:
            planned = {
                (part.range.partition, o): part.commit
                for part in plan.replaces(number)
                for o in range(part.range.start, part.range.end)
            }
            same = all(self.holder.get(each) == planned[each] for each in offsets)
            return Standing.PENDING if same else Standing.DEAD
        taken = self.covered.intersection(offsets)
        if len(taken) == len(offsets):
            return Standing.COVERED
        return Standing.DEAD if taken else Standing.PENDING


def replace_end(r, end):
    return OffsetRange(r.topic, r.partition, r.start, end)


def commit_of(plan, number, attempt="a"):
    accounts = {r.partition: Account(r.start, r.end, len(r), 0) for r in plan.chunks[number]}
    return Commit(
        plan.lane, plan.id, "sha", number, attempt, "cluster", {"t": "id-t"}, {"t": accounts},
        Reference("manifest", "sha"), replaces=plan.replaces(number),
    )  # fmt: skip


VERDICTS = {
    Standing.COMMITTED: Adopt, Standing.COVERED: CoveredBy, Standing.PENDING: Accepted,
}  # fmt: skip


@pytest.mark.parametrize(
    "seeds", [range(1_000), pytest.param(range(1_000, 50_000), marks=pytest.mark.slow)]
)
def test_every_chunk_of_every_plan(seeds):
    """Also of plans that were dead, replaced or skipped in between, some 12 of each ledger."""
    seen = set()
    for seed in seeds:
        made = Made(random.Random(seed))
        made.fold.apply(Origin("t", "id-t", {0: 0, 1: 0}), "digest")
        for _ in range(made.rng.randint(1, 10)):
            made.step()
        for plan in made.plans:
            left = [chunk.number for chunk in chunks_to_commit(made.fold, plan)]
            for number in range(len(plan.chunks)):
                chunk, right = chunk_of(made.fold, plan, number), made.expected(plan, number)
                seen.add((plan.lane, right))
                assert chunk.standing is right, (seed, plan.id, number)
                assert (number in left) == (not chunk.is_done)
                assert bool(chunk.contested) == (right is Standing.DEAD)
                verdict = judge(made.fold, commit_of(plan, number))
                dead = NotLive if plan.replay else PartlyCovered
                assert isinstance(verdict, VERDICTS.get(right, dead)), (seed, plan.id, number)
    live = {("live", standing) for standing in Standing}
    replays = {("replay", standing) for standing in Standing if standing is not Standing.COVERED}
    assert seen == live | replays


def test_attempts_that_may_be_committed():
    plan = plan_of((OffsetRange("t", 0, 0, 5),), (OffsetRange("t", 0, 5, 9),))
    fold = Fold(committed={(plan.id, 0): 2}, barred={(plan.id, 1, "gone")})
    may = {
        (number, name): may_be_committed(fold, (plan.id, number, name))
        for number, name in ((0, "a"), (1, "gone"), (1, "a"))
    }
    assert may == {(0, "a"): False, (1, "gone"): False, (1, "a"): True}
