"""A live run's draft: every partition by itself, and draft after draft without a gap."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.cursor import Watermarks
from tidegate.core.draft import draft_live, topic_problems
from tidegate.core.entries import Account, Commit, Gap, Origin, Reference
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, CutTo, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut, TopicState

TOPICS = {"a": "id-a", "b": "id-b"}


def marks(start, end, high=None):
    return Watermarks(start, end, end if high is None else high)


def draft(
    fold,
    watermarks,
    *,
    topics=("a",),
    ids=TOPICS,
    first_sight=None,
    on_expired="fail",
    leaderless=None,
    assigned=None,
):
    """Return the draft; what it excludes or skips is what `problems` says of the same state."""

    def state(topic):
        found = TopicState(
            ids.get(topic), watermarks.get(topic, {}), (leaderless or {}).get(topic, ())
        )
        return found.only(None if assigned is None else assigned.get(topic, ()))

    states = {topic: state(topic) for topic in topics}
    made = draft_live(fold, states, first_sight or {}, on_expired=on_expired, by="run")
    if not made.origins:
        gaps = {(gap.topic, gap.partition) for gap in made.gaps}
        said = [each for topic in topics for each in topic_problems(fold, topic, states[topic])]
        assert made.left_out == [each for each in said if (each.topic, each.partition) not in gaps]
    return made


def fold_of(*entries):
    fold = Fold()
    for entry in entries:
        fold.apply(entry, "digest")
    return fold


def commit(plan_id, *ranges, topic_ids=TOPICS):
    accounts = {}
    for r in ranges:
        accounts.setdefault(r.topic, {})[r.partition] = Account(r.start, r.end, len(r), 0)
    ids = {topic: topic_ids[topic] for topic in accounts}
    manifest = Reference("manifest", "sha")
    return Commit("live", plan_id, "sha", 0, "attempt", "cluster", ids, accounts, manifest)


def test_the_first_sight_of_a_topic_gives_it_its_origin():
    """Also if there is nothing to read: `latest` must not mean "never"."""
    made = draft(Fold(), {"a": {0: marks(3, 9), 1: marks(0, 0)}}, first_sight={"a": {0: 9, 1: 0}})
    assert made.origins == [Origin("a", "id-a", {0: 9, 1: 0})]
    assert (made.ranges, made.gaps, made.left_out) == ([], [], [])


def test_records_after_a_quiet_start_are_taken():
    """From the origin that was recorded then, not from where the log ends now."""
    made = draft(fold_of(Origin("a", "id-a", {0: 9})), {"a": {0: marks(3, 12)}})
    assert made.ranges == [OffsetRange("a", 0, 9, 12)]
    assert made.origins == []


def test_a_partition_that_appears_later_starts_at_0():
    """Records that were written before it was discovered must not be missed."""
    made = draft(fold_of(Origin("a", "id-a", {0: 9})), {"a": {0: marks(9, 9), 1: marks(0, 5)}})
    assert made.origins == [Origin("a", "id-a", {1: 0})]
    assert made.ranges == [OffsetRange("a", 1, 0, 5)]


@pytest.mark.parametrize("on_expired", ["fail", "skip"])
def test_what_expired_before_it_was_seen_goes_by_policy(on_expired):
    """A partition that appears later with a log that starts at 4: never silently missed."""
    known = fold_of(Origin("a", "id-a", {0: 0}))
    made = draft(known, {"a": {0: marks(0, 0), 1: marks(4, 9)}}, on_expired=on_expired)
    if on_expired == "fail":
        assert made.left_out == [LeftOut("a", 1, "expired", {"start": 0, "end": 4, "offsets": 4})]
        assert (made.ranges, made.gaps) == ([], [])
    else:
        assert made.gaps == [Gap("a", "id-a", 1, 0, 4, "expired", "run")]
        assert made.ranges == [OffsetRange("a", 1, 4, 9)]
        assert made.left_out == []


def test_one_bad_partition_never_stops_the_others():
    """Expired, vanished and truncated ones are left out by name; the other one is planned."""
    known = fold_of(
        Origin("a", "id-a", {0: 0, 1: 0, 2: 0, 3: 0}),
        commit("p", OffsetRange("a", 2, 0, 50), OffsetRange("a", 3, 0, 50)),
    )
    made = draft(known, {"a": {0: marks(5, 9), 2: marks(0, 20), 3: marks(0, 70)}})
    assert made.left_out == [
        LeftOut("a", 1, "the partition vanished", {"cursor": 0}),
        LeftOut("a", 0, "expired", {"start": 0, "end": 5, "offsets": 5}),
        LeftOut("a", 2, "truncated", {"cursor": 50, "end": 20}),
    ]
    assert made.ranges == [OffsetRange("a", 3, 50, 70)]


def test_one_bad_topic_never_stops_the_others():
    """A topic that was recreated, with more records than before, and one that is gone."""
    known = fold_of(
        Origin("a", "old-a", {0: 0}), Origin("b", "id-b", {0: 0}), Origin("c", "id-c", {0: 0})
    )
    made = draft(known, {"a": {0: marks(0, 99)}, "b": {0: marks(0, 3)}}, topics=("a", "b", "c"))
    assert made.left_out == [
        LeftOut("a", None, "the topic was recreated", {"was": "old-a", "is": "id-a"}),
        LeftOut("c", None, "no such topic", {"was": "id-c"}),
    ]
    assert made.ranges == [OffsetRange("b", 0, 0, 3)]
    assert (made.origins, made.gaps) == ([], [])


def test_only_assigned_partitions_are_read():
    """The others are nowhere: not planned, not vanished, without origin; they need no leader."""
    known = fold_of(Origin("a", "id-a", {0: 0, 1: 0, 2: 0, 3: 0}))
    there = {0: marks(0, 9), 1: marks(0, 9), 5: marks(0, 9), 6: marks(4, 9)}
    made = draft(
        known,
        {"a": there},
        first_sight={"a": {6: 7}},
        leaderless={"a": (3, 4)},
        assigned={"a": (0, 2, 4, 6, 7)},
    )
    assert made.ranges == [OffsetRange("a", 0, 0, 9), OffsetRange("a", 6, 7, 9)]
    assert made.origins == [Origin("a", "id-a", {6: 7})]
    assert made.left_out == [
        LeftOut("a", 4, "no leader"),
        LeftOut("a", 2, "the partition vanished", {"cursor": 0}),
        LeftOut("a", 7, "no such partition"),
    ]
    assert made.gaps == []


def test_assigned_partitions_of_a_new_topic_do_not_wait_for_each_other():
    """Each begins by `start`, whenever it has a leader."""
    there, sight = {0: marks(0, 9), 1: marks(0, 9)}, {"a": {0: 3}}
    made = draft(
        Fold(), {"a": there}, first_sight=sight, leaderless={"a": [2]}, assigned={"a": (0, 2)}
    )
    assert made.origins == [Origin("a", "id-a", {0: 3})]
    assert made.ranges == [OffsetRange("a", 0, 3, 9)]
    assert made.left_out == [LeftOut("a", 2, "no leader")]


# Draft after draft, against a model that knows of each offset whether it was written and kept.


@dataclass
class Log:
    """One partition as a broker has it."""

    start: int = 0
    stable: int = 0
    high: int = 0
    outcome: dict[int, str] = field(default_factory=dict)  # offset → covered | skipped

    def move(self, written, stabilised, expired):
        self.high += written
        self.stable = min(self.high, self.stable + stabilised)
        self.start = min(self.stable, self.start + expired)

    @property
    def marks(self):
        return Watermarks(self.start, self.stable, self.high)


steps = st.lists(
    st.tuples(
        st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=3, max_size=3),  # moves of the logs
        st.sampled_from(["all", "half", "none"]),  # how much of the plan gets committed
        st.none() | st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 5)),  # ahead
    ),
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from(["fail", "skip"]), st.integers(1, 3))
def test_consecutive_drafts_tile(steps, on_expired, first_seen):
    """Under any watermarks, crashes and commits ahead: each offset once, none passed over.

    A draft is what is retained, stable, and neither covered nor skipped, from the first such
    offset on; every offset below a cursor is covered, or skipped because it had expired.
    """
    fold, logs, origins = Fold(), {p: Log() for p in range(3)}, {}
    for number, (moves, how_much, ahead) in enumerate(steps):
        for log, move in zip(logs.values(), moves, strict=True):
            log.move(*move)
        seen = {p: log for p, log in logs.items() if p < first_seen + number}
        made = draft(
            fold,
            {"a": {p: log.marks for p, log in seen.items()}},
            first_sight={"a": {p: log.start for p, log in seen.items()}},
            on_expired=on_expired,
        )
        for origin in made.origins:
            record(fold, logs, origin)
            origins.update(origin.partitions)
        for gap in made.gaps:
            record(fold, logs, gap)
        for r in made.ranges:
            log = logs[r.partition]
            assert log.start <= r.start < r.end <= log.stable
            assert not any(offset in log.outcome for offset in range(r.start, r.end))
            assert all(o in log.outcome for o in range(origins[r.partition], r.start))
            assert r.end == log.stable or log.outcome.get(r.end) == "covered"
        for left in made.left_out:
            assert left.reason == "expired"
            assert on_expired == "fail"
        taken = made.ranges[:: 2 if how_much == "half" else 1] if how_much != "none" else []
        if taken:
            record(fold, logs, commit(f"plan {number}", *taken))
        if ahead:
            p, by, length = ahead
            start = logs[p].start + by
            end = min(start + length, logs[p].stable)
            if p in origins and origins[p] <= start < end:
                record(fold, logs, commit(f"ahead {number}", OffsetRange("a", p, start, end)))
    for p, cursor in fold.cursors("a").items() if origins else ():
        outcome = logs[p].outcome
        assert all(offset in outcome for offset in range(origins[p], cursor))
        assert cursor not in outcome


assignments = st.lists(
    st.tuples(
        st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=3, max_size=3),  # moves of the logs
        st.frozensets(st.integers(0, 4), min_size=1),  # 3 and 4 do not exist
    ),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(assignments)
def test_under_any_assignments_each_assigned_offset_is_planned_once(steps):
    """And no other: nothing of partitions that are not, or no longer, assigned.

    A partition begins at the end of its log when it is first assigned (`start: latest`), and goes
    on at its cursor when it is assigned again.
    """
    fold, logs, origins = Fold(), {p: Log() for p in range(3)}, {}
    for number, (moves, assigned) in enumerate(steps):
        for log, move in zip(logs.values(), moves, strict=True):
            log.move(*move)
        before = {p: dict(log.outcome) for p, log in logs.items()}
        read = assigned & logs.keys()
        new = {p: logs[p].stable for p in read - origins.keys()}
        made = draft(
            fold,
            {"a": {p: log.marks for p, log in logs.items()}},
            first_sight={"a": new},
            on_expired="skip",
            assigned={"a": assigned},
        )
        assert [origin.partitions for origin in made.origins] == ([new] if new else [])
        assert made.left_out == [
            LeftOut("a", p, "no such partition") for p in sorted(assigned - logs.keys())
        ]
        origins |= new
        for entry in (*made.origins, *made.gaps):
            record(fold, logs, entry)
        if made.ranges:
            record(fold, logs, commit(f"plan {number}", *made.ranges))
        for p, log in logs.items():
            if p in read:
                assert log.outcome.keys() == {*range(origins[p], log.stable)} | before[p].keys()
            else:
                assert log.outcome == before[p]


def record(fold, logs, entry):
    """Append as `ingest.planning` does; keep the model, which fails on a duplicated offset."""
    verdict = judge(fold, entry)
    if isinstance(verdict, CutTo):
        for part in verdict.gaps:
            record(fold, logs, part)
    elif isinstance(verdict, Accepted):
        fold.apply(entry, "digest")
        if isinstance(entry, Gap):
            log = logs[entry.partition]
            assert entry.end <= log.start, "only what had expired is given up"
            for offset in range(entry.start, entry.end):
                assert offset not in log.outcome
                log.outcome[offset] = "skipped"
        elif isinstance(entry, Commit):
            for _, r in entry.ranges:
                for offset in range(r.start, r.end):
                    assert logs[r.partition].outcome.get(offset) != "covered"
                    logs[r.partition].outcome[offset] = "covered"
