"""`complete_through` of an asset event: all that could be read then is committed, or it is null."""

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from support import ingest_steps, staged_attempts
from support.handed_in import HERE
from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import layout
from tidegate.core.boundaries import Boundary, to_milliseconds
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Adoption, Gap, Origin
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Dates
from tidegate.errors import ConfigurationError
from tidegate.ingest import backfill
from tidegate.ingest.complete_through import is_complete_through
from tidegate.lake import committing, plans
from tidegate.lake.plan_work import gather_work
from tidegate.lake.store import STORES
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run, open_run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
PLAN = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10), OffsetRange("u", 0, 0, 2)))
MILLISECOND = timedelta(milliseconds=1)
SURVEYED = "2024-05-01T10:00:00+00:00"
IDS = {"t": "id-t", "u": "id-u"}


class Kafka:
    """What the fake broker answers; `asked` is when it was asked first."""

    def __init__(self):
        self.marks = {"t": {0: Watermarks(0, 10, 12)}, "u": {0: Watermarks(0, 2, 2)}}
        self.asked, self.slow = None, 0.0

    def survey(self, *_):
        self.asked = self.asked or datetime.now(UTC)
        time.sleep(self.slow)
        identities = {t: TopicIdentity(IDS[t], dict.fromkeys(m, 0)) for t, m in self.marks.items()}
        return Survey("cluster", identities, self.marks)


@pytest.fixture
def kafka(monkeypatch):
    kafka = Kafka()
    answer(monkeypatch, survey=kafka.survey)
    answer(monkeypatch, expiries=lambda *_: {})
    answer(monkeypatch, open_since=lambda *_: {})
    return kafka


def run_of(tmp_path, **settings):
    form = {"name": "p", "kind": "ingest", "topics": ["t", "u"], "lake": str(tmp_path), **settings}
    return Run(parse_spec(form), KAFKA, "tidegate__p", "r", date(2024, 5, 1), **HERE)


def told(run):
    """Plan, stage what is open, publish; return what each topic's event tells."""
    planned = ingest_steps.plan(run).plan
    store = run.store()
    for chunk in gather_work(store, planned, run.ledger(store).fold).to_stage:
        staged_attempts.seal(store, planned, chunk=chunk)
    published = ingest_steps.publish(run)
    return {t: published.asset_event(t)["complete_through"] for t in run.topics}


def test_what_could_be_read_before_the_survey(tmp_path, kafka):
    """All that was below the ends is committed: the time is one before the broker was asked, so
    nothing that came between the answer and the end of planning is promised.
    """
    before, kafka.slow = datetime.now(UTC), 1.1
    for each in told(run_of(tmp_path)).values():
        assert before - MILLISECOND <= datetime.fromisoformat(each) <= kafka.asked


def test_a_run_of_fewer_chunks(tmp_path, kafka):
    """`max_chunks` leaves a part of t to later runs: of t nothing can be said, of u it can."""
    kafka.marks["t"] = {0: Watermarks(0, 1_000, 1_000)}
    run = run_of(tmp_path, max_records=10)
    first = told(Run(**{**vars(run), "max_chunks": 1}))
    assert first["t"] is None
    assert first["u"] is not None


def test_a_backfill_over_dates(tmp_path, kafka, monkeypatch):
    """It takes what lies below the cursor only, and looks at no partition's state: nothing is said,
    also of a topic whose log has lost what was read.
    """
    told(run_of(tmp_path, start="latest"))
    kafka.marks["t"] = {0: Watermarks(0, 15, 15)}
    days = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)

    def cut(_, __, ___, topic, *____):
        return {
            day: Boundary(topic, IDS[topic], to_milliseconds(day), {0: offset})
            for day, offset in zip(days, (0, 1), strict=True)
        }

    monkeypatch.setattr(backfill, "boundaries_at", cut)
    run = run_of(tmp_path, start="latest")
    dates = Run(**{**vars(run), "run_id": "dates", "asked": Dates(days)})
    kafka.marks["u"] = {0: Watermarks(0, 1, 1)}
    assert told(dates) == {"t": None, "u": None}


@pytest.mark.parametrize(
    ("marks", "topic", "said"),
    [
        ({0: Watermarks(0, 10, 10), 1: Watermarks(5, 9, 9)}, "t", None),  # expired, not read
        ({0: Watermarks(0, 10, 10), 1: Watermarks(5, 9, 9)}, "u", True),
    ],
)
def test_an_excluded_partition(tmp_path, kafka, marks, topic, said):
    """One partition that the plan leaves out makes its topic unknown, and no other."""
    run = run_of(tmp_path)
    run.ledger(run.store()).append(Origin("t", "id-t", {0: 0, 1: 0}), run="earlier")
    kafka.marks["t"] = marks
    assert (told(run)[topic] is not None) == bool(said)


def test_a_truncated_partition(tmp_path, kafka):
    """The cursor is beyond the end, and yet what the log has now is not what was read."""
    told(run_of(tmp_path))
    kafka.marks = {"t": {0: Watermarks(0, 4, 4)}, "u": {0: Watermarks(0, 5, 5)}}
    again = told(Run(**{**vars(run_of(tmp_path)), "run_id": "again"}))
    assert again["t"] is None
    assert again["u"] is not None


def sealed(tmp_path, note):
    """Return a run whose frozen plan is sealed, with this note beside it."""
    run = run_of(tmp_path)
    staged_attempts.ledger_of(run.store())
    staged_attempts.seal(run.store(), PLAN)
    plans.freeze_plan(run.store(), run.key, PLAN, 1, note=note)
    return run


NOTE = {
    "format": 2, "at": "2024-05-01T10:00:07+00:00", "surveyed_at": SURVEYED, "topic_ids": IDS,
    "watermarks": {t: {"0": {"start": 0, "end": end, "high": end}, "1": dict.fromkeys(
        ("start", "end", "high"), 0)} for t, end in (("t", 10), ("u", 2))},
}  # fmt: skip


def through(run, topic="t"):
    return ingest_steps.publish(run).asset_event(topic)["complete_through"]


def test_runs_of_a_date_that_find_nothing(tmp_path, kafka):
    """They have the same plan, and each its own time, also when another process publishes it."""
    told(run_of(tmp_path))
    idle = [replace(run_of(tmp_path), run_id=f"idle-{n}") for n in (1, 2)]
    first = told(idle[0])["t"]
    kafka.marks["t"][0] = Watermarks(0, 20, 20)
    busy = told(replace(run_of(tmp_path), run_id="busy"))["t"]
    for run in (idle[1], idle[1]):
        last = told(run)["t"]
        assert first < busy < last
    ids = {open_run(run).frozen_plan().plan.id for run in idle}
    assert len(ids) == 1


def test_a_lost_note(tmp_path, kafka):
    """Without the time of the survey nothing is promised."""
    assert through(sealed(tmp_path / "whole", NOTE)) == SURVEYED
    run = sealed(tmp_path / "lost", NOTE)
    run.store().delete(layout.note(PLAN.id))
    assert through(run) is None


def test_a_vanished_partition(tmp_path, kafka):
    """The ledger knows a partition of which the survey says nothing."""
    marks = {t: {"0": each["0"]} for t, each in NOTE["watermarks"].items()}
    assert through(sealed(tmp_path, {**NOTE, "watermarks": marks})) is None


def test_a_gap_is_an_outcome(tmp_path, kafka):
    """Offsets that the ledger has skipped, with a reason, hold nothing up; unseen ones do."""
    marks = {"t": {"0": {"start": 0, "end": 13, "high": 13}, "1": NOTE["watermarks"]["t"]["1"]}}
    run = sealed(tmp_path, {**NOTE, "watermarks": marks})
    assert through(run) is None
    ledger = run.ledger(run.store())
    ledger.append(Gap("t", "id-t", 0, 10, 13, "expired", "r"), run="r")
    assert through(run) == SURVEYED


def test_a_topic_that_was_recreated_since(tmp_path, kafka):
    """The ledger follows another topic than the one that was surveyed."""
    run = sealed(tmp_path, NOTE)
    ledger = run.ledger(run.store())
    assert through(run) == SURVEYED
    ledger.append(
        Origin("t", "id-t-2", {0: 10, 1: 0}, Adoption("id-t", "gone", "me")), run="by hand"
    )
    assert through(run) is None


def test_commits_of_others_count(tmp_path, kafka):
    """What another plan has committed is in the lake as well as if this one had."""
    marks = {"t": {"0": {"start": 0, "end": 13, "high": 13}, "1": NOTE["watermarks"]["t"]["1"]}}
    run = sealed(tmp_path, {**NOTE, "watermarks": marks})
    other = staged_attempts.plan_of((OffsetRange("t", 0, 10, 13),))
    staged_attempts.seal(run.store(), other)
    committing.commit_sealed_chunks(run.store(), run.ledger(run.store()), other, run="other")
    assert through(run) == SURVEYED


@pytest.mark.parametrize(
    ("planned_for", "reads_now", "said"),
    [
        ({"t": [0]}, {"t": [0]}, True),
        ({"t": [0, 1]}, {"t": [0]}, True),
        (None, {"t": [0]}, True),
        ({"t": [0]}, {"t": [0, 1]}, False),
        ({"t": [0]}, None, False),
        ({"u": [0]}, {"t": [0]}, False),
    ],
)
def test_a_plan_of_fewer_partitions(tmp_path, kafka, planned_for, reads_now, said):
    """Of partitions that were not assigned then, the plan has not looked at what became of them:
    a truncated one has a cursor at or after the end, and is not in `left_out`.
    """
    run = sealed(tmp_path, {**NOTE, "assigned": planned_for})
    form = {"topics": ["t", "u"]} if reads_now is None else {"assign": reads_now}
    spec = parse_spec({"name": "p", "kind": "ingest", "lake": str(tmp_path), **form})
    assert (through(Run(**{**vars(run), "spec": spec})) is not None) == said


def test_the_note_of_a_plan_has_what_was_assigned(tmp_path, kafka):
    for settings, expected in (({"topics": ["t"]}, None), ({"assign": {"t": [0]}}, {"t": [0]})):
        form = {"name": "p", "kind": "ingest", "lake": str(tmp_path / str(expected)), **settings}
        run = Run(parse_spec(form), KAFKA, "tidegate__p", "r", date(2024, 5, 1), **HERE)
        assert plans.read_note(run.store(), ingest_steps.plan(run).plan.id)["assigned"] == expected


def test_a_plan_of_another_isolation(tmp_path, kafka):
    """Up to its ends only what is committed was read; more could have been."""
    run = sealed(tmp_path, NOTE)
    spec = run.spec.model_copy(update={"isolation": "read_uncommitted"})
    assert through(Run(**{**vars(run), "spec": spec})) is None
    assert through(run) == SURVEYED


def ask(run, until, topic="t", kafka=lambda: KAFKA):
    def run_of_spec(spec):
        return replace(run, spec=spec, kafka=kafka())

    return is_complete_through(run.spec, topic, until, STORES, run_of_spec)


def no_broker():
    raise AssertionError("the ledger alone knows")


def test_the_ledger_answers_without_a_broker(tmp_path, kafka):
    """Up to the survey of the last plan that is complete, whatever has been read beside it."""
    run = run_of(tmp_path)
    before = datetime.now(UTC)
    told(run)
    assert ask(run, before - timedelta(days=9), kafka=no_broker)
    assert ask(run, before - MILLISECOND, "u", no_broker)
    assert not ask(run, datetime.now(UTC) + timedelta(hours=1), kafka=no_broker), "still to come"


@pytest.mark.parametrize(
    ("marks", "complete"),
    [
        ({0: Watermarks(0, 10, 12)}, True),  # nothing new; what a transaction holds open, too
        ({0: Watermarks(0, 11, 11)}, False),
        ({0: Watermarks(0, 4, 4)}, False),  # truncated
        ({0: Watermarks(0, 10, 10), 1: Watermarks(0, 0, 0)}, False),  # a partition without origin
        ({}, False),  # it has no leader
    ],
)
def test_the_broker_is_asked_for_what_came_since(tmp_path, kafka, marks, complete):
    """In a topic without new records no plan is committed; nothing is frozen by asking."""
    run = run_of(tmp_path)
    told(run)
    kafka.marks["t"] = marks
    now, before = datetime.now(UTC), sorted(tmp_path.rglob("*"))
    assert ask(run, now) == complete
    assert sorted(tmp_path.rglob("*")) == before
    assert ask(run, now, "u"), "another topic does not matter"


def test_commits_that_are_not_in_place(tmp_path, kafka):
    """Who reads `data/` after the sensor must find them; those of other topics do not matter."""
    run = run_of(tmp_path)
    before = datetime.now(UTC) - MILLISECOND
    told(run)
    (commit,) = run.ledger(run.store()).fold.live
    placed = tmp_path / "p" / layout.placed(commit)
    placed.unlink()
    assert not ask(run, before, kafka=no_broker)
    assert not ask(run, datetime.now(UTC))
    placed.touch()
    kafka.marks["u"] = {0: Watermarks(0, 4, 4)}
    told(Run(**{**vars(run), "run_id": "of u alone"}))
    (tmp_path / "p" / layout.placed(max(run.ledger(run.store()).fold.live))).unlink()
    assert ask(run, before, kafka=no_broker)
    assert not ask(run, before, "u", no_broker)


def test_a_plan_that_left_a_part(tmp_path, kafka):
    """The last plan is of the time, and is not complete: the next one will be."""
    kafka.marks["t"] = {0: Watermarks(0, 20, 20)}
    run = run_of(tmp_path, max_records=15)
    began = datetime.now(UTC) - MILLISECOND
    told(Run(**{**vars(run), "max_chunks": 1}))
    assert not ask(run, began)
    told(Run(**{**vars(run), "run_id": "next"}))
    assert ask(run, began, kafka=no_broker)


def test_what_is_wrong_with_a_question(tmp_path, kafka):
    run = run_of(tmp_path)
    with pytest.raises(ConfigurationError, match="a time needs a zone"):
        ask(run, datetime(2026, 3, 14))
    with pytest.raises(ConfigurationError, match="'p' does not read topic 'v': it reads"):
        ask(run, datetime.now(UTC), "v")
    form = {"name": "p", "kind": "ingest", "pattern": "a.*", "lake": str(tmp_path)}
    with pytest.raises(ConfigurationError, match=r"does not read topic 't': it reads .*a\.\*"):
        is_complete_through(parse_spec(form), "t", datetime.now(UTC), STORES, no_broker)
