"""The doctor on broker, egress and Spark: healthy, and with one planted fault for each check."""

import json
import socket
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest

from support.doctor_checks import overwrite, states_and_text
from support.handed_in import OUTGOING
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.retention import Retention
from tidegate.core import layout
from tidegate.core.cluster_answers import Survey, TargetState, TargetSurvey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Claim, Commit, Receipt, Reference, Release
from tidegate.core.nearest import did_you_mean
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan, SourceFile
from tidegate.core.requests import FileReplay, Replay
from tidegate.doctor import claim_checks as egress_checks
from tidegate.doctor import lake, pipeline_checks
from tidegate.doctor.check import run_checks
from tidegate.egress.sender import sender_identity
from tidegate.errors import BrokerUnreachable, LakeUnsafe, NotAuthorised
from tidegate.lake import plans
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore, open_store
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import EgressRun

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
SPARK = SparkConnection("spark_default", "local[2]")
HOUR = 3_600_000
DAY = Retention(24 * HOUR, None)
TWO_HOURS = Retention(2 * HOUR, None)
MARKS = Watermarks(0, 20, 20)


def test_a_ledger_that_cannot_be_read(spec, store, monkeypatch):
    """The check of the lake names the entry; the broker is checked all the same."""
    Path(store.native(layout.entry(2))).write_text("{}")
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: Cluster())
    monkeypatch.setattr(pipeline_checks, "survey", Cluster().survey)
    monkeypatch.setattr(pipeline_checks, "read_retentions", lambda *_: {"t": Cluster().kept})
    found = run_checks(pipeline_checks.checks(spec, lambda: KAFKA, lambda: SPARK)).to_json()
    first, *others = found["checks"]
    assert (first["check"], first["state"]) == ("lake", "failure")
    assert "entry 2" in first["says"] + first["fix"]
    assert "restore" in first["says"] + first["fix"]
    assert {each["state"] for each in others} == {"ok"}


# The broker


@dataclass
class Cluster:
    """A cluster with topic t of one partition, [0, 20), and what may go wrong with it."""

    cluster_id: str = "cluster"
    topic_id: str | None = "id-t"
    marks: Watermarks = MARKS
    kept: Retention | None = DAY  # None: its settings may not be described
    old: int | None = 0  # the first offset that is younger than half the retention
    unreadable: int | None = None  # the first offset that Spark cannot read
    on_expired: str = "fail"  # of the pipeline
    allowed: set = field(default_factory=lambda: {"READ", "DESCRIBE"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def id(self):
        return self.cluster_id

    def version(self):
        return "4.3"

    def operations(self, _):
        return {"t": self.allowed} if self.topic_id else {}

    def offsets_at(self, partitions, _):
        return {"t": dict.fromkeys(partitions["t"], self.old)}

    def survey(self, *_):
        if self.topic_id is None:
            return Survey(self.cluster_id, {}, {})
        identity = TopicIdentity(self.topic_id, {0: 0, 1: 0})
        marks = {0: self.marks, 1: Watermarks(0, 0, 0)}
        too_late = {} if self.unreadable is None else {0: self.unreadable}
        return Survey(self.cluster_id, {"t": identity}, {"t": marks}, {"t": too_late})

    def nearest(self, missing):
        return did_you_mean(missing, ["tt"])


@pytest.mark.parametrize(
    ("planted", "schedule", "states", "says"),
    [
        ({}, "0 * * * *", ["ok", "ok", "ok"], "kept for 1d"),
        ({"kept": Retention(None, None)}, "0 * * * *", ["ok"] * 3, "time does not delete"),
        ({"cluster_id": "other"}, "0 * * * *", ["failure"], "'kafka_default' back"),
        (
            {"topic_id": None}, "0 * * * *", ["ok", "failure"],
            "t: no such topic (was id-t) → if it exists, grant",
        ),
        ({"topic_id": "new"}, "0 * * * *", ["ok", "failure"], "tidegate offsets adopt p t"),
        ({"allowed": {"DESCRIBE"}}, "0 * * * *", ["ok", "failure"], "grant READ"),
        ({"kept": Retention(1, None)}, "0 * * * *", ["ok", "ok", "failure"], "expire before"),
        ({"kept": TWO_HOURS}, "0 * * * *", ["ok", "ok", "warning"], "three failed runs"),
        ({"kept": TWO_HOURS}, None, ["ok", "ok", "ok"], "kept for 2h"),
        ({"old": 15}, "0 * * * *", ["ok", "ok", "warning"], "past half of it in partitions [0]"),
        ({"old": None}, "0 * * * *", ["ok", "ok", "warning"], "run it now"),
        (
            {"marks": Watermarks(12, 20, 20)}, "0 * * * *",
            ["ok", "ok", "failure", "ok"], "all that expire, also later; lengthen",
        ),
        # A run would not read them: only what can help is named.
        (
            {"marks": Watermarks(12, 20, 20), "old": None}, "0 * * * *",
            ["ok", "ok", "failure", "ok"], "lengthen retention.ms\nt: records are kept for 1d",
        ),
        (
            {"marks": Watermarks(12, 20, 20), "old": None, "on_expired": "skip"}, "0 * * * *",
            ["ok", "ok", "failure", "warning"], "the next run records the gap and goes on",
        ),
        (
            {"unreadable": 10, "old": None}, "0 * * * *", ["ok", "ok", "failure", "ok"],
            "t-0: unreadable (offset 10) → a producer writes timestamps",
        ),
        ({"unreadable": 12, "old": None}, "0 * * * *", ["ok", "ok", "warning"], "run it now"),
        ({"kept": None}, "0 * * * *", ["ok", "ok", "warning"], "grant DESCRIBE_CONFIGS"),
        (
            {"kept": Retention(24 * HOUR, 10**9)}, "0 * * * *", ["ok", "ok", "warning"],
            "kept for 1d, runs come every 1h; when they expire is not known: "
            "partitions of more than 1,000,000,000 bytes",
        ),
        ({"kept": Retention(None, 1)}, None, ["ok", "ok", "warning"], "when they expire is not"),
        ({"kept": Retention(HOUR // 2, 1)}, "0 * * * *", ["ok", "ok", "failure"], "expire before"),
    ],
)  # fmt: skip
def test_the_broker_and_its_topics(spec, store, monkeypatch, planted, schedule, states, says):
    """Healthy, and each fault by its name with the way out."""
    cluster = Cluster(**planted)
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: cluster)
    monkeypatch.setattr(pipeline_checks, "survey", cluster.survey)
    kept = {"t": cluster.kept} if cluster.kept else {}
    monkeypatch.setattr(pipeline_checks, "read_retentions", lambda *_: kept)
    spec = spec.model_copy(update={"schedule": schedule, "on_expired": cluster.on_expired})
    found, text = states_and_text(pipeline_checks.check_topics(spec, KAFKA))
    assert [state for _, state in found] == states
    assert says in text


def test_assigned_partitions(spec, store, monkeypatch):
    """One that does not exist is named; of the others only those that are read are looked at."""
    cluster = Cluster(old=None, unreadable=10)
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: cluster)
    monkeypatch.setattr(pipeline_checks, "survey", cluster.survey)
    monkeypatch.setattr(pipeline_checks, "read_retentions", lambda *_: {"t": DAY})
    for assigned, says in (([1], None), ([1, 7], "t-7: no such partition → add partitions")):
        some = spec.model_copy(update={"schedule": "0 * * * *", "assign": {"t": assigned}})
        found, text = states_and_text(pipeline_checks.check_topics(some, KAFKA))
        assert ("topic", "failure") in found if says else {s for _, s in found} == {"ok"}, text
        assert "t: 1 partition, may be read" in text
        assert says is None or says in text


def test_the_longest_time_between_runs():
    """Weekdays only: over the week-end."""
    hours = {"*/10 * * * *": 1 / 6, "@hourly": 1, "0 6 * * mon-fri": 72, "@quarterly": 92 * 24}
    for schedule, expected in hours.items():
        assert pipeline_checks._interval(schedule).total_seconds() / 3600 == expected
    assert pipeline_checks._interval("every day") is None
    assert pipeline_checks._interval(None) is None


def test_a_topic_that_no_run_has_read(spec, monkeypatch, tmp_path):
    """It may be misspelt: the nearest one is offered."""
    cluster = Cluster(topic_id=None)
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: cluster)
    monkeypatch.setattr(pipeline_checks, "survey", cluster.survey)
    spec = spec.model_copy(update={"lake": str(tmp_path / "new")})
    found, text = states_and_text(pipeline_checks.check_topics(spec, KAFKA))
    assert [state for _, state in found] == ["ok", "failure"]
    assert "grant DESCRIBE on it, or correct `topics`; did you mean 'tt'?" in text
    some = spec.model_copy(update={"assign": {"t": [0]}})
    _, text = states_and_text(pipeline_checks.check_topics(some, KAFKA))
    assert "or correct `assign`; did you mean 'tt'?" in text


def test_a_broker_that_is_away(spec, store):
    """The line has the error's message, and as its fix the part behind the semicolon."""

    def away():
        raise BrokerUnreachable("no broker answered within 8 s; check that it runs")

    check, *_ = (c for c in pipeline_checks.checks(spec, away, lambda: SPARK) if c.name == "kafka")
    (line,) = run_checks([check]).to_json()["checks"]
    assert (line["pipeline"], line["says"]) == ("p", "no broker answered within 8 s")
    assert line["fix"] == "check that it runs"


@pytest.fixture
def egress(tmp_path, monkeypatch):
    """An egress of text files, one of which is not sent yet, and a target that tests replace."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("1")
    (tmp_path / "of").mkdir()
    form = {"name": "e", "kind": "egress", "lake": str(tmp_path / "of"), "settle": 0}
    source = {"path": str(tmp_path / "in"), "format": "text"}
    spec = parse_spec({**form, "source": source, "target": {"topic": "out", "partitions": 3}})
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: Cluster())
    target_is(monkeypatch)
    return spec


def target_is(monkeypatch, topic_id="id-out", *, compacted=False, cluster="c", creates=False):
    monkeypatch.setattr(egress_checks, "auto_creates", lambda _: creates)
    state = TargetState(topic_id, {0: 5, 1: 5}, 1_000_000, compacted)
    seen = TargetSurvey(cluster, {"out": state})

    def survey(_, names, *, create_with, make):
        assert (set(names), create_with, make) == ({"out"}, 3, False)
        return seen

    monkeypatch.setattr(egress_checks, "survey_target", survey)


def ledger_of(spec, *entries):
    ledger = Ledger(open_store(spec.lake, spec.name), spec.name)
    for entry in entries:
        assert isinstance(ledger.append(entry, run="r"), Appended)


def claimed(**sender):
    file = SourceFile("b.txt", 1, "e")
    process = {**sender_identity(None), **sender}
    return Claim(
        "live", "plan", "attempt-of-a-test", process, (file,), {}, (), {"out": {0: 0}}, "4.0"
    )


def sent_to(topic_id):
    return Commit("live", "p", "", 0, "a", "c", {}, {}, Reference("m", ""),
                  (Receipt("out", topic_id, 0, 0, 1, 1, 0),))  # fmt: skip


def test_a_healthy_egress(egress, monkeypatch):
    """Ledger and lake, claims, source, broker, target and Spark; a topic that a run makes is
    healthy too, and is not made.
    """
    found = run_checks(pipeline_checks.checks(egress, lambda: KAFKA, lambda: SPARK)).to_json()
    assert {each["state"] for each in found["checks"]} == {"ok"}, found["checks"]
    names = [each["check"] for each in found["checks"]]
    assert list(dict.fromkeys(names)) == [
        "ledger", "lake disk", "lake", "lake clock", "connection", "claim", "source", "kafka",
        "target", "spark",
    ]  # fmt: skip
    assert "waiting: 1 file, 0 offsets" in str(found["checks"])
    target_is(monkeypatch, "")
    states, text = states_and_text(egress_checks.check_target(egress, KAFKA))
    assert states == [("target", "ok")]
    assert "the first run creates it, with 2 partitions" in text
    target_is(monkeypatch, creates=True)
    states, text = states_and_text(egress_checks.check_target(egress, KAFKA))
    assert states == [("target", "ok")] * 2
    assert "the brokers make missing topics (auto.create.topics.enable)" in text


@pytest.mark.parametrize(
    ("sender", "state", "says"),
    [
        ({}, "ok", "which is alive: it is being sent"),
        ({"started": -1, "pid": 1}, "warning", "which is dead → `tidegate run e`"),
        ({"host": "elsewhere", "boot": "b"}, "warning", "which cannot be seen from here → wait"),
    ],
)
def test_an_open_claim(egress, sender, state, says):
    """Reported with its sender, and with what to do."""
    ledger_of(egress, claimed(**sender))
    states, text = states_and_text(egress_checks.check_claims(egress))
    assert (states, says in text) == ([("claim", state)], True), text


def test_the_claim_of_a_replay(egress):
    """No run finishes it: the command is that of the replay."""
    store = open_store(egress.lake, egress.name)
    asked = Replay("src", "may 3", (0, 3), "20", "40", "cast(key as string) = 'AA'")
    plan = Plan(
        pipeline="e", kind="egress", lane="replay", window_date="2026-01-01", cluster_id="c",
        isolation="read_uncommitted", topics={"src": "id"}, destination="kafka", byte_settings={},
        chunks=((OffsetRange("src", 0, 20, 40),),),
        replay={"id": asked.id, "asked": asked.to_json(), "replaces": []},
    )  # fmt: skip
    plans.freeze_plan(store, "key", plan, 1, note={})
    dead = claimed(started=-1, pid=1)
    of_lake = {"files": (), "topic_ids": {"src": "id"}, "window": plan.chunks[0]}
    ledger_of(egress, replace(dead, lane="replay", plan_id=plan.id, **of_lake))
    _, text = states_and_text(egress_checks.check_claims(egress))
    assert text.endswith(
        "`tidegate replay e --replay-id 'may 3' --topic src --partitions 0,3 --start 20 --end 40 "
        """--where 'cast(key as string) = '"'"'AA'"'"''`: only the same replay finishes it"""
    )


def test_the_claim_of_a_replay_of_files(egress):
    store = open_store(egress.lake, egress.name)
    asked = FileReplay("x", ("a*", "b.csv"), start="2026-03-14")
    claim = replace(claimed(started=-1, pid=1), lane="replay")
    plan = Plan(
        pipeline="e", kind="egress", lane="replay", window_date="2026-01-01", cluster_id="c",
        isolation="read_uncommitted", topics={}, destination="kafka", byte_settings={}, chunks=(),
        files=claim.files, replay={"id": asked.id, "asked": asked.to_json(), "replaces": []},
    )  # fmt: skip
    plans.freeze_plan(store, "key", plan, 1, note={})
    ledger_of(egress, replace(claim, plan_id=plan.id))
    _, text = states_and_text(egress_checks.check_claims(egress))
    says = "`tidegate replay e --replay-id x --start 2026-03-14 --file 'a*' --file b.csv`: only"
    assert says in text


def test_a_source_with_something_excluded_or_none_at_all(egress, tmp_path):
    claim = claimed(started=-1, pid=1)
    ledger_of(egress, claim, Release("plan", claim.attempt, "declare sent", "looked"))
    (tmp_path / "in/b.txt").write_text("other")
    states, text = states_and_text(egress_checks.check_source(egress))
    assert states == [("source", "ok"), ("source", "warning")]
    assert "b.txt: sent before, with other content" in text
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    (tmp_path / "in").rmdir()
    found = run_checks([c for c in pipeline_checks.checks(egress, lambda: KAFKA, lambda: SPARK)
                     if c.name == "source"]).to_json()  # fmt: skip
    assert (found["failures"], "cannot be" in found["checks"][0]["says"]) == (1, True)


@pytest.mark.parametrize(
    ("target", "state", "says"),
    [
        ({"topic_id": "other"}, "warning", "recreated, it was id-out, it is other"),
        ({"compacted": True}, "failure", "compacted, and rows of files have no order"),
        ({"cluster": "another"}, "failure", "it is cluster another, what was sent is in c"),
    ],
)
def test_a_wrong_target(egress, monkeypatch, target, state, says):
    ledger_of(egress, sent_to("id-out"))
    target_is(monkeypatch, **target)
    states, text = states_and_text(egress_checks.check_target(egress, KAFKA))
    assert (states, says in text) == ([("target", state)], True), text


def test_errors_of_an_egress_are_failures(egress, monkeypatch):
    """A broker that is away, a topic that is not there or may not be written: each by its check."""

    def away(*_, **__):
        raise BrokerUnreachable("no broker answered; check that it runs")

    def refuses(*_, **__):
        raise NotAuthorised("not permitted: WRITE on out; grant it")

    monkeypatch.setattr(pipeline_checks, "Cluster", away)
    monkeypatch.setattr(egress_checks, "survey_target", refuses)
    found = run_checks(pipeline_checks.checks(egress, lambda: KAFKA, lambda: SPARK)).to_json()
    failed = {each["check"]: each["fix"] for each in found["checks"] if each["state"] == "failure"}
    assert failed == {"kafka": "check that it runs", "target": "grant it"}


def test_an_egress_on_a_store_without_create_if_absent(egress, monkeypatch):
    """Its ledger needs it, too: two senders could both have a claim."""
    store = LocalStore(Path(egress.lake) / "e")
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", overwrite)
        states, _ = states_and_text(lake.check_lake(egress))
    assert ("lake", "failure") in states
    with pytest.raises(LakeUnsafe):
        EgressRun(egress, KAFKA, "d", "r", date(2024, 5, 1), **OUTGOING).ledger(store)
    store.delete(layout.UNSAFE_STORE)


# Spark


def test_a_master_that_answers_and_one_that_does_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        masters = f"spark://127.0.0.1:1,127.0.0.1:{port}"
        two = SparkConnection("s", masters)
        assert states_and_text(pipeline_checks.check_spark(two))[0] == [("spark", "ok")]
    one = SparkConnection("s", f"spark://127.0.0.1:{port}")
    states, text = states_and_text(pipeline_checks.check_spark(one))
    assert (states, "start it" in text) == ([("spark", "failure")], True)
    assert states_and_text(pipeline_checks.check_spark(SPARK))[0] == [("spark", "ok")]


def test_what_a_spark_connection_says(tmp_path):
    """Its notices, and the version of a Spark of its own, without a JVM."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/spark-core_2.13-4.0.3.jar").touch()
    own = replace(SPARK, home=tmp_path, notices=("queue: it has no effect",))
    assert [line.says for line in pipeline_checks.check_spark(own)] == [
        "queue: it has no effect",
        f"SPARK_HOME {tmp_path} is Spark 4.0.3 (Scala 2.13)",
        "master local[2]",
    ]


def test_notices_of_settings(spec):
    """Each is a line that is ok; without one there is no line."""
    given = spec.model_copy(update={"options": {"includeHeaders": True}})

    def lines(spec):
        (check,) = (
            each
            for each in pipeline_checks.checks(spec, lambda: KAFKA, lambda: SPARK)
            if each.name == "settings"
        )
        return [(line.state, "no effect" in line.says) for line in check.ask()]

    assert (lines(spec), lines(given)) == ([], [("ok", True)])
    wrong = spec.model_copy(update={"options": {"kafka.default.api.timeout.ms": 29_999}})
    assert lines(wrong) == [("failure", False)]


def test_the_lines_are_json(spec, store):
    """As `doctor --json` prints them."""
    found = run_checks(pipeline_checks.checks(spec, lambda: KAFKA, lambda: SPARK)[::3]).to_json()
    assert json.loads(json.dumps(found))["checks"][-1] == {
        "pipeline": "p", "check": "spark", "state": "ok", "says": "master local[2]", "fix": None,
    }  # fmt: skip
