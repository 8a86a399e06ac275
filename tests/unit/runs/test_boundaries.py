"""Boundaries by Kafka and by the lake: no row of the lake is on the wrong side of a frozen time."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from support import staged_attempts
from support.handed_in import HERE
from support.ingest_steps import plan
from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.boundaries import Boundary, to_milliseconds
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Abandon, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Backfill, Dates, Replay
from tidegate.errors import BrokerError, WindowRefused
from tidegate.lake import plans
from tidegate.lake.boundary_files import neighbouring_boundaries
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore
from tidegate.pipelines.spec import parse_spec
from tidegate.runs import boundary_search
from tidegate.runs.run import LIVE, Run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
DAY = datetime(2024, 5, 1, tzinfo=UTC)


def at(second):
    return DAY + timedelta(seconds=second)


def stamp(second):
    return to_milliseconds(at(second))


class Kafka:
    """A partition "t-0": `log` maps the offsets that are left to their timestamps, in seconds."""

    def __init__(self):
        self.start, self.end, self.log = 0, 0, {}
        self.asked = 0

    def survey(self, _, topics, __):
        if isinstance(topics, list):  # those of a plan: what is staged is kept from its seal
            raise BrokerError("no answer")
        marks = {0: Watermarks(self.start, self.end, self.end)}
        return Survey("cluster", {"t": TopicIdentity("id-t", {0: 0})}, {"t": marks})

    def offsets_at(self, _, __, times):
        self.asked += len(times)
        late = {
            ms: [offset for offset, second in sorted(self.log.items()) if stamp(second) >= ms]
            for ms in times
        }
        return {ms: {"t": {0: found[0] if found else None}} for ms, found in late.items()}


@pytest.fixture
def kafka(monkeypatch):
    kafka = Kafka()
    answer(monkeypatch, survey=kafka.survey, expiries=lambda *_: {}, offsets_at=kafka.offsets_at)
    return kafka


@pytest.fixture
def home(tmp_path):
    """A lake with t-0 [0, 60): offset n was written n seconds after midnight."""
    store = LocalStore(tmp_path / "p")
    Ledger(store, "p").append(Origin("t", "id-t", {0: 0}), run="r")
    fill(tmp_path, 0, 60)
    return tmp_path


def fill(home, start, end):
    for first in range(start, end, 20):
        stamps = [stamp(n) for n in range(first, min(first + 20, end))]
        store = LocalStore(home / "p")
        staged_attempts.commit_stamped(store, (0, first, stamps), topic_id="id-t")


def run_of(home, asked, run_id="r"):
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(home), "start": "latest"}
    return Run(
        parse_spec(form),
        KAFKA,
        "tidegate__p",
        run_id,
        date(2024, 5, 1),
        asked=asked,
        **HERE,
    )


def backfill(start, end):
    return Backfill("t", None, at(start).isoformat(), at(end).isoformat())


def frozen(home):
    """Return what is frozen: second → offset of t-0."""
    found = LocalStore(home / "p").objects("_tidegate/boundaries/")
    read = [Boundary.from_json(_json(home, each.path)) for each in found]
    return {(b.moment - stamp(0)) // 1000: b.offsets[0] for b in read}


def _json(home, path):
    return json.loads((home / "p" / path).read_text())


def log(kafka, *offsets, start=0, end=100):
    kafka.log, kafka.start, kafka.end = {n: n for n in offsets}, start, end


@pytest.mark.parametrize("asked", [backfill(20, 40), Dates((at(20), at(40)))])
def test_a_window_that_is_in_the_lake_and_no_longer_in_kafka(home, kafka, asked):
    """A backfill that has nothing to do freezes what the times mean in the lake: replays by these
    times later find all their rows.
    """
    log(kafka, *range(60, 100), start=60)
    done = plan(run_of(home, asked)).plan
    assert (done.chunks, done.left_out) == ((), ())
    assert frozen(home) == {20: 20, 40: 40}


def test_a_window_of_both(home, kafka):
    """From the lake up to the log start, from Kafka behind it."""
    log(kafka, *range(50, 100), start=50)
    done = plan(run_of(home, backfill(20, 80))).plan
    assert done.chunks == ((OffsetRange("t", 0, 60, 80),),)
    assert frozen(home) == {20: 20, 80: 80}


def test_a_replay_of_it(home, kafka):
    """Its edges were frozen by the backfill; what expired is refused by name, and never passed."""
    log(kafka, *range(60, 100), start=60)
    plan(run_of(home, backfill(20, 40)))
    replay = Replay("t", "x", None, at(20).isoformat(), at(40).isoformat())
    with pytest.raises(WindowRefused, match=r"\[20, 40\) is before the log start 60"):
        plan(run_of(home, replay))


def test_records_that_expired_unread_are_not_passed_over(home, kafka):
    """Offsets 60 to 79 are nowhere any more: nobody knows whether they were before the time. The
    window is refused; so is one that lies before all that is left. Not if a record is left that is
    before the time, or the window is given by offsets from there on.
    """
    log(kafka, *range(80, 100), start=80)
    for window in (backfill(70, 90), backfill(80, 90), backfill(62, 70)):
        with pytest.raises(WindowRefused, match=r"\[60, 80\) has expired.*start as 80"):
            plan(run_of(home, window))
    assert frozen(home) == {}
    assert plan(run_of(home, backfill(81, 90))).plan.chunks == ((OffsetRange("t", 0, 81, 90),),)
    by_offsets = Backfill("t", None, "80", "90")
    assert plan(run_of(home, by_offsets)).plan.chunks == ((OffsetRange("t", 0, 80, 90),),)


@pytest.mark.parametrize("on_expired", ["fail", "skip"])
def test_dates_whose_records_expired_unread(tmp_path, kafka, on_expired):
    """Below the origin, which is 100: they go by the policy, excluded by name in each interval or
    one gap; what is left is planned.
    """
    store = LocalStore(tmp_path / "p")
    Ledger(store, "p").append(Origin("t", "id-t", {0: 100}), run="r")
    log(kafka, *range(80, 100), start=80)

    def dates(start, end):
        run = run_of(tmp_path, Dates((at(start), at(end))), f"{start}")
        planned = plan(replace(run, spec=run.spec.model_copy(update={"on_expired": on_expired})))
        ranges = [(r.start, r.end) for chunk in planned.plan.chunks for r in chunk]
        return ranges, [(each.reason, each.numbers) for each in planned.plan.left_out]

    lost = [("expired", {"start": 0, "end": 80, "offsets": 80})] if on_expired == "fail" else []
    assert dates(70, 90) == ([(80, 90)], lost)
    assert dates(60, 70) == ([], lost)
    assert dates(90, 95) == ([(90, 95)], [])
    gaps = [(g.start, g.end, g.reason, g.by) for g in Ledger(store, "p").fold.gaps]
    assert gaps == ([] if lost else [(0, 80, "expired", "70")])


def test_dates_leave_what_expired_above_the_cursor_to_the_live_lane(home, kafka):
    """The live run excludes it by name, or records the gap."""
    log(kafka, *range(80, 100), start=80)
    done = plan(run_of(home, Dates((at(70), at(90))))).plan
    assert (done.chunks, done.left_out) == ((), ())


def test_records_that_compaction_took(home, kafka):
    """The lake holds rows that Kafka has no more, above the log start too."""
    log(kafka, *range(20), *range(35, 100))
    plan(run_of(home, backfill(25, 30)))
    assert frozen(home) == {25: 25, 30: 30}


def test_a_log_that_ends_before_the_lake(home, kafka):
    """Truncated: no record is as late as the times, and what the lake holds comes before them.

    What no commit holds and the log does not reach is excluded by name, and not planned.
    """
    log(kafka, *range(10), end=10)
    fill(home, 80, 100)
    for n, (start, end) in enumerate([(110, 120), (70, 110)]):
        done = plan(run_of(home, Dates((at(start), at(end))), f"{n}")).plan
        assert done.chunks == ()
    assert frozen(home) == {70: 80, 110: 100, 120: 100}
    with pytest.raises(WindowRefused, match="end 100 is beyond the end 10"):
        plan(run_of(home, backfill(50, 110), "by hand"))


def test_rows_that_are_committed_and_expire_meanwhile(home, kafka, monkeypatch):
    """The ledger is read after Kafka was asked: a row that has left the one is in the other."""
    log(kafka, *range(60, 80), end=80, start=60)
    ask = kafka.offsets_at

    def offsets_at(*args):
        if not kafka.asked:
            fill(home, 60, 80)
            log(kafka, *range(80, 90), start=80, end=90)
        return ask(*args)

    answer(monkeypatch, offsets_at=offsets_at)
    plan(run_of(home, backfill(65, 75)))
    assert frozen(home) == {65: 65, 75: 75}


def test_rows_that_are_staged_and_expired(home, kafka):
    """They are neither in Kafka nor in the lake, and may be in the lake soon: where a time cuts
    them is not known, so nothing is frozen. Once they are committed, or abandoned, it is.
    """
    log(kafka, *range(80, 100), start=80)
    store = LocalStore(home / "p")
    other = staged_attempts.plan_of((OffsetRange("t", 0, 60, 80),))
    plans.freeze_plan(store, "other", other, 1, note={})
    staged_attempts.stage(store, other, "attempt")
    for asked in (backfill(65, 90), Dates((at(65), at(90)))):
        with pytest.raises(WindowRefused, match=rf"\[60, 80\).*staged by plan {other.id}"):
            plan(run_of(home, asked))
    assert frozen(home) == {}
    ledger = Ledger(store, "p")
    ledger.append(Abandon(other.id, 0, "attempt"), run="sweep")
    with pytest.raises(WindowRefused, match=r"\[60, 80\) is before the log start"):
        plan(run_of(home, backfill(10, 90)))
    assert plan(run_of(home, backfill(85, 90))).plan.chunks == ((OffsetRange("t", 0, 85, 90),),)


def test_staged_rows_that_are_still_in_kafka(home, kafka):
    """Kafka tells where they are cut: nothing is refused."""
    log(kafka, *range(60, 100), start=60)
    store = LocalStore(home / "p")
    other = staged_attempts.plan_of((OffsetRange("t", 0, 60, 80),))
    plans.freeze_plan(store, "other", other, 1, note={})
    staged_attempts.stage(store, other, "attempt")
    plan(run_of(home, backfill(65, 90)))
    assert frozen(home) == {65: 65, 90: 90}


def test_only_files_between_neighbours_are_read(home, kafka, monkeypatch):
    """What lies below an earlier boundary, or above what Kafka answers, decides nothing."""
    from tidegate.lake import timestamps

    log(kafka, *range(100))
    plan(run_of(home, backfill(20, 41)))
    opened = []
    read = timestamps.latest_timestamp
    monkeypatch.setattr(
        timestamps, "latest_timestamp", lambda s, path: opened.append(path) or read(s, path)
    )
    plan(run_of(home, backfill(41, 45), "next"))
    assert [Path(path).name for path in opened] == ["0-40-0"]
    assert frozen(home) == {20: 20, 41: 41, 45: 45}


def test_frozen_times_ask_nobody(home, kafka, monkeypatch):
    """A window whose times are frozen opens no ledger anew, reads no manifest, asks no broker."""
    log(kafka, *range(100))
    plan(run_of(home, Dates((at(20), at(40)))))
    kafka.asked = 0
    monkeypatch.setattr(boundary_search, "Ledger", None)
    found = resolve(home, [at(20), at(40)])
    assert [cut.offsets for cut in found.values()] == [{0: 20}, {0: 40}]
    assert kafka.asked == 0


def resolve(home, times, topic_id="id-t"):
    marks = {0: Watermarks(0, 100, 100)}
    topic = boundary_search.Topic("t", topic_id, marks, KAFKA, LocalStore(home / "p"), "p")
    return boundary_search.resolve_boundaries(topic, times, [])


def test_only_manifests_of_commits_that_meet_a_span_are_read(home, kafka, monkeypatch):
    """Three commits of 20 rows: none for a topic without rows here, one for a span in one."""
    log(kafka, *range(100))
    read = []
    get = LocalStore.get

    def counted(self, path):
        read.append(path)
        return get(self, path)

    monkeypatch.setattr(LocalStore, "get", counted)
    resolve(home, [at(20), at(40)], topic_id="another")
    assert [path for path in read if "/manifests/" in path] == []
    log(kafka, *range(15, 100), start=15)
    resolve(home, [at(10)])
    assert len([path for path in read if "/manifests/" in path]) == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("asked", [backfill(20, 40), Dates((at(20), at(40)))])
def test_a_boundary_that_was_written_again_in_other_bytes(home, kafka, asked):
    """Pretty-printed, as a restored copy may be, or with a key of a later release: it means the
    same and counts, and no plan waits for it.
    """
    log(kafka, *range(100))
    plan(run_of(home, asked))
    for path in (home / "p/_tidegate/boundaries").rglob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}, indent=1))
    assert plan(run_of(home, asked, "next")).plan is not None
    assert frozen(home) == {20: 20, 40: 40}


def test_before_1970(home, kafka):
    """Before any record; and what is frozen then is a neighbour like any other."""
    log(kafka, *range(100))
    for n, start in enumerate(("1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z")):
        asked = Backfill("t", None, start, at(70 + n).isoformat())
        done = plan(run_of(home, asked, f"{n}")).plan
        assert done.chunks == ((OffsetRange("t", 0, 60, 70 + n),),)
    near = neighbouring_boundaries(LocalStore(home / "p"), "id-t", -2)
    assert (near.below, near.above) != (None, None)
    assert near.below.moment < -2 < near.above.moment == -1


def test_live_runs_ask_for_no_boundary(home, kafka):
    log(kafka, *range(60, 100), start=60)
    plan(run_of(home, LIVE))
    assert (kafka.asked, frozen(home)) == (0, {})
