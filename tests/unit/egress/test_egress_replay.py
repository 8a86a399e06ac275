"""Replays of an egress: a window of a lake is sent again, once for each replay id."""

import json
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from support.egress_world import (
    FILE_SIZE,
    SETTINGS,
    World,
    commit_range,
    dies_while_sending,
    refuses,
    replay_of,
    sends_window,
    target_of,
)
from support.handed_in import TOY
from support.kafka_answers import answer
from tidegate import flows
from tidegate.broker.cluster import Cluster
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey, TargetSurvey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.fold import REPLAY
from tidegate.core.offsets import OffsetRange
from tidegate.egress import replay
from tidegate.egress.explain import explain
from tidegate.egress.release import release_claim
from tidegate.egress.status import read_egress_status
from tidegate.errors import (
    ConfigurationError,
    ReplayRefused,
    RowsRefused,
    SenderAlive,
    SendFailed,
    WindowRefused,
)
from tidegate.lake import timestamps
from tidegate.lake.store import STORES
from tidegate.pipelines import pipeline_files


@pytest.mark.usefixtures("lake")
def test_a_replay_id_is_sent_once(world: World) -> None:
    """Exactly its ranges, from the files that hold them; what the pipeline's own runs have to send
    is not touched; the same id does nothing, whatever the run; a new one sends once more.
    """
    x = replay_of(where="key = 'A'")
    report = world.send_and_publish("one", application=sends_window, **x)
    assert (report["lane"], report["commit"], report["rows"]) == (REPLAY, 2, 1)
    (job,) = world.ran
    assert {(r.partition, r.start, r.end) for r in job.source.window} == {(0, 20, 40), (1, 20, 40)}
    assert (job.source.where, job.source.topic_ids) == ("key = 'A'", {"src": "new"})
    staged = [path.partition("of/lake/")[2] for _, path in job.source.files]
    assert staged == ["staged/new-0-0/20", "staged/new-1-0/20"]
    assert world.fold.covered == {}
    assert world.send_and_publish("two", **x) == {**report, "run": "two"}
    assert len(world.ran) == 1
    assert (
        world.send_and_publish(
            "one", application=sends_window, **replay_of(where="key = 'A'", id="y")
        )["commit"]
        == 4
    )
    first, second = (job.plan_id for job in world.ran)
    assert first != second
    live = world.plan("live").plan
    assert (live.lane, live.records) == ("live", 300)  # of the topic that was, which comes first


@pytest.mark.usefixtures("lake")
def test_the_json_of_a_replays_plan(world: World) -> None:
    """Its exact JSON: `asked` bears the filter, and lacks it where there is none."""
    plan = world.plan(**replay_of(where="true", partitions=(0,))).plan
    form = plan.to_json()
    asked = {"topic": "src", "partitions": [0], "start": "20", "end": "40", "where": "true"}
    assert form["replay"] == {"id": "x", "asked": asked, "replaces": []}
    assert (form["lane"], form["kind"]) == ("replay", "egress")
    assert form["chunks"] == [{"src": {"0": [20, 40]}}]
    assert form["topics"] == {"src": "new"}
    assert type(plan).from_json(form) == plan
    bare = world.plan(**replay_of(id="y")).plan
    assert bare.replay is not None
    assert bare.replay["asked"].keys() == {"topic", "partitions", "start", "end"}
    assert bare.where is None


@pytest.mark.usefixtures("lake")
def test_an_id_stands_for_one_window_and_one_filter(world: World) -> None:
    world.plan(**replay_of(where="true"))
    for other in (replay_of(), replay_of(where="false"), replay_of("10", "31", where="true")):
        stands_for = "replay id 'x' stands for topic src, start 20, end 40, where true, as plan "
        with pytest.raises(ReplayRefused, match=stands_for):
            world.plan(**other)
        with pytest.raises(ReplayRefused, match="replay id 'x' stands for"):
            explain(world.open(**other)).to_json()


@pytest.mark.parametrize(
    ("asked", "complaints"),
    [
        (
            replay_of("2026-01-01T00:00:00", "x", id=" ", where=" ", partitions=(0, 7)),
            [
                "replay id ' ': letters, digits and _.:+-, 128 at most",
                "start '2026-01-01T00:00:00': a time without a zone: say 2026-01-01T00:00:00Z or "
                "2026-01-01T00:00:00+01:00",
                "end 'x': neither an offset, nor offsets in Spark's form, nor a time with a zone",
                "where: an SQL expression, or leave it out",
                "no partitions [7]: there are 0 to 1",
            ],
        ),
        (
            replay_of("90", "130"),
            [
                "partition 0: [100, 120) is not in the lake under topic id new, only under "
                "old: the topic was recreated",
                "partition 1: [90, 130) is not in the lake",
            ],
        ),
        (
            replay_of("30", '{"src": {"0": 20, "1": 40}}'),
            ["partition 0: start 30 is after end 20"],
        ),
        (replay_of("5", "5"), ["the window is empty"]),
        (replay_of(None, None), ["start: missing", "end: missing"]),
        (
            replay_of("0", "10", topic="other"),
            ["other is not in the lake: of 'lake' there are ['src']"],
        ),
    ],
)
@pytest.mark.usefixtures("lake")
def test_a_window_that_cannot_be_sent_again(
    world: World, asked: Any, complaints: list[str]
) -> None:
    """Every complaint at once, by plan and by explain; nothing is written anywhere."""
    before = sorted(world.home.rglob("*"))
    for ask in (world.plan, lambda **a: explain(world.open(**a)).to_json()):
        with pytest.raises(WindowRefused, match=r"nothing was sent") as refused:
            ask(**asked)
        assert refused.value.numbers["complaints"] == complaints
    assert sorted(world.home.rglob("*")) == before


NOON, ONE = "2026-03-14T12:00:00Z", "2026-03-14T13:00:00Z"


@pytest.mark.parametrize(
    ("topic_id", "complaints"),
    [
        (
            "newer",
            ["the lake has topic new, which is newer in Kafka: a time cannot be resolved "
             "there; give offsets"],
        ),
        (
            None,
            ["the lake has topic new, which is gone in Kafka: a time cannot be resolved "
             "there; give offsets"],
        ),
        (
            "new",
            ["partition 0: [100, 120) is not in the lake under topic id new, only under old: "
             "the topic was recreated",
             "partition 0: [200, 210) is not in the lake under topic id new, only under old: "
             "the topic was recreated",
             "partition 2: [0, 7) is not in the lake"],
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("lake")
def test_a_window_by_time_that_cannot_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, topic_id: str | None, complaints: list[str]
) -> None:
    """Kafka says which offsets a time means, so its topic must be the lake's; a partition that the
    lake has never seen is a part of such a window too. No boundary is frozen.
    """
    marks = {0: Watermarks(0, 210, 210), 1: Watermarks(0, 50, 50), 2: Watermarks(0, 7, 7)}
    identities = {"src": TopicIdentity(topic_id, dict.fromkeys(marks, 0))} if topic_id else {}
    seen = Survey("elsewhere", identities, {"src": marks} if topic_id else {})
    answer(monkeypatch, survey=lambda *_: seen)
    answers = cycle([{0: 10, 1: 0, 2: 0}, dict.fromkeys(marks)])
    monkeypatch.setattr(Cluster, "__init__", lambda *_: None)
    monkeypatch.setattr(Cluster, "__exit__", lambda *_: None)
    monkeypatch.setattr(Cluster, "offsets_at", lambda *_: {"src": next(answers)})
    monkeypatch.setattr(timestamps, "latest_timestamp", lambda *_: 0)  # its files are names only
    window = {
        **replay_of(NOON, ONE),
        "source_kafka": KafkaCluster("k", {"bootstrap.servers": "s:1"}),
    }
    with pytest.raises(WindowRefused) as refused:
        world.plan(**window)
    assert refused.value.numbers["complaints"] == complaints
    assert not list(world.home.rglob("boundaries"))
    if topic_id == "new":
        window["asked"] = replace(window["asked"], partitions=(1,))
        assert world.plan(**window).plan.chunks == ((OffsetRange("src", 1, 0, 50),),)
        assert len(list(world.home.glob("of/lake/_tidegate/boundaries/new/*"))) == 2


@pytest.mark.usefixtures("lake")
def test_a_refused_window_makes_no_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its complaints come before the target is touched, or even looked at."""
    asked: list[int | None] = []

    def survey(_: Any, __: Any, *, create_with: int | None, make: bool) -> TargetSurvey:
        asked.append(create_with if make else None)
        return world.target

    answer(monkeypatch, survey_target=survey)
    world.settings |= {"target": {"topic": "t", "partitions": 3}}
    with pytest.raises(WindowRefused):
        world.plan(**replay_of("90", "130"))
    assert asked == []
    explain(world.open(**replay_of())).to_json()
    world.plan(**replay_of())
    assert asked == [None, 3]


def chosen(world: World, topic: str | None) -> str:
    """Return the topic that is replayed if this one is named."""
    given = {"id": "x", "start": "0", "end": "1"}
    asked = replay.replay_settings(
        world.spec, topic, pipeline_files, lambda _: world.run().kafka, given
    )["asked"]
    return str(asked.topic)


@pytest.mark.usefixtures("lake")
def test_a_replay_is_no_loop(world: World) -> None:
    """Back into the topic that the lake is read from: the pipeline's own runs may not."""
    form = json.loads((world.home / "pipelines/lake.yaml").read_text())
    form["topics"] = ["src", "t"]
    (world.home / "pipelines/lake.yaml").write_text(json.dumps(form))
    with pytest.raises(ConfigurationError, match="without end"):
        world.plan("live")
    assert chosen(world, "src") == "src"
    with pytest.raises(ConfigurationError, match="say which topic, of src, t"):
        chosen(world, None)
    assert world.plan(**replay_of()).plan.records == 40


@pytest.mark.usefixtures("lake")
def test_explain_of_a_replay(world: World) -> None:
    """The exact JSON; afterwards it names the entry that did it."""
    asked = replay_of(where="true", partitions=(0,))
    explained = explain(world.open(**asked)).to_json()
    assert explained == {
        "format": 1, "pipeline": "out", "kind": "egress", "lane": "replay",
        "kafka": {
            "connection": "k", "bootstrap_servers": "nowhere:1",
            "protocol": "PLAINTEXT", "login": None,
        },
        "source_kafka": None,
        "replay": {"id": "x", "where": "true", "done": False, "commit": None},
        "plan_id": world.plan(**asked).plan.id, "finishes_first": None, "files": [],
        "offsets": [{"src": {"0": [20, 40]}}], "records": 20, "bytes": FILE_SIZE,
        "later": {"files": 0, "offsets": 0, "young": 0, "ahead": 0}, "left_out": [],
        "unchecked": ["where"],
        "target": {"t": {"topic_id": "id-t", "partitions": 1}},
        "settings": SETTINGS, "notices": [],
    }  # fmt: skip
    world.send_and_publish(application=sends_window, **asked)
    explained["replay"] |= {"done": True, "commit": 2}
    assert explain(world.open(**asked)).to_json() == explained
    columns = {"key": "no_such(key)", "value": ""}  # what is empty is not given
    world.settings |= {"columns": columns, "order_by": ["key"]}
    live = explain(world.open()).to_json()
    assert (live["replay"], live["records"], live["bytes"]) == (None, 300, 15 * FILE_SIZE)
    assert live["unchecked"] == ["columns.key", "order_by"]  # only Spark knows its functions


@pytest.mark.usefixtures("lake")
def test_a_replay_and_the_pipelines_own_runs_leave_each_other_alone(world: World) -> None:
    """A replay that is being sent, or died half-way, is no reason to wait, and is finished by its
    id; nor does it finish, or wait for, what a run of the pipeline began.
    """
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending, **replay_of())
    (claim,) = world.fold.egress.claims.values()
    assert [
        each["replay"]
        for each in read_egress_status(world.spec, STORES, pipeline_files).to_json()["open_claims"]
    ] == ["x"]
    for alive in ({claim.attempt}, set()):
        world.alive = alive
        assert explain(world.open()).to_json()["finishes_first"] is None
    world.alive = {claim.attempt}
    with pytest.raises(SenderAlive, match="holds the claim"):
        world.send("two", **replay_of())
    with pytest.raises(SendFailed):
        world.send("live", dies_while_sending)
    live = next(c for c in world.fold.egress.claims.values() if c.lane == "live")
    claims = read_egress_status(world.spec, STORES, pipeline_files).to_json()["open_claims"]
    assert [each["replay"] for each in claims] == ["x", None]
    world.alive = {live.attempt}
    assert (
        world.send_and_publish("two", application=sends_window, **replay_of())["plan_id"]
        == claim.plan_id
    )
    with pytest.raises(SenderAlive):
        world.send("other live")
    world.alive = set()
    assert world.send_and_publish("other live", application=sends_window)["plan_id"] == live.plan_id
    assert world.fold.egress.claims == {}


@pytest.mark.usefixtures("lake")
def test_a_replay_resumes_where_it_was_claimed(world: World) -> None:
    """By the same plan, whatever the lake has got meanwhile, and with the same filter."""
    asked = replay_of(where="key is null")
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending, **asked)
    world.target = target_of(ends={0: 9})
    commit_range(world, "new", 0, 100, 120)
    assert (
        world.send_and_publish("two", application=sends_window, **asked)["receipts"][0]["before"]
        == 5
    )
    first, second = world.ran
    assert first.plan_id == second.plan_id
    assert first.source == second.source


@pytest.mark.parametrize(("how", "runs"), [("declare sent", 1), ("resend", 2)])
@pytest.mark.usefixtures("lake")
def test_a_replay_is_released_by_hand(world: World, how: Any, runs: int) -> None:
    """Declared sent, its id does nothing more, and the pipeline's own runs still have all to send;
    released to be resent, its id sends all of it, from the target's ends of then.
    """
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending, **replay_of())
    release_claim(world.spec, flows.store(world.spec), None, how, "looked", engine=TOY, run="me")
    world.target = target_of(ends={0: 9})
    report = world.send_and_publish("two", application=sends_window, **replay_of())
    assert len(world.ran) == runs
    assert report["commit"] == (4 if how == "resend" else None)
    assert [r["before"] for r in report["receipts"]] == ([9] if how == "resend" else [])
    explained = explain(world.open(**replay_of())).to_json()["replay"]
    assert (explained["done"], explained["commit"]) == (True, report["commit"])
    assert world.plan("live").plan.records == 300


@pytest.mark.usefixtures("lake")
def test_a_replay_that_was_refused_may_be_corrected(world: World) -> None:
    """Its id has sent nothing, which the release says: another filter under it is its next
    generation, and the one before is then refused. What was sent, or may have been, is not.
    """
    with pytest.raises(RowsRefused):
        world.send("one", refuses(), **replay_of(where="nosuch = 1"))
    explained = explain(world.open(**replay_of(where="offset < 5"))).to_json()
    report = world.send_and_publish(
        "two", application=sends_window, **replay_of(where="offset < 5")
    )
    assert (report["commit"], report["plan_id"], report["generation"]) == (
        4,
        explained["plan_id"],
        2,
    )
    for where in ("nosuch = 1", "offset < 6", None):
        with pytest.raises(ReplayRefused):
            world.send("three", **replay_of(where=where))
    assert len(world.ran) == 2


@pytest.mark.usefixtures("lake")
def test_a_replay_that_may_have_sent_something_keeps_its_plan(world: World) -> None:
    """Frozen and not yet claimed, claimed, released by hand: another filter is refused, also if an
    earlier claim ended with nothing sent.
    """
    world.plan("one", **replay_of(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **replay_of())
    with pytest.raises(RowsRefused):
        world.send("one", refuses(), **replay_of(where="true"))
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending, **replay_of(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **replay_of())
    release_claim(
        world.spec, flows.store(world.spec), None, "resend", "looked", engine=TOY, run="me"
    )
    with pytest.raises(ReplayRefused):
        world.plan("two", **replay_of())
    with pytest.raises(RowsRefused):
        world.send("one", refuses(), **replay_of(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **replay_of())
