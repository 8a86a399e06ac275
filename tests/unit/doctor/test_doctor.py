"""The doctor: each thing it can say, on a healthy system and on one planted fault for each."""

import json
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import ClassVar

import pytest

from support import staged_attempts
from tidegate import faults
from tidegate.broker.cluster import Survey, TopicIdentity
from tidegate.broker.settings import KafkaSettings
from tidegate.broker.target import TargetState, TargetSurvey
from tidegate.core import layout
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Claim, Commit, Gap, Receipt, Reference, Release
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.doctor import egress as egress_checks
from tidegate.doctor import machine, pipeline
from tidegate.doctor.checks import Check, examine, ok
from tidegate.egress.sender import sender_identity
from tidegate.errors import BrokerUnreachable, ConfigurationError, LakeUnsafe, NotAuthorised
from tidegate.lake import publishing
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore, open_store
from tidegate.launch import jars
from tidegate.pipelines.spec import parse
from tidegate.runs.run import EgressRun, Run

KAFKA = KafkaSettings("kafka_default", {"bootstrap.servers": "nowhere:1"})
HOUR = 3_600_000
MARKS = Watermarks(0, 20, 20)


def said(lines):
    """Return `(check, state)` of each line, and all that it says and advises."""
    lines = list(lines)
    assert all((line.fix is None) == (line.state == "ok") for line in lines)
    text = "\n".join(f"{line.says} → {line.fix}" for line in lines)
    return [(line.check, line.state) for line in lines], text


# This machine


def test_this_machine_is_well():
    """All that a set-up environment has, in the order of asking; in seconds."""
    started = time.monotonic()
    found = examine(machine.checks())
    names = [each["check"] for each in found["checks"]]
    assert names == ["pyspark", "java", "jars", "disk", "clock"]
    assert found["failures"] == 0
    assert time.monotonic() - started < 5


def test_two_versions_of_pyspark(monkeypatch):
    versions = {"pyspark": "4.0.4", "pyspark-client": "4.1.0"}
    monkeypatch.setattr(machine, "version", versions.__getitem__)
    states, text = said(machine.pyspark_pair())
    assert states == [("pyspark", "failure")]
    assert "install pyspark-client==4.0.4" in text


def test_no_pyspark(monkeypatch):
    def missing(name):
        raise machine.PackageNotFoundError(name)

    monkeypatch.setattr(machine, "version", missing)
    states, text = said(machine.pyspark_pair())
    assert states == [("pyspark", "failure")]
    assert "not installed" in text


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_392"', "failure"),
        ('openjdk version "11.0.2"', "failure"),
        ("nonsense", "failure"),
    ],
)
def test_java(tmp_path, monkeypatch, told, state):
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert said(machine.java())[0] == [("java", state)]


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (line,) = examine([Check("java", machine.java)])["checks"]
    assert (line["state"], "install Java 17 or 21" in line["says"]) == ("failure", True)


def test_a_jar_is_cut_short(tmp_path, monkeypatch):
    """Or missing: named, and what fetches it again."""
    known = jars.paths("spark-kafka")
    (tmp_path / "jars").mkdir()
    for path in known[1:]:
        (tmp_path / "jars" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "jars" / known[1].name).write_bytes(b"PK")
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    states, text = said(machine.spark_jars())
    assert states == [("jars", "failure")]
    assert known[0].name in text
    assert known[1].name in text
    assert "make setup" in text


def test_jars_of_another_spark(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda _: "4.2.0")
    states, text = said(machine.spark_jars())
    assert (states, "not one line" in text) == ([("jars", "failure")], True)


@pytest.mark.parametrize(("free", "state"), [(6, "ok"), (3, "warning"), (0.1, "failure")])
def test_disk(monkeypatch, free, state):
    class Usage:
        def __init__(self, _):
            self.free = int(free * (1 << 30))

    monkeypatch.setattr(machine.shutil, "disk_usage", Usage)
    assert said(machine.disk("disk", "/"))[0] == [("disk", state)]


def test_a_clock_that_was_never_set(monkeypatch):
    assert said(machine.clock())[0] == [("clock", "ok")]
    monkeypatch.setattr(machine.time, "time", lambda: 1000.0)
    assert said(machine.clock())[0] == [("clock", "failure")]


def test_a_check_that_fails_stops_no_other():
    """By a refusal or by an accident; those around it are asked, in their order."""

    def refuses():
        yield ok("a", "first")
        raise ConfigurationError("broken; mend it")

    def breaks():
        raise ZeroDivisionError("oops")

    well = Check("c", lambda: iter([ok("c", "")]))
    found = examine([Check("a", refuses), Check("b", breaks, "p"), well])
    assert [(each["check"], each["state"], each["fix"]) for each in found["checks"]] == [
        ("a", "ok", None),
        ("a", "failure", "mend it"),
        ("b", "failure", "report it, with the log"),
        ("c", "ok", None),
    ]
    assert (found["failures"], found["warnings"]) == (2, 0)


# The lake


@pytest.fixture
def spec(tmp_path):
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path / "lake")}
    return parse({**form, "schedule": "0 * * * *"})


@pytest.fixture
def store(tmp_path):
    """[0, 10) of t-0 is committed."""
    store = LocalStore(tmp_path / "lake/p")
    commit(store, 0, 10)
    return store


def commit(store, start, end):
    plan = staged_attempts.plan_of((OffsetRange("t", 0, start, end),))
    staged_attempts.seal(store, plan)
    publishing.publish_sealed(store, staged_attempts.ledger_of(store), plan, run="run")


def test_a_healthy_lake(spec, store):
    """What is tried leaves nothing behind."""
    before = [each.path for each in store.objects("")]
    states, _ = said(pipeline.lake(spec))
    checks = ["ledger", "lake disk", "lake", "lake clock"]
    assert states == [(check, "ok") for check in checks]
    assert [each.path for each in store.objects("")] == before


def test_a_lake_that_is_not_mounted(spec):
    """It is not made by looking at it."""
    states, text = said(pipeline.lake(spec))
    assert (states, "mount it" in text) == ([("lake", "warning")], True)
    assert not Path(spec.lake).exists()


def test_commits_that_are_not_in_place(spec, store, monkeypatch):
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        commit(store, 10, 20)
    monkeypatch.delenv(faults.VARIABLE)
    states, text = said(pipeline.lake(spec))
    assert ("ledger", "warning") in states
    assert "tidegate repair p" in text


def test_a_ledger_that_takes_long_to_open(spec, store, monkeypatch):
    monkeypatch.setattr(pipeline, "_LONG", 2)
    states, text = said(pipeline.lake(spec))
    assert states[0] == ("ledger", "warning")
    assert "3 entries, 1 live commits, 3 since the last checkpoint" in text


def test_a_ledger_that_cannot_be_read(spec, store, monkeypatch):
    """It is said of the lake, by its entry, and not of the broker, which is asked all the same."""
    Path(store.native(layout.entry(2))).write_text("{}")
    monkeypatch.setattr(pipeline, "Cluster", lambda _: Cluster())
    monkeypatch.setattr(pipeline, "survey", Cluster().survey)
    found = examine(pipeline.checks(spec, lambda: KAFKA, lambda: "local[2]"))
    lake, *others = found["checks"]
    assert (lake["check"], lake["state"]) == ("lake", "failure")
    assert "entry 2" in lake["says"] + lake["fix"]
    assert "restore" in lake["says"] + lake["fix"]
    assert {each["state"] for each in others} == {"ok"}


def test_a_lake_that_cannot_be_written(spec):
    """/sys is written by nobody, root included."""
    check, *_ = pipeline.checks(spec.model_copy(update={"lake": "/sys"}), None, None)
    lines = examine([check])["checks"]
    assert [(each["check"], each["state"]) for each in lines][-1] == ("lake", "failure")
    assert "not permitted" in lines[-1]["says"] or "read-only" in lines[-1]["says"].lower()


def write(store, path, data):
    target = Path(store.native(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return True


class LocksPerConnection(LocalStore):
    """As some S3 servers do behind several endpoints: each looks and writes under its own lock."""

    def __init__(self, root):
        super().__init__(root)
        self.lock = threading.Lock()

    def create(self, path, data):
        with self.lock:
            if self.get(path) is not None:
                return False
            time.sleep(0.002)
            return write(self, path, data)


class LooksNowAndThen(LocalStore):
    """Create-if-absent is a look before the upload for every seventh name, else it is right."""

    names: ClassVar[list[str]] = []

    def create(self, path, data):
        if path not in self.names:
            self.names.append(path)
        if self.names.index(path) % 7 != 6 or self.get(path) is not None:
            return super().create(path, data)
        time.sleep(0.02)
        return write(self, path, data)


def test_a_store_that_ignores_create_if_absent(spec, store, monkeypatch):
    """As some S3 servers do: everyone wins, in the first round."""
    monkeypatch.setattr(LocalStore, "create", write)
    states, text = said(pipeline.exclusive(spec.lake, "p"))
    assert states == [("lake", "failure")]
    assert "8 of 8 rivals" in text


@pytest.mark.parametrize("kind", [LocksPerConnection, LooksNowAndThen])
def test_a_store_that_fails_some_races(spec, store, monkeypatch, kind):
    """Seen through several connections, in many rounds; nothing but the record is left behind."""
    LooksNowAndThen.names.clear()
    before = [each.path for each in store.objects("")]
    monkeypatch.setattr(pipeline, "open_store", lambda lake, name: kind(Path(lake, name)))
    states, text = said(pipeline.exclusive(spec.lake, "p"))
    assert states == [("lake", "failure")]
    assert "rivals created the same name" in text
    assert [each.path for each in store.objects("")] == sorted([*before, layout.UNSAFE_STORE])


def test_a_run_refuses_a_store_that_the_doctor_saw_fail(spec, store, monkeypatch):
    """No plan, no entry; readers read on. A round that passes later does not end it, an operator
    who deletes the record does.
    """
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", write)
        list(pipeline.exclusive(spec.lake, "p"))
    before = store.objects("")
    run = Run(spec, KAFKA, dag_id="d", run_id="r", window_date=date(2024, 5, 1))
    with pytest.raises(LakeUnsafe, match="unsafe-store"):
        run.ledger(store)
    with pytest.raises(LakeUnsafe):
        commit(store, 10, 20)
    ledger = Ledger(store, "p")
    with pytest.raises(LakeUnsafe):
        ledger.append(Gap("t", "id-t", 0, 10, 20, "test", by="me"), run="r")
    assert ledger.fold.n == 3
    added = {each.path for each in store.objects("")} - {each.path for each in before}
    assert all(path.startswith((layout.STAGING, "_tidegate/manifests/")) for path in added)
    states, text = said(pipeline.exclusive(spec.lake, "p"))
    assert (states, "failed this test before" in text) == ([("lake", "failure")], True)
    store.delete(layout.UNSAFE_STORE)
    assert said(pipeline.exclusive(spec.lake, "p"))[0] == [("lake", "ok")]
    assert Ledger(store, "p").append(
        Gap("t", "id-t", 0, 10, 20, "test", by="me"), run="r"
    ) == Appended(4)


@pytest.mark.parametrize(("skew", "state"), [(20, "ok"), (300, "warning"), (-7200, "failure")])
def test_clocks_that_differ(store, monkeypatch, skew, state):
    monkeypatch.setattr(LocalStore, "modified", lambda *_: time.time() + skew)
    assert said(pipeline.lake_clock(store))[0] == [("lake clock", state)]


# The broker


@dataclass
class Cluster:
    """A cluster with topic t of one partition, [0, 20), and what may go wrong with it."""

    cluster_id: str = "cluster"
    topic_id: str | None = "id-t"
    marks: Watermarks = MARKS
    kept: int | Exception | None = 24 * HOUR
    old: int | None = 0  # the first offset that is younger than half the retention
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

    def kept_ms(self, topics):
        if isinstance(self.kept, Exception):
            raise self.kept
        return dict.fromkeys(topics, self.kept)

    def offsets_at(self, partitions, _):
        return {"t": dict.fromkeys(partitions["t"], self.old)}

    def survey(self, *_):
        if self.topic_id is None:
            return Survey(self.cluster_id, {}, {})
        identity = TopicIdentity(self.topic_id, {0: 0, 1: 0})
        marks = {0: self.marks, 1: Watermarks(0, 0, 0)}
        return Survey(self.cluster_id, {"t": identity}, {"t": marks})


@pytest.mark.parametrize(
    ("planted", "schedule", "states", "says"),
    [
        ({}, "0 * * * *", ["ok", "ok", "ok"], "kept for 1 day"),
        ({"kept": None}, "0 * * * *", ["ok", "ok", "ok"], "time does not delete"),
        ({"cluster_id": "other"}, "0 * * * *", ["failure"], "'kafka_default' back"),
        ({"topic_id": None}, "0 * * * *", ["ok", "failure"], "create it, grant DESCRIBE"),
        ({"topic_id": "new"}, "0 * * * *", ["ok", "failure"], "tidegate offsets adopt p t"),
        ({"allowed": {"DESCRIBE"}}, "0 * * * *", ["ok", "failure"], "grant READ"),
        ({"kept": HOUR // 2}, "0 * * * *", ["ok", "ok", "failure"], "before a run sees them"),
        ({"kept": 2 * HOUR}, "0 * * * *", ["ok", "ok", "warning"], "three failed runs"),
        ({"kept": 2 * HOUR}, None, ["ok", "ok", "ok"], "kept for 2:00:00"),
        ({"old": 15}, "0 * * * *", ["ok", "ok", "warning"], "past half of it in partitions [0]"),
        ({"old": None}, "0 * * * *", ["ok", "ok", "warning"], "run it now"),
        (
            {"marks": Watermarks(12, 20, 20)}, "0 * * * *",
            ["ok", "ok", "failure", "ok"], "on_expired: skip",
        ),
        (
            {"kept": NotAuthorised("not permitted: DESCRIBE_CONFIGS")}, "0 * * * *",
            ["ok", "ok", "warning"], "grant DESCRIBE_CONFIGS",
        ),
    ],
)  # fmt: skip
def test_the_broker_and_its_topics(spec, store, monkeypatch, planted, schedule, states, says):
    """Healthy, and each fault by its name with the way out."""
    cluster = Cluster(**planted)
    monkeypatch.setattr(pipeline, "Cluster", lambda _: cluster)
    monkeypatch.setattr(pipeline, "survey", cluster.survey)
    spec = spec.model_copy(update={"schedule": schedule})
    found, text = said(pipeline.broker(spec, KAFKA))
    assert [state for _, state in found] == states
    assert says in text


def test_the_longest_time_between_runs():
    """Weekdays only: over the week-end."""
    hours = {"*/10 * * * *": 1 / 6, "@hourly": 1, "0 6 * * mon-fri": 72}
    for schedule, expected in hours.items():
        assert pipeline._interval(schedule).total_seconds() / 3600 == expected
    assert pipeline._interval("every day") is None
    assert pipeline._interval(None) is None


def test_a_broker_that_is_away(spec, store):
    """What its error says, and the way out from the same words."""

    def away():
        raise BrokerUnreachable("no broker answered within 8 s; check that it runs")

    check, *_ = (c for c in pipeline.checks(spec, away, lambda: "") if c.name == "kafka")
    (line,) = examine([check])["checks"]
    assert (line["pipeline"], line["says"]) == ("p", "no broker answered within 8 s")
    assert line["fix"] == "check that it runs"


@pytest.fixture
def egress(tmp_path, monkeypatch):
    """An egress of text files, with one that waits, and a target as a test says it is."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("1")
    (tmp_path / "of").mkdir()
    form = {"name": "e", "kind": "egress", "lake": str(tmp_path / "of"), "settle": 0}
    source = {"path": str(tmp_path / "in"), "format": "text"}
    spec = parse({**form, "source": source, "target": {"topic": "out", "partitions": 3}})
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setattr(pipeline, "Cluster", lambda _: Cluster())
    target_is(monkeypatch)
    return spec


def target_is(monkeypatch, topic_id="id-out", *, compacted=False, cluster="c"):
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
    return Claim("live", "plan", "attempt-of-a-test", process, (file,), {}, (), {"out": {0: 0}})


def sent_to(topic_id):
    return Commit("live", "p", "", 0, "a", "c", {}, {}, Reference("m", ""),
                  (Receipt("out", topic_id, 0, 0, 1, 1, 0),))  # fmt: skip


def test_a_healthy_egress(egress, monkeypatch):
    """Ledger and lake, claims, source, broker, target and Spark; a topic that a run makes is
    healthy too, and is not made.
    """
    found = examine(pipeline.checks(egress, lambda: KAFKA, lambda: "local[2]"))
    assert {each["state"] for each in found["checks"]} == {"ok"}, found["checks"]
    names = [each["check"] for each in found["checks"]]
    assert list(dict.fromkeys(names)) == [
        "ledger", "lake disk", "lake", "lake clock", "claim", "source", "kafka", "target", "spark",
    ]  # fmt: skip
    assert "1 files, 0 offsets wait" in str(found["checks"])
    target_is(monkeypatch, "")
    states, text = said(egress_checks.target(egress, KAFKA))
    assert states == [("target", "ok")]
    assert "the first run makes it, with 2 partitions" in text


@pytest.mark.parametrize(
    ("sender", "state", "says"),
    [
        ({}, "ok", "which is alive: it is being sent"),
        ({"started": -1, "pid": 1}, "warning", "which is dead → `tidegate run e`"),
        ({"host": "elsewhere", "boot": "b"}, "warning", "which cannot be seen from here → wait"),
    ],
)
def test_an_open_claim(egress, sender, state, says):
    """Told with its sender, and with what to do."""
    ledger_of(egress, claimed(**sender))
    states, text = said(egress_checks.claims(egress))
    assert (states, says in text) == ([("claim", state)], True), text


def test_a_source_with_something_excluded_or_none_at_all(egress, tmp_path):
    claim = claimed(started=-1, pid=1)
    ledger_of(egress, claim, Release("plan", claim.attempt, "declare sent", "looked"))
    (tmp_path / "in/b.txt").write_text("other")
    states, text = said(egress_checks.source(egress))
    assert states == [("source", "ok"), ("source", "warning")]
    assert "b.txt: sent before, with other content" in text
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    (tmp_path / "in").rmdir()
    found = examine([c for c in pipeline.checks(egress, lambda: KAFKA, lambda: "")
                     if c.name == "source"])  # fmt: skip
    assert (found["failures"], "cannot be" in found["checks"][0]["says"]) == (1, True)


@pytest.mark.parametrize(
    ("target", "state", "says"),
    [
        ({"topic_id": "other"}, "warning", "recreated, it was id-out, it is other"),
        ({"compacted": True}, "failure", "compacted, and rows of files have no order"),
        ({"cluster": "another"}, "failure", "it is cluster another, what was sent is in c"),
    ],
)
def test_a_target_that_is_not_what_it_should_be(egress, monkeypatch, target, state, says):
    ledger_of(egress, sent_to("id-out"))
    target_is(monkeypatch, **target)
    states, text = said(egress_checks.target(egress, KAFKA))
    assert (states, says in text) == ([("target", state)], True), text


def test_of_an_egress_what_refuses_is_a_failure(egress, monkeypatch):
    """A broker that is away, a topic that is not there or may not be written: each by its check."""

    def away(*_, **__):
        raise BrokerUnreachable("no broker answered; check that it runs")

    def refuses(*_, **__):
        raise NotAuthorised("not permitted: WRITE on out; grant it")

    monkeypatch.setattr(pipeline, "Cluster", away)
    monkeypatch.setattr(egress_checks, "survey_target", refuses)
    found = examine(pipeline.checks(egress, lambda: KAFKA, lambda: "local[2]"))
    failed = {each["check"]: each["fix"] for each in found["checks"] if each["state"] == "failure"}
    assert failed == {"kafka": "check that it runs", "target": "grant it"}


def test_an_egress_on_a_store_that_does_not_own_names(egress, monkeypatch):
    """Its ledger owns numbers, too: two senders could both have a claim."""
    store = LocalStore(Path(egress.lake) / "e")
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", write)
        states, _ = said(pipeline.lake(egress))
    assert ("lake", "failure") in states
    with pytest.raises(LakeUnsafe):
        EgressRun(egress, KAFKA, "d", "r", date(2024, 5, 1)).ledger(store)
    store.delete(layout.UNSAFE_STORE)


# Spark


def test_a_master_that_answers_and_one_that_does_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        masters = f"spark://127.0.0.1:1,127.0.0.1:{port}"
        assert said(pipeline.spark(masters))[0] == [("spark", "ok")]
    states, text = said(pipeline.spark(f"spark://127.0.0.1:{port}"))
    assert (states, "start it" in text) == ([("spark", "failure")], True)
    assert said(pipeline.spark("local[2]"))[0] == [("spark", "ok")]


def test_the_lines_are_json(spec, store):
    """As `doctor --json` prints them."""
    found = examine(pipeline.checks(spec, lambda: KAFKA, lambda: "local[2]")[::2])
    assert json.loads(json.dumps(found))["checks"][-1] == {
        "pipeline": "p", "check": "spark", "state": "ok", "says": "master local[2]", "fix": None,
    }  # fmt: skip
