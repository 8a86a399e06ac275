"""What an egress run plans: files up to the limits, and the sources that it refuses."""

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.egress_world import (
    SETTINGS,
    World,
    commit_spans,
    make_lake,
    refuses,
    replay_of,
    sends_window,
    target_of,
)
from support.kafka_answers import answer
from tidegate import flows
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import TargetState, TargetSurvey
from tidegate.core.fold import RESEND
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.core.requests import Replay
from tidegate.egress import planning as planning
from tidegate.egress.backlog import _take
from tidegate.egress.egress_run import egress
from tidegate.egress.explain import explain
from tidegate.egress.publish import publish, verdict
from tidegate.errors import (
    ConfigurationError,
    CursorAhead,
    LakeReadOnly,
    PartitionsLeftOut,
    SourceRefused,
)
from tidegate.lake import sources
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.runs.history import record_end
from tidegate.spark.egress_job import LINE, WHOLE, EgressJob


def test_files_are_taken_up_to_the_limits() -> None:
    """At least one, by name; unknown row counts count as none."""
    found = tuple(SourceFile(n, 1, "e", rows) for n, rows in zip("abcd", (5, 5, None, 1), strict=1))
    assert [f.name for f in _take(found, 10, 100)[0]] == ["a", "b", "c", "d"]
    assert [f.name for f in _take(found, 2, 100)[0]] == ["a", "b"]
    assert [f.name for f in _take(found, 10, 10)[0]] == ["a", "b", "c"]
    assert [f.name for f in _take(found, 10, 9)[0]] == ["a"]
    assert [f.name for f in _take(found, 10, 1)[0]] == ["a"]
    assert _take((), 10, 10) == ([], [])


def test_files_are_sent_once(world: World) -> None:
    """And what comes later goes with a later run; a finished run that is run again does nothing."""
    world.put(a="1", b="2")
    assert world.send_and_publish("one")["files"] == ["a", "b"]
    world.put(c="3")
    assert world.send_and_publish("one")["files"] == ["a", "b"]
    assert len(world.ran) == 1
    assert world.send_and_publish("two")["files"] == ["c"]
    assert world.send_and_publish("three")["commit"] is None
    assert len(world.ran) == 2


@pytest.mark.parametrize(
    ("source", "columns", "expected"),
    [
        ({"format": "json"}, {}, LINE),
        ({"format": "json"}, {"value": "*", "key": "k"}, LINE),
        ({"format": "json"}, {"value": "v"}, "v"),
        ({"format": "json", "columns": "k INT"}, {}, LINE),
        ({"format": "json", "columns": "k INT"}, {"value": "*"}, WHOLE),
        ({"format": "json", "columns": "k INT"}, {"value": "**"}, LINE),
        ({"format": "csv", "columns": "k INT"}, {}, WHOLE),
        ({"format": "text"}, {}, "value"),
    ],
)
def test_the_default_value(
    world: World, source: dict[str, str], columns: dict[str, str], expected: str
) -> None:
    """Of JSON the line as it is, unless `source.columns` gives it columns; the plan says which, so
    that no release finishes the plan of another one with other bytes.
    """
    path = {"path": str(world.home / "in")}
    world.settings = {"source": {**path, **source}, "columns": columns}
    world.put(a="{}")
    frozen = world.plan().plan.byte_settings["columns"]
    others = dict.fromkeys(("key", "headers", "partition", "timestamp"), "null")
    assert frozen == {**others, **columns, "value": expected}


def complete_through(world: World, run_id: str, **others: Any) -> str | None:
    """Send, publish, and return `complete_through` of the asset event."""
    world.send(run_id, **others)
    through = publish(world.open(run_id, **others)).asset_event("t")["complete_through"]
    assert through is None or isinstance(through, str)
    return through


@pytest.mark.parametrize("format_", ["text", "parquet"])
def test_complete_through_of_files(world: World, format_: str) -> None:
    """The time before the source was listed, if all its files are sent; null while one waits. Of
    Parquet too, whose rows are known only of what is taken.
    """
    source = {"source": {"path": str(world.home / "in"), "format": format_}}

    def put(**texts: str) -> None:
        if format_ == "text":
            world.put(**texts)
            return
        for name, text in texts.items():
            pq.write_table(pa.table({"value": [text]}), world.home / "in" / name)

    world.settings = source
    put(a="1", b="2")
    before = datetime.now(UTC).replace(microsecond=0)
    through = complete_through(world, "all")
    assert through is not None
    assert before <= datetime.fromisoformat(through) <= datetime.now(UTC)
    assert complete_through(world, "all") == through
    put(c="3", d="4")
    world.settings = {**source, "max_files": 1}
    assert complete_through(world, "one of two") is None
    assert complete_through(world, "the other") is not None
    world.settings = {**source, "settle": 3600}
    put(e="5", f="6")
    os.utime(world.home / "in/e", (0, 0))
    assert complete_through(world, "one has not settled") is None
    world.settings = source
    put(a="other content")
    assert complete_through(world, "one is excluded") is None


def test_a_run_that_sends_nothing_may_leave_files(world: World) -> None:
    """Its history then says no time until when all is sent: other DAGs start by it."""

    def through(run_id: str) -> str | None:
        world.plan(run_id)
        opened = world.open(run_id)
        ended = record_end(opened.run, opened.store, opened.latest_plan(), None)
        assert ended
        return ended.complete_through

    world.put(a="1")
    world.settings = {"settle": 3600}
    assert through("one waits") is None
    world.settings = {"settle": 0}
    world.send_and_publish("all")
    assert through("nothing waits") is not None


def test_complete_through_of_a_lake(world: World) -> None:
    """Null while the lake holds an offset that is not sent, between its spans too."""
    make_lake(world, OffsetRange("u", 0, 0, 10), OffsetRange("u", 1, 0, 5), topics=["u"])
    world.settings["source"] = {"lake": "in"}
    assert complete_through(world, "a part", max_records=10) is None
    assert complete_through(world, "the rest", max_records=10) is not None
    commit_spans(world, (10, 12), (20, 22))
    assert complete_through(world, "the first span") is None
    assert complete_through(world, "the second span") is not None
    asked = Replay("u", "x", (0,), "0", "5")
    assert complete_through(world, "again", asked=asked) is None


def test_a_sent_name_with_other_content_is_left_out(world: World) -> None:
    """Named by plan and verdict, and sent only by --resend, once."""
    world.put(a="1", b="2")
    world.send_and_publish("one")
    world.put(a="other", c="3")
    assert world.send_and_publish("two")["files"] == ["c"]
    with pytest.raises(PartitionsLeftOut, match="a: sent before, with other content: --resend"):
        verdict(world.open("two"))
    report = world.send_and_publish("again", resend=True)
    assert (report["files"], report["lane"]) == (["a"], RESEND)
    assert world.send_and_publish("again", resend=True) == report
    assert world.send_and_publish("more", resend=True)["commit"] is None
    assert not world.plan("four").plan.left_out


def test_resend_is_refused_for_a_lake(world: World) -> None:
    """Its plan would be a replay, which covers nothing: the next run would send it all again."""
    world.settings = {"source": {"lake": "flights"}}
    (world.home / "pipelines/flights.yaml").write_text(
        json.dumps({"name": "flights", "kind": "ingest", "topics": ["f"], "lake": str(world.home)})
    )
    with pytest.raises(ConfigurationError, match="--resend is for files that came back"):
        world.plan(resend=True)


def test_another_fixed_part_of_the_path_is_refused(world: World) -> None:
    """Files are known by their names below it: under new names all would be sent again."""
    world.settings = {"source": {"path": str(world.home / "in"), "format": "text"}}
    world.put(a="1")
    world.send_and_publish("one")
    world.settings["source"]["path"] = str(world.home / "*")
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("two")
    world.settings["source"]["path"] = str(world.home / "in/*")
    assert not world.plan("three").plan.has_work


def test_every_earlier_root_counts(world: World) -> None:
    """By way of a path elsewhere: every root that files were ever sent from counts, also after a
    checkpoint.
    """
    world.settings = {"source": {"path": str(world.home / "in"), "format": "text"}}
    (world.home / "in/sub").mkdir()
    world.put(**{"sub/a": "1"})
    world.send_and_publish("one")
    (world.home / "other").mkdir()
    (world.home / "other/b").write_text("2")
    world.settings["source"]["path"] = str(world.home / "other")
    world.send_and_publish("two")
    world.settings["source"]["path"] = str(world.home / "in/sub")
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("three")
    assert checkpoint_pipeline(world.spec, flows.store(world.spec)).to_json()["bytes"]
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("three")
    world.settings["source"]["path"] = str(world.home / "in")
    assert not world.plan("four").plan.has_work


@dataclass
class Variables:
    """Variables."""

    texts: dict[str, str] = field(default_factory=dict)

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text


def test_a_ledger_that_was_rolled_back_sends_nothing_again(world: World) -> None:
    """The Variable shows more than the ledger knows: refused; one that is behind is rewritten."""
    shown = Variables()
    world.put(a="1")
    world.send_and_publish("one", mirror=shown)
    assert shown.texts == {"tidegate__out__t": '{"t":{"0":6}}'}
    world.put(b="2")
    (world.home / "lake").rename(world.home / "aside")
    with pytest.raises(CursorAhead, match="what this ledger does not know as sent will be sent"):
        world.plan("two", mirror=shown)
    assert not (world.home / "lake").exists()
    (world.home / "aside").rename(world.home / "lake")
    for text in ("{}", '{"t":{"0":1}}'):
        shown.texts["tidegate__out__t"] = text
        world.plan("two", mirror=shown)
        assert shown.texts == {"tidegate__out__t": '{"t":{"0":6}}'}


def test_a_target_that_was_recreated_is_not_ahead(world: World) -> None:
    """Killed between commit and Variable, which shows an end of the topic that was."""
    world.target = target_of(ends={0: 90})
    world.put(a="1")
    world.send_and_publish("one")
    world.target = TargetSurvey("cluster", {"t": replace(target_of().topics["t"], topic_id="new")})
    world.put(b="2")
    world.send_and_publish("two")
    shown = Variables({"tidegate__out__t": '{"t":{"0":91}}'})
    world.plan("three", mirror=shown)
    assert shown.texts == {"tidegate__out__t": '{"t":{"0":6}}'}


def test_an_empty_source(world: World) -> None:
    """Refused until there ever was a file: the path may be wrong. Then there is just no news."""
    with pytest.raises(SourceRefused, match="no file matches"):
        world.plan("one")
    world.put(a="1")
    world.send("two", refuses("a"))
    (world.home / "in/a").unlink()
    assert not world.plan("three").plan.has_work


def test_a_dry_run_makes_no_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`target.partitions` is for runs; a preview writes nothing anywhere."""
    asked: list[int | None] = []

    def survey(_: Any, __: Any, *, create_with: int | None, make: bool) -> TargetSurvey:
        asked.append(create_with if make else None)
        return world.target

    answer(monkeypatch, survey_target=survey)
    world.settings = {"target": {"topic": "t", "partitions": 3}}
    world.put(a="1")
    assert [f.name for f in planning.preview(world.open())[0].files] == ["a"]
    assert not (world.home / "lake").exists()
    world.plan()
    assert asked == [None, 3]


def test_a_plan_logs_each_notice_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A retry, which finds the plan, and the sending repeat none."""
    world.settings["target"] = {"topic": "t", "options": {"kafka.acks": 1}}
    world.put(a="x\n")
    world.plan()
    told = [each for each in caplog.messages if "target.options: acks: 1: a leader" in each]
    assert len(told) == 1
    world.plan()
    world.send()
    assert [each for each in caplog.messages if "acks: 1: a leader" in each] == told


def test_a_timeout_of_the_connection_that_contradicts_the_pipeline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by plan, explain and send, before a broker is asked: the producer would not start."""
    world.settings["target"] = {"topic": "t", "producer": {"delivery.timeout.ms": 60_000}}
    world.put(a="x\n")
    world.plan()
    extra = {"bootstrap.servers": "nowhere:1", "request.timeout.ms": 60_000}
    monkeypatch.setattr(
        "support.egress_world.KafkaCluster", lambda name, _: KafkaCluster(name, extra)
    )
    for step in (
        world.send,
        lambda: world.plan("other"),
        lambda: explain(world.open("third")),
    ):
        with pytest.raises(
            ConfigurationError,
            match=r"connection 'k' has: target\.producer: delivery\.timeout\.ms: ",
        ):
            step()


def test_explain_shows_settings_with_their_origins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipeline > connection > Tidegate > Kafka; what follows from another value is Tidegate's.

    A value of `spark.conf` that the table does not know may be secret.
    """
    world.settings |= {
        "target": {"topic": "t", "options": {"KAFKA.linger.ms": 5}, "producer": {"acks": 1}},
        "spark": {
            "conf": {
                "spark.kafka.consumer.cache.jmx.enable": True,
                "spark.executorEnv.APP_PIN": "hunter2",
                "spark.sql.catalog.lake.login": "hunter2",
            }
        },
    }
    world.put(a="x\n")
    extra = {"bootstrap.servers": "nowhere:1", "request.timeout.ms": 400_000}
    monkeypatch.setattr(
        "support.egress_world.KafkaCluster", lambda name, _: KafkaCluster(name, extra)
    )
    form = explain(world.open()).to_json()
    assert form["settings"] == {
        **SETTINGS,
        "kafka.acks": {"value": "1", "origin": "pipeline"},
        "kafka.delivery.timeout.ms": {"value": "400005", "origin": "tidegate"},
        "kafka.enable.idempotence": {"value": "false", "origin": "tidegate"},
        "kafka.linger.ms": {"value": "5", "origin": "pipeline"},
        "kafka.request.timeout.ms": {"value": "400000", "origin": "connection"},
        "spark.kafka.consumer.cache.jmx.enable": {"value": "true", "origin": "pipeline"},
        "spark.executorEnv.APP_PIN": {"value": None, "origin": "pipeline"},
        "spark.sql.catalog.lake.login": {"value": None, "origin": "pipeline"},
    }
    assert sorted(each.split(":")[0] for each in form["notices"]) == [
        "spark.conf", "target.producer", "target.producer",
    ]  # fmt: skip
    assert "hunter2" not in repr(form)


@pytest.mark.parametrize(
    ("source", "columns", "proposes"),
    [
        ({"format": "json"}, {"key": "cast(id as string)"}, True),
        ({"format": "json"}, {"value": "**"}, False),
        ({"format": "json", "columns": "id BIGINT"}, {"key": "cast(id as string)"}, False),
        ({"format": "text"}, {"key": "value"}, False),
    ],
)
def test_columns_of_json_are_proposed(
    world: World, source: dict[str, str], columns: dict[str, str], *, proposes: bool
) -> None:
    world.put(a='{"id":1}\n')
    world.settings = {"source": {"path": str(world.home / "in"), **source}, "columns": columns}
    found = [each for each in explain(world.open()).notices if "source.columns" in each]
    assert found == proposes * [
        "source.columns: expressions on JSON need the columns that they name. The first lines "
        "have id BIGINT"
    ]


def test_explain_says_what_only_directories_have(world: World) -> None:
    """Hive's directories: their values are in no row, and so in no record."""
    below = world.home / "in/dt=2026-03-14/region=007"
    below.mkdir(parents=True)
    (below / "a.txt").write_text("x\n")
    world.settings = {"source": {"path": f"{world.home}/in/**/*.txt", "format": "text"}}
    (notice,) = [each for each in explain(world.open()).notices if "directories" in each]
    assert "dt=…, region=…" in notice


def test_options_of_the_source_are_for_the_read_back(world: World) -> None:
    world.settings["target"] = {
        "topic": "t",
        "options": {"kafkaconsumer.polltimeoutms": 90_000, "kafka.linger.ms": 1},
    }
    world.put(a="x\n")
    world.send()
    (job,) = world.ran
    assert job.producer == {"linger.ms": "1"}
    assert job.reading == {"kafkaConsumer.pollTimeoutMs": "90000"}
    assert EgressJob.from_json(job.to_json()) == job


def test_explain_of_a_topic_that_a_run_would_make(world: World) -> None:
    """The topic is described as it would be made; without its id the plan has no id yet."""
    to_be = TargetState("", {0: 0, 1: 0, 2: 0}, 1_000_000, compacted=False)
    world.target = TargetSurvey("cluster", {"t": to_be})
    world.put(a="1")
    explained = explain(world.open()).to_json()
    assert explained["target"] == {"t": {"topic_id": None, "partitions": 3}}
    assert (explained["plan_id"], [each["name"] for each in explained["files"]]) == (None, ["a"])


def test_explain_of_a_ledger_that_cannot_be_written(world: World) -> None:
    """/sys is written by nobody, root included."""
    world.settings = {"lake": "/sys/lake"}
    world.put(a="1")
    with pytest.raises(LakeReadOnly, match="not permitted"):
        explain(world.open()).to_json()


def test_send_takes_the_living_plan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It drafts no plan where the run has one that can be carried out, and lists the source before
    and after the claim, and after Spark.
    """
    world.put(a="1")
    world.plan()
    listing = mock.Mock(side_effect=sources.list_source)
    monkeypatch.setattr(sources, "list_source", listing)
    monkeypatch.setattr("tidegate.egress.send.plan", mock.Mock(side_effect=AssertionError))
    world.send()
    assert listing.call_count == 3


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.usefixtures("lake")
def test_a_run_opens_its_ledger_once(
    world: World, monkeypatch: pytest.MonkeyPatch, replayed: bool
) -> None:
    """For all of its steps; its source lake to plan, to report, and before and after Spark."""
    opened: list[str] = []
    read = Ledger.__init__

    def count(self: Ledger, store: Store, pipeline: str, **how: Any) -> None:
        opened.append(pipeline)
        read(self, store, pipeline, **how)

    monkeypatch.setattr(Ledger, "__init__", count)
    asked = replay_of() if replayed else {}
    engine = world.engine(sends_window)
    assert egress(world.run(engine=engine, **asked)).commit == 2
    assert Counter(opened) == {"out": 1, "lake": 4}


def test_a_resend_of_what_has_not_changed_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """And how a file is sent again as it is."""
    world.put(a="1\n")
    world.send_and_publish("one")
    assert world.plan("again", resend=True).plan.files == ()
    assert "--resend sends files again whose content has changed" in caplog.text
    assert "`tidegate replay` sends one again that is as it was" in caplog.text
