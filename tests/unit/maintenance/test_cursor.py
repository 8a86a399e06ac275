"""The cursor by hand: forward is a gap with a reason, backward is refused, a topic is adopted."""

from datetime import date
from unittest import mock

import pytest

from support import staged_attempts
from support.handed_in import HERE
from support.ingest_steps import plan
from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Adoption, Gap, Origin
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, Lost, judge
from tidegate.core.offsets import OffsetRange
from tidegate.errors import (
    BeyondEnd,
    ConfigurationError,
    CursorAhead,
    CursorBackward,
    IdentityChanged,
    UnknownTopic,
)
from tidegate.lake import committing
from tidegate.lake.store import LocalStore
from tidegate.maintenance import cursor_moves, reconcile
from tidegate.pipelines.spec import parse_spec
from tidegate.runs import variables as mirrored
from tidegate.runs.run import Run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
VARIABLE = "tidegate__p__t"


class Shown(dict):
    """Variables in a dict."""

    def read(self, name):
        return self.get(name)

    write = dict.__setitem__


@pytest.fixture
def spec(tmp_path):
    return parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)})


@pytest.fixture
def store(tmp_path):
    """[0, 10) of t-0 is committed, t-1 has nothing yet."""
    store = LocalStore(tmp_path / "p")
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
    return store


@pytest.fixture
def seen():
    """What the broker has: t-0 up to 50 (40 are stable), t-1 up to 5; change it by `has`."""
    with mock.patch("tidegate.maintenance.cursor_moves.survey", autospec=True) as asked:

        def has(topic_id="id-t", cluster="cluster", start=0, topics=("t",)):
            marks = {0: Watermarks(start, 40, 50), 1: Watermarks(start, 5, 5)}
            identities = {t: TopicIdentity(topic_id, dict.fromkeys(marks, 0)) for t in topics}
            asked.return_value = Survey(cluster, identities, dict.fromkeys(topics, marks))

        has()
        yield has


def move(spec, mirror=None, *, topic="t", partition=0, offset):
    shown = Shown() if mirror is None else mirror
    return cursor_moves.move(
        spec, KAFKA, shown, topic=topic, partition=partition, offset=offset, reason="why", by="ann"
    ).to_json()


def adopt(spec, mirror=None):
    shown = Shown() if mirror is None else mirror
    return cursor_moves.adopt(spec, KAFKA, shown, topic="t", reason="why", by="ann").to_json()


def test_forward_is_a_gap_with_a_reason(spec, store, seen):
    """The cursor is where it was asked to be, the Variable too, and the ledger says who and why."""
    variables = Shown()
    moved = move(spec, variables, offset=25)
    assert (moved["was"], moved["cursor"], moved["entries"]) == (10, 25, [4])
    fold = staged_attempts.ledger_of(store).fold
    assert fold.gaps == [Gap("t", "id-t", 0, 10, 25, "why", "ann")]
    assert fold.cursors("t") == {0: 25, 1: 0}
    assert variables == {VARIABLE: '{"t":{"0":25,"1":0}}'}


def test_a_decision_about_one_partition_is_about_that_one(spec, store, seen):
    """An old copy of the lake came back, so all that is shown is ahead. Moving one cursor does not
    hide the others: they are still refused.
    """
    other = "tidegate__p__u"
    variables = Shown({VARIABLE: '{"t":{"0":99,"1":7}}', other: '{"u":{"0":3}}'})
    two = spec.model_copy(update={"topics": ("t", "u")})
    move(two, variables, offset=25)
    assert variables == {VARIABLE: '{"t":{"0":25,"1":7}}', other: '{"u":{"0":3}}'}
    with pytest.raises(CursorAhead, match="partition 1: 7, ledger 0"):
        mirrored.restore_variables(variables, two, staged_attempts.ledger_of(store))
    move(two, variables, partition=1, offset=5)
    assert variables[VARIABLE] == '{"t":{"0":25,"1":5}}'


def test_what_is_committed_ahead_is_not_skipped(spec, store, seen):
    """A backfill holds [20, 30): two gaps around it."""
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 20, 30),))
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
    assert move(spec, offset=35)["entries"] == [5, 6]
    fold = staged_attempts.ledger_of(store).fold
    assert [(gap.start, gap.end) for gap in fold.gaps] == [(10, 20), (30, 35)]
    assert fold.cursors("t")[0] == 35


def test_where_the_cursor_is_already(spec, store, seen):
    """Nothing is recorded."""
    assert move(spec, offset=10)["entries"] == []
    assert staged_attempts.ledger_of(store).fold.n == 3


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"offset": 9}, CursorBackward, "tidegate replay p"),
        ({"offset": 41}, BeyondEnd, "ends at 40"),
        (
            {"offset": 0, "partition": 2},
            ConfigurationError,
            "'t' has no partition 2; it has 0 to 1",
        ),
        ({"offset": 0, "topic": "x"}, ConfigurationError, "its ledger knows: t, u"),
    ],
)
def test_what_is_refused(spec, store, seen, asked, error, says):
    """By name, with the numbers and the way out; the ledger is as it was."""
    with pytest.raises(error, match=says):
        move(spec, **asked)
    assert staged_attempts.ledger_of(store).fold.n == 3


@pytest.mark.parametrize(
    ("has", "error", "says"),
    [
        ({"topic_id": "other"}, IdentityChanged, "tidegate offsets adopt p t"),
        ({"cluster": "other"}, IdentityChanged, "is cluster other"),
        ({"topics": ()}, UnknownTopic, "has no topic 't'"),
    ],
)
def test_offsets_of_another_topic_mean_nothing(spec, store, seen, has, error, says):
    """Recreated, on another cluster, or gone."""
    seen(**has)
    with pytest.raises(error, match=says):
        move(spec, offset=20)
    assert staged_attempts.ledger_of(store).fold.n == 3


def test_a_recreated_topic_is_adopted(spec, store, seen):
    """The ledger follows the new id from its log start; what is covered stays under the old one."""
    seen(topic_id="new", start=3)
    variables = Shown({VARIABLE: '{"t":{"0":10,"1":0}}'})
    adopted = adopt(spec, variables)
    assert adopted["entry"] == 4
    fold = staged_attempts.ledger_of(store).fold
    assert fold.topic_ids["t"] == "new"
    assert fold.earlier_ids == {"t": ["id-t"]}
    assert fold.cursors("t") == {0: 3, 1: 3}
    assert fold.covered["id-t", 0].spans == ((0, 10),)
    assert ("new", 0) not in fold.covered
    assert variables[VARIABLE] == '{"t":{"0":3,"1":3}}'
    shown = cursor_moves.show_cursors(spec).to_json()
    assert shown["topics"]["t"]["earlier"] == ["id-t"]
    assert adopt(spec)["entry"] is None  # it is followed already
    assert staged_attempts.ledger_of(store).fold.n == 4


def test_only_assigned_partitions_of_a_recreated_topic_begin(spec, store, seen):
    """The others get no origin: they begin by `start` once they are assigned."""
    seen(topic_id="new", start=3)
    some = spec.model_copy(update={"assign": {"t": (1,)}})
    assert adopt(some)["origins"] == {"1": 3}
    with pytest.raises(ConfigurationError, match="partition 0 of 't' is not assigned"):
        move(some, partition=0, offset=5)


@pytest.mark.parametrize(
    ("has", "error"), [({"cluster": "other"}, IdentityChanged), ({"topics": ()}, UnknownTopic)]
)
def test_what_cannot_be_adopted(spec, store, seen, has, error):
    """A topic of another cluster, or one that is not there."""
    seen(**has)
    with pytest.raises(error):
        adopt(spec)
    assert staged_attempts.ledger_of(store).fold.n == 3


def test_only_the_id_that_is_followed_can_be_left():
    """Two adoptions race: the second names an id that the ledger has left already."""
    fold = Fold()
    fold.apply(Origin("t", "one", {0: 0}), "")
    fold.apply(Origin("t", "two", {0: 0}, Adoption("one", "", "")), "")
    assert judge(fold, Origin("t", "three", {0: 0}, Adoption("one", "", ""))) == Lost()
    assert judge(fold, Origin("t", "three", {0: 0}, Adoption("two", "", ""))) == Accepted()
    assert judge(fold, Origin("t", "three", {0: 0})) == Lost()
    assert judge(fold, Origin("new", "x", {0: 0}, Adoption("one", "", ""))) == Lost()


def test_an_id_that_comes_back_has_its_coverage(spec, store, seen):
    """A cluster that was restored: the old topic id is adopted again, and nothing is read twice."""
    seen(topic_id="new")
    adopt(spec)
    seen()
    adopt(spec)
    fold = staged_attempts.ledger_of(store).fold
    assert fold.cursors("t") == {0: 10, 1: 0}


# Variables against the ledger


def shown(spec, variables, store):
    return mirrored.find_drifts(Shown(variables), spec, staged_attempts.ledger_of(store))


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, "missing"),
        ("{", "unreadable"),
        ('{"t": {"0": "x"}}', "unreadable"),
        ('{"t": {"0": -1}}', "unreadable"),
        ('{"t":{"0":9,"1":0}}', "behind"),
        ('{"u":{"0":10}}', "behind"),
        ('{"t":{"0":11,"1":0}}', "ahead"),
        ('{"t":{"0":10,"1":0,"7":1}}', "ahead"),
    ],
)
def test_each_drift_by_its_name(spec, store, text, state):
    """And a Variable that shows the cursors is none."""
    (drift,) = shown(spec, {} if text is None else {VARIABLE: text}, store)
    assert drift.state == state
    assert shown(spec, {VARIABLE: '{"t":{"0":10,"1":0}}'}, store) == []


def test_reconcile_mends_what_is_behind_and_names_what_is_ahead(spec, store):
    """An old copy of Airflow's database comes back, and the ledger wins."""
    variables = Shown({VARIABLE: '{"t":{"0":4,"1":0}}'})
    (found,) = reconcile.reconcile_pipeline(spec, variables, None).to_json()["variables"]
    assert (found["state"], found["mended"]) == ("behind", True)
    assert found["partitions"] == {"0": {"shown": 4, "ledger": 10}}
    assert variables == {VARIABLE: '{"t":{"0":10,"1":0}}'}
    assert reconcile.reconcile_pipeline(spec, variables, None).to_json()["variables"] == []
    variables[VARIABLE] = '{"t":{"0":99}}'
    assert reconcile.reconcile_pipeline(spec, variables, None).ahead == [VARIABLE]
    assert variables[VARIABLE] == '{"t":{"0":99}}'


def test_one_that_is_ahead_stops_a_run_before_anything_is_written(spec, store):
    """Both ways out are told."""
    two = spec.model_copy(update={"topics": ("u", "t")})
    variables = Shown({VARIABLE: '{"t":{"0":99}}'})
    with pytest.raises(CursorAhead, match=r"partition 0: 99, ledger 10.*mount.*offsets set"):
        mirrored.restore_variables(variables, two, staged_attempts.ledger_of(store))
    assert variables == {VARIABLE: '{"t":{"0":99}}'}


def test_a_race_does_not_look_like_an_edit(spec, store):
    """Another run commits and writes the Variable after the ledger was opened: the Variables are
    read first, and the ledger again.
    """
    ledger = staged_attempts.ledger_of(store)

    class Racing(Shown):
        def read(self, _):
            plan = staged_attempts.plan_of((OffsetRange("t", 0, 10, 20),))
            staged_attempts.seal(store, plan)
            committing.commit_sealed_chunks(
                store, staged_attempts.ledger_of(store), plan, run="other"
            )
            return '{"t":{"0":20,"1":0}}'

    assert mirrored.find_drifts(Racing(), spec, ledger) == []


def test_what_was_shown_before_an_adoption_is_not_ahead(spec, store, seen):
    """Adopted from a terminal without Airflow: the next run rewrites the Variable."""
    seen(topic_id="new")
    adopt(spec)
    variables = Shown({VARIABLE: '{"t":{"0":10,"1":0}}'})
    mirrored.restore_variables(variables, spec, staged_attempts.ledger_of(store))
    assert variables == {VARIABLE: '{"t":{"0":0,"1":0}}'}
    variables[VARIABLE] = '{"t":{"0":11}}'
    with pytest.raises(CursorAhead):
        mirrored.restore_variables(variables, spec, staged_attempts.ledger_of(store))


def test_a_pattern_on_a_lake_that_is_not_mounted(tmp_path, monkeypatch):
    """Its topics are those that match now: an empty ledger knows none. Refused before anything is
    written.
    """

    answer(monkeypatch, topics=lambda _: ["new", "t"])
    form = {"name": "p", "kind": "ingest", "pattern": ".*", "lake": str(tmp_path / "not mounted")}
    variables = Shown({VARIABLE: '{"t":{"0":10,"1":0}}'})
    run = Run(
        parse_spec(form),
        KAFKA,
        "tidegate__p",
        "r",
        date(2026, 1, 1),
        mirror=variables,
        **HERE,
    )
    with pytest.raises(CursorAhead, match=r"tidegate__p__t .*partition 0: 10, ledger None"):
        plan(run)
    assert variables == {VARIABLE: '{"t":{"0":10,"1":0}}'}
    assert not (tmp_path / "not mounted").exists()


def test_each_pipeline_and_topic_has_a_variable_of_its_own():
    """Ordinary names are as ever; a pipeline's name that ends with an underscore runs into none."""
    assert mirrored.variable_name("p", "t") == "tidegate__p__t"
    assert mirrored.variable_name("a-b_c", "__d_") == "tidegate__a-b_c____d_"
    pipelines, topics = ("a", "a_", "a_-", "a-"), ("b", "_b", "__b", ".b", "._b", "-__b", ".__b")
    names = [mirrored.variable_name(p, t) for p in pipelines for t in topics]
    assert len(set(names)) == len(pipelines) * len(topics)
    assert mirrored.variable_name("a_", "b") == "tidegate__a_.__b"
