"""Egress runs without a broker and without Spark: what is planned, claimed, released, resumed.

The target is what a test says it is, and the application answers as the real one would; store,
ledger, plans and sources are the real ones. (With both: tests/spark/test_egress.py.)
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import tidegate
from support import staged_attempts
from tidegate.broker.cluster import Cluster, Survey, TopicIdentity
from tidegate.broker.settings import KafkaSettings
from tidegate.broker.target import TargetState, TargetSurvey
from tidegate.core import canonical, layout
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Account, Adoption, Claim, Commit, Gap, Origin, Reference
from tidegate.core.ledger import REPLAY
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.core.requests import Replay
from tidegate.egress import lake_source, replay, sender
from tidegate.egress import plan as planning
from tidegate.egress.backlog import _taken
from tidegate.egress.explain import explain
from tidegate.egress.loops import refuse_loop
from tidegate.egress.publish import publish, verdict
from tidegate.egress.release import declare_late, release
from tidegate.egress.send import Sent, send
from tidegate.egress.status import status
from tidegate.errors import (
    AttemptAbandoned,
    ConfigurationError,
    CursorAhead,
    IdentityChanged,
    LakeDamaged,
    NotClaimed,
    NotSealed,
    PartitionsLeftOut,
    PlanDead,
    ReplayRefused,
    RowsRefused,
    SenderAlive,
    SendFailed,
    SourceChanged,
    SourceRefused,
    StageFailed,
    WindowRefused,
)
from tidegate.lake import deliveries, plans, publishing, timestamps
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore, Store, open_store
from tidegate.maintenance.checkpoint import checkpoint
from tidegate.maintenance.sweep import sweep as swept
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, parse
from tidegate.runs.run import EgressRun
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, SendJob

SENDER = sys.modules[send.__module__]  # the package's `send` is the function
RELEASE = sys.modules[release.__module__]


@dataclass
class World:
    """A source, a ledger, a target; `ran` are the jobs that the application was given."""

    home: Path
    target: TargetSurvey
    alive: set[str] = field(default_factory=set)
    ran: list[SendJob] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Egress:
        form = {
            "name": "out", "kind": "egress", "lake": str(self.home / "lake"), "settle": 0,
            "source": {"path": str(self.home / "in"), "format": "text"}, "target": {"topic": "t"},
        }  # fmt: skip
        spec = parse({**form, **self.settings})
        assert isinstance(spec, Egress)
        return spec

    def put(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.home / "in" / name).write_text(text)

    def run(self, run_id: str = "r", **others: Any) -> EgressRun:
        kafka = KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})
        day = date(2026, 1, 1)
        return EgressRun(self.spec, kafka, "dag", run_id, day, **others)

    def plan(self, run_id: str = "r", **others: Any) -> planning.Planned:
        return planning.plan(self.run(run_id, **others), lambda _: False)

    def send(self, run_id: str = "r", does: Any = None, **others: Any) -> Sent:
        """Run `send` with an application that does this: by default, send all."""
        return send(self.run(run_id, **others), self.app(does or sends), lambda _: False)

    def sends(self, run_id: str = "r", does: Any = None, **others: Any) -> dict[str, Any]:
        """Run all steps with an application that does its work; return the report."""
        self.send(run_id, does, **others)
        return dict(publish(self.run(run_id, **others)).report)

    def app(self, does: "Does") -> Any:
        def submit(given: Any) -> None:
            path = Path(given.args[0])
            job = SendJob.read(path)
            self.ran.append(job)
            does(job, path.parent)

        return submit

    @property
    def fold(self) -> Any:
        run = self.run()
        return run.ledger(run.store()).fold

    def names(self) -> list[str]:
        """Return the files that the last application was given."""
        return [name for name, _ in self.ran[-1].rows.files]


Does = Callable[[SendJob, Path], None]


def sends(job: SendJob, directory: Path) -> None:
    (directory / SENDING).touch()
    done = {
        "files": [{"file": name, "rows": 1, "bad": 0} for name, _ in job.rows.files],
        "receipts": [
            {"topic": t, "partition": p, "before": since, "after": since + 1, "sent": 1,
             "duplicates": 0}
            for t, each in job.target.items() for p, since in each.since.items()
        ],
        "broken_order": [],
        "versions": {},
    }  # fmt: skip
    (directory / DONE).write_text(json.dumps(done))


def dies_before(_: SendJob, __: Path) -> None:
    raise StageFailed("no JVM")


def dies_sending(_: SendJob, directory: Path) -> None:
    (directory / SENDING).touch()
    raise StageFailed("killed")


def refuses(*names: str, sent: bool = False) -> Does:
    def does(_: SendJob, directory: Path) -> None:
        form = {"message": "row 7 is bad", "files": names, "rows": [], "sent": sent}
        (directory / REFUSED).write_text(json.dumps(form))
        raise StageFailed("refused")

    return does


def of_topic(**others: Any) -> TargetSurvey:
    state = TargetState("id-t", {0: 5}, 1_000_000, compacted=False)
    return TargetSurvey("cluster", {"t": replace(state, **others)})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A sender is alive while its attempt is in `alive`; topics are made only if that is asked."""
    world = World(tmp_path, of_topic())
    (tmp_path / "in").mkdir()
    (tmp_path / "pipelines").mkdir()
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "pipelines"))

    def survey(_: Any, names: Any, **__: Any) -> TargetSurvey:
        assert set(names) == {"t"}
        return world.target

    def dead(_: Mapping[str, Any], attempt: str, *__: Any, **___: Any) -> bool:
        return attempt not in world.alive

    monkeypatch.setattr(planning, "survey_target", survey)
    monkeypatch.setattr(planning, "is_dead", dead)
    monkeypatch.setattr(SENDER, "is_dead", dead)
    monkeypatch.setattr(RELEASE, "is_alive", lambda _, attempt: attempt in world.alive)
    return world


# Planning


def test_files_are_taken_up_to_the_limits() -> None:
    """At least one, by name; rows that nobody knows count as none."""
    found = tuple(SourceFile(n, 1, "e", rows) for n, rows in zip("abcd", (5, 5, None, 1), strict=1))
    assert [f.name for f in _taken(found, 10, 100)] == ["a", "b", "c", "d"]
    assert [f.name for f in _taken(found, 2, 100)] == ["a", "b"]
    assert [f.name for f in _taken(found, 10, 10)] == ["a", "b", "c"]
    assert [f.name for f in _taken(found, 10, 9)] == ["a"]
    assert [f.name for f in _taken(found, 10, 1)] == ["a"]
    assert _taken((), 10, 10) == ()


def test_what_was_sent_is_sent_once(world: World) -> None:
    """And what comes later goes with a later run; a finished run that is run again does nothing."""
    world.put(a="1", b="2")
    assert world.sends("one")["files"] == ["a", "b"]
    world.put(c="3")
    assert world.sends("one")["files"] == ["a", "b"]
    assert len(world.ran) == 1
    assert world.sends("two")["files"] == ["c"]
    assert world.sends("three")["commit"] is None
    assert len(world.ran) == 2


def through(world: World, run_id: str, **others: Any) -> str | None:
    """Send, publish, and return what the event of the target's topic tells."""
    world.send(run_id, **others)
    told = publish(world.run(run_id, **others)).asset_event("t")["complete_through"]
    assert told is None or isinstance(told, str)
    return told


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
    told = through(world, "all")
    assert told is not None
    assert before <= datetime.fromisoformat(told) <= datetime.now(UTC)
    assert through(world, "all") == told
    put(c="3", d="4")
    world.settings = {**source, "max_files": 1}
    assert through(world, "one of two") is None
    assert through(world, "the other") is not None
    world.settings = {**source, "settle": 3600}
    put(e="5", f="6")
    os.utime(world.home / "in/e", (0, 0))
    assert through(world, "one has not settled") is None
    world.settings = source
    put(a="other content")
    assert through(world, "one is excluded") is None


def test_complete_through_of_a_lake(world: World) -> None:
    """Null while the lake holds an offset that is not sent, between its spans too."""
    lake_of_t(world, OffsetRange("u", 0, 0, 10), OffsetRange("u", 1, 0, 5), topics=["u"])
    world.settings["source"] = {"lake": "in"}
    assert through(world, "a part", max_records=10) is None
    assert through(world, "the rest", max_records=10) is not None
    staged_more(world, (10, 12), (20, 22))
    assert through(world, "the first span") is None
    assert through(world, "the second span") is not None
    asked = Replay("u", "x", (0,), "0", "5")
    assert through(world, "again", asked=asked) is None


def staged_more(world: World, *spans: tuple[int, int]) -> None:
    """Commit these spans of u-0 to the lake of "in"; what lies between them is skipped."""
    store = LocalStore(world.home / "lakes/in")
    ledger = staged_attempts.ledger_of(store, "in")
    for (_, end), (start, _) in pairwise(spans):
        ledger.append(Gap("u", "id-u", 0, end, start, "expired", "r"), run="r")
    for start, end in spans:
        plan = staged_attempts.plan_of((OffsetRange("u", 0, start, end),), pipeline="in")
        staged_attempts.seal(store, plan)
        publishing.publish_sealed(store, staged_attempts.ledger_of(store, "in"), plan, run="r")


def test_a_sent_name_with_other_content_is_left_out(world: World) -> None:
    """Named by plan and verdict, and sent only by --resend, once."""
    world.put(a="1", b="2")
    world.sends("one")
    world.put(a="other", c="3")
    assert world.sends("two")["files"] == ["c"]
    with pytest.raises(PartitionsLeftOut, match="a: sent before, with other content: --resend"):
        verdict(world.run("two"))
    report = world.sends("again", resend=True)
    assert (report["files"], report["lane"]) == (["a"], REPLAY)
    assert world.sends("again", resend=True) == report
    assert world.sends("more", resend=True)["commit"] is None
    assert not world.plan("four").plan.left_out


def test_a_lake_is_not_sent_again_this_way(world: World) -> None:
    """Its plan would be a replay, which covers nothing: the next run would send it all again."""
    world.settings = {"source": {"lake": "flights"}}
    (world.home / "pipelines/flights.yaml").write_text(
        json.dumps({"name": "flights", "kind": "ingest", "topics": ["f"], "lake": str(world.home)})
    )
    with pytest.raises(ConfigurationError, match="--resend is for files that came back"):
        world.plan(resend=True)


def lake_of_t(world: World, *ranges: OffsetRange, **subscribed: Any) -> LocalStore:
    """Make an ingest pipeline "in" of the topics "t" and "u", whose lake holds these ranges."""
    form = {"name": "in", "kind": "ingest", "lake": str(world.home / "lakes"), **subscribed}
    (world.home / "pipelines/in.yaml").write_text(json.dumps(form))
    store = LocalStore(world.home / "lakes/in")
    plan = staged_attempts.plan_of(tuple(ranges), pipeline="in")
    staged_attempts.seal(store, plan)
    publishing.publish_sealed(store, staged_attempts.ledger_of(store, "in"), plan, run="r")
    world.settings = {
        "source": {"lake": "in", "topics": ["t"]}, "target": {"topic": "t"}, "columns": {},
    }  # fmt: skip
    return store


def test_a_lake_by_pattern_is_sent_and_looped(world: World) -> None:
    """Its topics are those that its ledger knows; one that its pattern would take is a loop."""
    lake_of_t(world, OffsetRange("u", 0, 0, 10), pattern="[a-u]")
    with pytest.raises(ConfigurationError, match="t feeds the lake of 'in'"):
        world.plan()
    world.settings["source"] = {"lake": "in", "topics": ["u"]}
    assert world.plan().plan.chunks == ((OffsetRange("u", 0, 0, 10),),)
    path = {"path": str(world.home / "lakes/in/data"), "format": "parquet"}
    fed = parse({**world.spec.model_dump(), "source": path})
    assert isinstance(fed, Egress)
    with pytest.raises(ConfigurationError, match="t feeds the lake of 'in'"):
        refuse_loop(fed, "cluster")


def test_what_a_lake_holds_of_a_topic_before_it_was_recreated_is_sent_first(world: World) -> None:
    """Under the id that it had: no committed row is forgotten."""
    store = lake_of_t(world, OffsetRange("u", 0, 0, 10), topics=["u"])
    ledger = staged_attempts.ledger_of(store, "in")
    adopts = Adoption("id-u", "recreated", "me")
    ledger.append(Origin("u", "new", {0: 0}, adopts), run="r")
    world.settings["source"] = {"lake": "in"}
    planned = world.plan().plan
    assert (planned.topics, planned.chunks) == ({"u": "id-u"}, ((OffsetRange("u", 0, 0, 10),),))


@pytest.mark.parametrize("how", ["lost", "another"])
def test_a_lake_that_is_not_what_it_was_is_not_sent(world: World, how: str) -> None:
    """Unmounted after it was planned, or another lake there: no row of it passes for invisible."""
    store = lake_of_t(world, OffsetRange("u", 0, 0, 10), topics=["u"])
    world.settings["source"] = {"lake": "in"}
    world.plan()
    store.root.rename(world.home / "aside")
    if how == "another":
        plan = staged_attempts.plan_of((OffsetRange("u", 0, 5, 10),), pipeline="in")
        staged_attempts.seal(store, plan)
        publishing.publish_sealed(store, staged_attempts.ledger_of(store, "in"), plan, run="r")
    with pytest.raises(SourceChanged, match=r"does not hold u-0 \[0, 10\)"):
        world.send()
    assert (world.ran, world.fold.claims) == ([], {})


def test_another_fixed_part_of_the_path_is_refused(world: World) -> None:
    """Files are known by their names below it: under new names all would be sent again."""
    world.settings = {"source": {"path": str(world.home / "in"), "format": "text"}}
    world.put(a="1")
    world.sends("one")
    world.settings["source"]["path"] = str(world.home / "*")
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("two")
    world.settings["source"]["path"] = str(world.home / "in/*")
    assert not world.plan("three").plan.has_work


def test_no_detour_leads_to_another_fixed_part(world: World) -> None:
    """By way of a path elsewhere: every root that files were ever sent from counts, also after a
    checkpoint, and those of claims that an earlier release wrote by the last plan.
    """
    world.settings = {"source": {"path": str(world.home / "in"), "format": "text"}}
    (world.home / "in/sub").mkdir()
    world.put(**{"sub/a": "1"})
    world.sends("one")
    (world.home / "other").mkdir()
    (world.home / "other/b").write_text("2")
    world.settings["source"]["path"] = str(world.home / "other")
    world.sends("two")
    world.settings["source"]["path"] = str(world.home / "in/sub")
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("three")
    assert checkpoint(world.spec)["bytes"]
    with pytest.raises(ConfigurationError, match="what was sent would be sent again"):
        world.plan("three")
    world.settings["source"]["path"] = str(world.home / "in")
    assert not world.plan("four").plan.has_work


@dataclass
class Shown:
    """Variables."""

    texts: dict[str, str] = field(default_factory=dict)

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text


def test_a_ledger_that_was_rolled_back_sends_nothing_again(world: World) -> None:
    """The Variable shows more than the ledger knows: refused; one that is behind is rewritten."""
    shown = Shown()
    world.put(a="1")
    world.sends("one", mirror=shown)
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
    world.target = of_topic(ends={0: 90})
    world.put(a="1")
    world.sends("one")
    world.target = TargetSurvey("cluster", {"t": replace(of_topic().topics["t"], topic_id="new")})
    world.put(b="2")
    world.sends("two")
    shown = Shown({"tidegate__out__t": '{"t":{"0":91}}'})
    world.plan("three", mirror=shown)
    assert shown.texts == {"tidegate__out__t": '{"t":{"0":6}}'}


def test_an_empty_source(world: World) -> None:
    """Refused until there ever was a file: the path may be wrong. Then there is just no news."""
    with pytest.raises(SourceRefused, match="no file matches"):
        world.plan("one")
    world.put(a="1")
    with pytest.raises(RowsRefused):
        world.send("two", refuses("a"))
    (world.home / "in/a").unlink()
    assert not world.plan("three").plan.has_work


def test_a_dry_run_makes_no_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`target.partitions` is for runs; a preview writes nothing anywhere."""
    asked: list[int | None] = []

    def survey(_: Any, __: Any, *, create_with: int | None, make: bool) -> TargetSurvey:
        asked.append(create_with if make else None)
        return world.target

    monkeypatch.setattr(planning, "survey_target", survey)
    world.settings = {"target": {"topic": "t", "partitions": 3}}
    world.put(a="1")
    assert [f.name for f in planning.preview(world.run())[0].files] == ["a"]
    assert not (world.home / "lake").exists()
    world.plan()
    assert asked == [None, 3]


def test_explain_of_a_topic_that_a_run_would_make(world: World) -> None:
    """It is told as it would be made; it has no id, and so the plan has none yet."""
    to_be = TargetState("", {0: 0, 1: 0, 2: 0}, 1_000_000, compacted=False)
    world.target = TargetSurvey("cluster", {"t": to_be})
    world.put(a="1")
    told = explain(world.run())
    assert told["target"] == {"t": {"topic_id": None, "partitions": 3}}
    assert (told["plan_id"], [each["name"] for each in told["files"]]) == (None, ["a"])


@pytest.mark.parametrize(
    ("source", "lake", "loops"),
    [
        ({"lake": "back"}, "/lake", True),
        ({"lake": "back", "topics": ["other"]}, "/lake", False),
        ({"lake": "pattern"}, "/lake", True),
        ({"lake": "pattern", "topics": ["u"]}, "/lake", False),
        ({"path": "/lake/back", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/back/data/**/*.parquet", "format": "parquet"}, "file:///lake/", True),
        ({"path": "/lake", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/*/data/**", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/backs", "format": "parquet"}, "/lake", False),
        ({"path": "/lake/back", "format": "parquet"}, "s3://b/lake", False),
    ],
)
def test_a_loop_is_refused(world: World, source: Any, lake: str, loops: bool) -> None:
    """Into a topic that feeds the source, by its name or by any path to its lake (fault E9)."""
    (world.home / "pipelines/back.yaml").write_text(
        json.dumps({"name": "back", "kind": "ingest", "topics": ["t", "other"], "lake": lake})
    )
    (world.home / "pipelines/broken.yaml").write_text("{")
    (world.home / "pipelines/pattern.yaml").write_text(
        json.dumps({"name": "pattern", "kind": "ingest", "pattern": "t|u", "lake": "/of/patterns"})
    )
    world.settings = {"source": source}
    fed = parse({**world.spec.model_dump(), "source": source})
    assert isinstance(fed, Egress)
    if not loops:
        refuse_loop(fed, "cluster")
        return
    with pytest.raises(ConfigurationError, match=r"t feeds the lake of '(back|pattern)'"):
        refuse_loop(fed, "cluster")


def hops(world: World, **middle: Any) -> None:
    """Make pipelines `in`, which reads u, and `on`, which sends the lake of `back` to u."""
    pipelines = {
        "in": {"kind": "ingest", "topics": ["u"]},
        "back": {"kind": "ingest", "topics": ["t"]},
        "on": {"kind": "egress", "source": {"lake": "back"}, "target": {"topic": "u"}, **middle},
    }
    for name, form in pipelines.items():
        path = world.home / f"pipelines/{name}.yaml"
        path.write_text(json.dumps({"name": name, "lake": str(world.home / "of"), **form}))
    world.settings = {"source": {"lake": "in"}}


def test_a_loop_of_two_hops_is_refused(world: World) -> None:
    """t → the lake of `back` → u → the source: from either egress, with the whole way named."""
    hops(world)
    way = "t feeds the lake of 'back', which 'on' sends to u; it feeds the lake of 'in', which is"
    with pytest.raises(ConfigurationError, match=way):
        world.plan()
    (world.home / "pipelines/out.yaml").write_text(world.spec.model_dump_json(exclude_none=True))
    other = files.load_named("on")
    assert isinstance(other, Egress)
    with pytest.raises(
        ConfigurationError, match="u feeds the lake of 'in', which 'out' sends to t"
    ):
        refuse_loop(other, "cluster")


@pytest.mark.parametrize(
    "middle",
    [
        {"source": {"lake": "back", "topics": ["other"]}},
        {"target": {"topic": "v"}},
        {"target": {"topic": "u", "kafka": "elsewhere"}},
    ],
)
def test_hops_that_lead_elsewhere_are_no_loop(world: World, middle: Any) -> None:
    """Another topic of the lake between, another topic behind it, or one of the same name on a
    connection of which nobody knows that it is the same cluster.
    """
    hops(world, **middle)
    refuse_loop(world.spec, "cluster")


@pytest.mark.parametrize(("cluster", "loops"), [("cluster", True), ("another", False)])
def test_a_hop_is_on_the_cluster_that_its_ledger_tells(
    world: World, cluster: str, loops: bool
) -> None:
    """Where the pipeline between has sent before: by its target's cluster, whatever its name."""
    hops(world, target={"topic": "u", "kafka": "elsewhere"})
    for name, where in (("on", cluster), ("in", "cluster")):
        store = open_store(str(world.home / "of"), name)
        entry = Commit("live", "p", "", 0, "a", where, {}, {}, Reference("m", ""))
        assert isinstance(Ledger(store, name).append(entry, run="r"), Appended)
    if loops:
        with pytest.raises(ConfigurationError, match="without end"):
            refuse_loop(world.spec, "cluster")
    else:
        refuse_loop(world.spec, "cluster")


def unreadable(world: World, lake: str, pipeline: str, how: str) -> None:
    """Make the lake of a pipeline a file, or its ledger's first entry no entry."""
    if how == "away":
        (world.home / lake).write_text("")
    else:
        entry = world.home / lake / pipeline / layout.entry(1)
        entry.parent.mkdir(parents=True)
        entry.write_text("{")


@pytest.mark.parametrize("how", ["away", "corrupt"])
@pytest.mark.parametrize("whose", ["on", "back"])
def test_anothers_ledger_that_cannot_be_read_stops_nothing(
    world: World, caplog: pytest.LogCaptureFixture, how: str, whose: str
) -> None:
    """Of a pipeline that our rows reach: ours are sent, with a warning that names the ledger."""
    hops(world, target={"topic": "elsewhere"}, lake=str(world.home / "of_on"))
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": str(world.home / "of_back")}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    unreadable(world, f"of_{whose}", whose, how)
    world.settings = {}
    world.put(a="1")
    assert world.sends()["files"] == ["a"]
    assert f"the ledger of '{whose}' cannot be read" in caplog.text


@pytest.mark.parametrize("how", ["away", "corrupt"])
@pytest.mark.parametrize("whose", ["on", "back"])
def test_a_loop_is_found_where_a_ledger_cannot_be_read(world: World, how: str, whose: str) -> None:
    """By the names of the connections, which stand for the clusters."""
    hops(world, lake=str(world.home / "of_on"))
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": str(world.home / "of_back")}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    unreadable(world, f"of_{whose}", whose, how)
    with pytest.raises(ConfigurationError, match="without end"):
        refuse_loop(world.spec, "cluster")


def test_anothers_bad_pattern_stops_nothing(world: World) -> None:
    """Neither a source that is none, nor a lake's directory that looks like one."""
    hops(world, source={"path": "/in/[9-0]*", "format": "text"})
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": "/lakes/[9-0]"}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    world.settings = {}
    world.put(a="1")
    assert world.sends()["files"] == ["a"]


# Claims


def test_a_poisoned_file_wedges_nothing(world: World) -> None:
    """The claim is released, the file left out until it changes, the others go with the next."""
    world.put(a="1", b="bad", c="3")
    with pytest.raises(RowsRefused, match=r"row 7 is bad\. Nothing was sent") as refused:
        world.send("one", refuses("b"))
    assert refused.value.numbers["files"] == ["b"]
    assert world.fold.claims == {}
    assert world.sends("one")["files"] == ["a", "c"]
    with pytest.raises(PartitionsLeftOut, match="b: refused for its rows; it has not changed"):
        verdict(world.run("one"))
    assert world.sends("two", resend=True)["files"] == ["b"]  # say, with on_bad_row: quarantine
    assert not world.plan("three").plan.left_out
    world.put(b="good")
    assert world.sends("four", resend=True)["files"] == ["b"]


def test_a_refused_file_is_taken_when_bad_rows_go_into_quarantine(world: World) -> None:
    """As the refusal says: its next run takes it, live. One that is refused all the same is left
    out until it changes, and holds up nothing; back at `fail`, nothing is tried again.
    """
    world.put(a="bad")
    with pytest.raises(RowsRefused):
        world.send("one", refuses("a"))
    world.plan("two")
    with pytest.raises(PartitionsLeftOut, match="or set on_bad_row: quarantine"):
        verdict(world.run("two"))
    world.settings = {"on_bad_row": "quarantine"}
    report = world.sends("three")
    assert (report["files"], report["lane"]) == (["a"], "live")
    world.put(b="cannot be read")
    with pytest.raises(RowsRefused):
        world.send("four", refuses("b"))
    for policy in ("quarantine", "fail"):
        world.settings = {"on_bad_row": policy}
        planned = world.plan(f"five {policy}").plan
        assert not planned.has_work
        assert "b: refused, though bad rows go into quarantine" in str(planned.left_out[0])
    world.put(b="changed since", c="3")
    assert world.sends("six")["files"] == ["b", "c"]


def test_an_application_that_does_not_start_leaves_no_claim(world: World) -> None:
    """The retry claims anew, from the target's ends of then."""
    world.put(a="1")
    with pytest.raises(SendFailed, match="no JVM"):
        world.send(does=dies_before)
    assert world.fold.claims == {}
    world.target = of_topic(ends={0: 9})
    plan = world.plan().plan
    assert world.sends()["receipts"][0]["before"] == 9
    assert plan.id == world.ran[0].plan_id == world.ran[1].plan_id


def test_a_job_that_cannot_be_made_leaves_no_claim(world: World) -> None:
    """No PySpark, say: told as what it is, and the next run is not held up."""
    world.put(a="1")
    refuse = mock.Mock(side_effect=ConfigurationError("PySpark is not installed"))
    with (
        mock.patch("tidegate.egress.send.sending_submission", refuse),
        pytest.raises(ConfigurationError, match="not installed"),
    ):
        world.send("one")
    assert world.fold.claims == {}
    assert world.sends("two")["files"] == ["a"]


def test_what_was_begun_is_finished_from_where_it_was_claimed(world: World) -> None:
    """By the same plan, by a new attempt, looking at all that came since the first claim."""
    world.put(a="1")
    with pytest.raises(SendFailed, match="killed"):
        world.send(does=dies_sending)
    (claim,) = world.fold.claims.values()
    world.target = of_topic(ends={0: 9, 1: 4})
    world.put(b="2")
    assert world.sends()["files"] == ["a"]
    first, second = world.ran
    assert first.plan_id == second.plan_id == claim.plan_id
    assert (dict(first.target["t"].since), dict(second.target["t"].since)) == (
        {0: 5}, {0: 5, 1: 0},
    )  # fmt: skip
    assert first.client_id != second.client_id


def test_a_run_finishes_what_another_began(world: World) -> None:
    """And its own files go with the next run; the first run, tried again, finds all done."""
    world.put(a="1", b="2")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    world.put(c="3")
    assert world.sends("B")["files"] == ["a", "b"]
    report = world.sends("A")
    assert (report["files"], report["commit"], len(world.ran)) == (["a", "b"], 3, 2)
    assert world.sends("C")["files"] == ["c"]


def test_a_run_waits_for_a_sender_that_may_live(world: World) -> None:
    """Nothing is planned, claimed or started; nor does the same run's retry go on."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    (claim,) = world.fold.claims.values()
    world.alive.add(claim.attempt)
    before = world.fold.n
    for run_id in ("A", "B"):
        with pytest.raises(SenderAlive, match="not proven dead"):
            world.send(run_id)
    assert (world.fold.n, len(world.ran)) == (before, 1)


def test_two_runs_find_the_same_dead_sender(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One resumes; the other, who looked at the same moment, is told to wait."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    looked = sender.is_dead

    def dead_but_slow(*_: Any, **__: Any) -> bool:
        monkeypatch.setattr(SENDER, "is_dead", lambda *_, **__: True)
        with pytest.raises(SendFailed):
            world.send("B", dies_sending)  # claims it while we still think
        return True

    monkeypatch.setattr(SENDER, "is_dead", dead_but_slow)
    with pytest.raises(SenderAlive, match="holds the claim"):
        world.send("C")
    assert len(world.ran) == 2
    assert looked is sender.is_dead


def test_two_runs_plan_the_same_files(world: World) -> None:
    """One sends them; the other has no work left, and says so instead of waiting for ever."""
    world.put(a="1", b="2")
    world.plan("slow")
    world.settings = {"max_files": 1}
    assert world.sends("quick")["files"] == ["a"]
    assert world.sends("slow")["files"] == ["b"]


def test_a_refusal_of_a_later_attempt_frees_the_claim_if_a_scan_shows_that_nothing_was_sent(
    world: World,
) -> None:
    """An attempt killed while it looked at the rows must not make its poisoned file stick."""
    world.put(a="1", b="bad")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    with pytest.raises(RowsRefused, match="Nothing more was sent, and the claim stands"):
        world.send("A", refuses("b", sent=True))
    assert world.fold.claims
    with pytest.raises(RowsRefused, match="Nothing was sent"):
        world.send("A", refuses("b", sent=False))
    assert world.fold.claims == {}
    assert world.sends("A")["files"] == ["a"]


def test_a_sleeper_releases_nobody_elses_claim(world: World) -> None:
    """It was taken for dead, and fails before it sends: the claim is another attempt's now."""
    world.put(a="1")

    def sleeps(_: SendJob, __: Path) -> None:
        with pytest.raises(SendFailed):
            world.send("B", dies_sending)
        raise StageFailed("woke, and failed")

    with pytest.raises(SendFailed):
        world.send("A", sleeps)
    (claim,) = world.fold.claims.values()
    assert claim.supersedes is not None
    assert world.sends("B")["files"] == ["a"]


def test_a_sleeper_that_sent_all_is_not_committed(world: World) -> None:
    """Its attempt was superseded; the other one, which has looked, is."""
    world.put(a="1")

    def sleeps(job: SendJob, directory: Path) -> None:
        with pytest.raises(SendFailed):
            world.send("B", dies_sending)
        sends(job, directory)

    world.send("A", sleeps)
    with pytest.raises(NotSealed):
        publish(world.run("A"))
    assert world.sends("B")["commit"] == 4
    assert len(world.ran) == 3


def test_what_is_sealed_is_not_sent_again(world: World) -> None:
    """Killed between seal and commit: whoever comes commits it."""
    world.put(a="1")
    world.send("A")
    assert world.sends("B")["files"] == ["a"]
    assert world.sends("A")["commit"] == 2
    assert len(world.ran) == 1


# Sent again of a lake

SIZE = 1000  # bytes of each file in the lake


@pytest.fixture
def lake(world: World) -> None:
    """What an ingest pipeline `lake` has: [0, 100) and [120, 200) of partition 0 of `src`, [0, 50)
    of partition 1, in files of 20 offsets; and [0, 300) of `src` before it was recreated. The
    pipeline `out` sends it.
    """
    form = {"name": "lake", "kind": "ingest", "topics": ["src"], "lake": str(world.home / "of")}
    (world.home / "pipelines/lake.yaml").write_text(json.dumps(form))
    world.settings = {"source": {"lake": "lake"}}
    _, ledger = of_lake(world)
    ledger.append(Origin("src", "old", {0: 0}), run="r")
    commits(world, "old", 0, 0, 300)
    adopted = Adoption("old", "recreated", "me")
    ledger.append(Origin("src", "new", {0: 0, 1: 0}, adopted), run="r")
    for partition, start, end in ((0, 0, 100), (0, 120, 200), (1, 0, 50)):
        commits(world, "new", partition, start, end)


def of_lake(world: World) -> tuple[Store, Ledger]:
    store = open_store(str(world.home / "of"), "lake")
    return store, Ledger(store, "lake")


def commits(world: World, topic_id: str, partition: int, start: int, end: int) -> None:
    store, ledger = of_lake(world)
    plan = f"{topic_id}-{partition}-{start}"
    files = [
        {"path": f"staged/{plan}/{first}", "size": SIZE, "digest": "", "topic": "src",
         "partition": partition, "first": first, "last": min(first + 20, end) - 1, "rows": 20,
         "final": f"data/{plan}/{first}"}
        for first in range(start, end, 20)
    ]  # fmt: skip
    data = canonical.encode({"format": 1, "files": files})
    store.create(layout.manifest(plan, 0, "a"), data)
    for file in files:
        store.create(str(file["path"]), bytes(SIZE))
    account = Account(start, end, end - start, 0)
    manifest = Reference(layout.manifest(plan, 0, "a"), canonical.digest(data))
    entry = Commit(
        "live", plan, "", 0, "a", "cluster", {"src": topic_id}, {"src": {partition: account}},
        manifest,
    )  # fmt: skip
    assert isinstance(ledger.append(entry, run="r"), Appended)


def asks(start: str | None = "20", end: str | None = "40", **others: Any) -> dict[str, Any]:
    """Return what makes a run a replay."""
    return {"asked": Replay(**{"topic": "src", "id": "x", **others}, start=start, end=end)}


def sends_window(job: SendJob, directory: Path) -> None:
    """Send a row of each partition in the window."""
    sends(job, directory)
    done = json.loads((directory / DONE).read_text())
    done["files"] = [
        {"file": f"{job.rows.topic_ids[r.topic]}/{r.partition}", "rows": 1, "bad": 0}
        for r in job.rows.window
    ]
    (directory / DONE).write_text(json.dumps(done))


@pytest.fixture
def holes(world: World) -> None:
    """The lake of `lake`: [0, 100) of partition 0 of `src`, then nothing, then [120, 200), which
    was committed ahead; its origin is 60. The pipeline `out` sends it.
    """
    form = {"name": "lake", "kind": "ingest", "topics": ["src"], "lake": str(world.home / "of")}
    (world.home / "pipelines/lake.yaml").write_text(json.dumps(form))
    world.settings = {"source": {"lake": "lake"}}
    _, ledger = of_lake(world)
    ledger.append(Origin("src", "id", {0: 60}), run="r")
    for start, end in ((60, 100), (120, 200)):
        commits(world, "id", 0, start, end)


def sent_next(world: World, run_id: str, **others: Any) -> list[str]:
    """Send what waits; return its ranges."""
    world.send(run_id, sends_window, **others)
    publish(world.run(run_id, **others))
    return [str(r) for window in world.plan(run_id).plan.chunks for r in window]


@pytest.mark.usefixtures("holes")
def test_a_lake_is_sent_up_to_its_first_unseen_offset(world: World) -> None:
    """What was committed ahead waits until that offset is covered, or given up by a gap; and the
    status says how much waits.
    """
    assert sent_next(world, "one") == ["src-0 [60, 100)"]
    assert not world.plan("two").plan.has_work
    waiting = status(world.spec)["waiting"]
    assert (waiting["offsets"], waiting["ahead"]) == (0, 80)
    commits(world, "id", 0, 100, 110)
    assert sent_next(world, "three") == ["src-0 [100, 110)"]
    _, ledger = of_lake(world)
    ledger.append(Gap("src", "id", 0, 110, 120, "expired", "me"), run="r")
    assert sent_next(world, "four") == ["src-0 [120, 200)"]
    assert not any(job.rows.late for job in world.ran)


@pytest.mark.usefixtures("holes")
def test_what_comes_below_the_origin_before_anything_was_sent_goes_first(world: World) -> None:
    """A backfill below the origin leaves no unseen offset between; it is early, not late."""
    commits(world, "id", 0, 20, 40)
    assert sent_next(world, "one") == ["src-0 [20, 40)"]
    assert sent_next(world, "two") == ["src-0 [60, 100)"]
    assert not any(job.rows.late for job in world.ran)


@pytest.mark.usefixtures("holes")
def test_what_lies_below_what_was_sent_is_sent_as_late(world: World) -> None:
    """A backfill below the origin, and a gap that was filled later, after what follows them was
    sent: the application gets them by name, to tell where their rows go.
    """
    _, ledger = of_lake(world)
    ledger.append(Gap("src", "id", 0, 100, 120, "expired", "me"), run="r")
    assert sent_next(world, "one") == ["src-0 [60, 100)"]
    assert sent_next(world, "two") == ["src-0 [120, 200)"]
    commits(world, "id", 0, 0, 20)
    commits(world, "id", 0, 100, 120)
    assert sent_next(world, "three") == ["src-0 [0, 20)"]
    assert sent_next(world, "four") == ["src-0 [100, 120)"]
    assert [job.rows.late for job in world.ran] == [(), (), ("id/0",), ("id/0",)]
    world.send("again", sends_window, **asks("0", "20", partitions=(0,)))
    assert world.ran[-1].rows.late == ()  # on purpose


@pytest.mark.parametrize("why", ["strict", "compacted"])
@pytest.mark.usefixtures("holes")
def test_what_lies_below_what_was_sent_is_refused(world: World, why: str) -> None:
    """Where the order must hold, and only the last of a key is kept: it is excluded by name, stops
    nothing else, and is decided about by hand, once.
    """
    if why == "strict":
        world.settings["order"] = "strict"
    else:
        world.target = of_topic(compacted=True)
    assert sent_next(world, "one") == ["src-0 [60, 100)"]
    commits(world, "id", 0, 0, 20)
    commits(world, "id", 0, 100, 120)
    assert sent_next(world, "two") == ["src-0 [100, 200)"]
    with pytest.raises(PartitionsLeftOut, match=r"src-0 \[0, 20\): committed to the lake after"):
        verdict(world.run("two"))
    done = declare_late(world.spec, "not wanted", by="me", run="manual")
    assert done["late"] == [
        {"topic": "src", "topic_id": "id", "partition": 0, "start": 0, "end": 20}
    ]
    assert not world.plan("three").plan.left_out
    assert not world.plan("three").plan.has_work
    with pytest.raises(NotClaimed, match="nothing in its source lies below what was sent"):
        declare_late(world.spec, "once more", by="me", run="manual")


@pytest.mark.usefixtures("holes")
def test_what_is_declared_sent_before_it_is_claimed(world: World) -> None:
    """Planned, and then declared sent by hand: it is not sent, and the run ends."""
    assert sent_next(world, "one") == ["src-0 [60, 100)"]
    commits(world, "id", 0, 0, 20)
    commits(world, "id", 0, 100, 120)
    planned = world.plan("two").plan
    assert [str(r) for r in planned.chunks[0]] == ["src-0 [0, 20)"]
    declare_late(world.spec, "not wanted", by="me", run="manual")
    assert sent_next(world, "two") == ["src-0 [100, 200)"]
    assert len(world.ran) == 2


@pytest.mark.parametrize("how", ["gone", "cut"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.usefixtures("holes")
def test_a_lake_that_lacks_a_file_is_damaged(world: World, how: str, begun: bool) -> None:
    """Said at once, by the file's name, and not retried: Spark would fail on it each time."""
    if begun:
        with pytest.raises(SendFailed):
            world.send("one", dies_sending)
    path = world.home / "of/lake/staged/id-0-60/80"
    path.unlink() if how == "gone" else path.write_bytes(b"cut")
    state = "is missing" if how == "gone" else "has 3 bytes, not 1000"
    with pytest.raises(LakeDamaged, match=rf"/staged/id-0-60/80, a committed file .*{state}"):
        world.send("one", sends_window)
    assert (len(world.ran), len(world.fold.claims)) == (begun, begun)


@pytest.mark.usefixtures("holes")
def test_a_file_that_moves_while_it_is_looked_for_is_found(world: World) -> None:
    """Placed, or replaced, after it was listed: it is listed again, and is not taken for lost."""
    plan = world.plan("one").plan
    listed = lake_source.lake_files(plan)
    looks = [[replace(file, path=f"staged/before/{file.first}") for file in listed], listed]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake_source, "lake_files", lambda _: looks.pop(0))
        found, _ = lake_source.files_and_counts(plan)
    assert [path.rpartition("/of/lake/")[2] for _, path in found] == [f.path for f in listed]


@pytest.mark.usefixtures("holes")
def test_what_becomes_late_before_it_is_claimed(world: World) -> None:
    """Planned as early, overtaken by another run: the claim is given back, and nothing is sent."""
    world.settings["order"] = "strict"
    commits(world, "id", 0, 0, 20)
    early = world.plan("slow").plan
    assert [str(r) for r in early.chunks[0]] == ["src-0 [0, 20)"]
    (world.home / "of/lake/_tidegate/log").rename(world.home / "aside")
    _, ledger = of_lake(world)
    ledger.append(Origin("src", "id", {0: 60}), run="r")
    commits(world, "id", 0, 60, 100)
    assert sent_next(world, "quick") == ["src-0 [60, 100)"]
    (world.home / "of/lake/_tidegate/log").rename(world.home / "of/lake/_tidegate/other")
    (world.home / "aside").rename(world.home / "of/lake/_tidegate/log")
    with pytest.raises(PlanDead, match="later offsets of its partition were sent meanwhile"):
        world.send("slow", sends_window)
    assert (len(world.ran), world.fold.claims) == (1, {})
    assert not world.plan("slow").plan.has_work


@pytest.mark.usefixtures("lake")
def test_a_window_is_sent_again_by_its_id(world: World) -> None:
    """Exactly its ranges, from the files that hold them; what the pipeline's own runs have to send
    is not touched; the same id does nothing, whatever the run; a new one sends once more.
    """
    x = asks(where="key = 'A'")
    report = world.sends("one", does=sends_window, **x)
    assert (report["lane"], report["commit"], report["rows"]) == (REPLAY, 2, 1)
    (job,) = world.ran
    assert {(r.partition, r.start, r.end) for r in job.rows.window} == {(0, 20, 40), (1, 20, 40)}
    assert (job.rows.where, job.rows.topic_ids) == ("key = 'A'", {"src": "new"})
    staged = [path.partition("of/lake/")[2] for _, path in job.rows.files]
    assert staged == ["staged/new-0-0/20", "staged/new-1-0/20"]
    assert world.fold.covered == {}
    assert world.sends("two", **x) == {**report, "run": "two"}
    assert len(world.ran) == 1
    assert world.sends("one", does=sends_window, **asks(where="key = 'A'", id="y"))["commit"] == 4
    first, second = (job.plan_id for job in world.ran)
    assert first != second
    live = world.plan("live").plan
    assert (live.lane, live.records) == ("live", 300)  # of the topic that was, which comes first


@pytest.mark.usefixtures("lake")
def test_a_plan_that_is_sent_again(world: World) -> None:
    """Its exact JSON: `asked` bears the filter, and lacks it where there is none."""
    plan = world.plan(**asks(where="true", partitions=(0,))).plan
    form = plan.to_json()
    asked = {"topic": "src", "partitions": [0], "start": "20", "end": "40", "where": "true"}
    assert form["replay"] == {"id": "x", "asked": asked, "replaces": []}
    assert (form["lane"], form["kind"]) == ("replay", "egress")
    assert form["chunks"] == [{"src": {"0": [20, 40]}}]
    assert form["topics"] == {"src": "new"}
    assert type(plan).from_json(form) == plan
    bare = world.plan(**asks(id="y")).plan
    assert bare.replay is not None
    assert bare.replay["asked"].keys() == {"topic", "partitions", "start", "end"}
    assert bare.where is None


@pytest.mark.usefixtures("lake")
def test_an_id_stands_for_one_window_and_one_filter(world: World) -> None:
    world.plan(**asks(where="true"))
    for other in (asks(), asks(where="false"), asks("10", "31", where="true")):
        with pytest.raises(ReplayRefused, match="replay id 'x' stands for"):
            world.plan(**other)
        with pytest.raises(ReplayRefused, match="replay id 'x' stands for"):
            explain(world.run(**other))


@pytest.mark.parametrize(
    ("asked", "complaints"),
    [
        (
            asks("2026-01-01T00:00:00", "x", id=" ", where=" ", partitions=(0, 7)),
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
            asks("90", "130"),
            [
                "partition 0: [100, 120) is not in the lake as a part of this topic, new, but of "
                "old, which it was before",
                "partition 1: [90, 130) is not in the lake",
            ],
        ),
        (
            asks("30", '{"src": {"0": 20, "1": 40}}'),
            ["partition 0: start 30 is after end 20"],
        ),
        (asks("5", "5"), ["the window is empty"]),
        (asks(None, None), ["start: missing", "end: missing"]),
        (
            asks("0", "10", topic="other"),
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
    for ask in (world.plan, lambda **a: explain(world.run(**a))):
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
            ["the lake has topic new, which is newer in Kafka: what a time means there cannot be "
             "known; give offsets"],
        ),
        (
            None,
            ["the lake has topic new, which is gone in Kafka: what a time means there cannot be "
             "known; give offsets"],
        ),
        (
            "new",
            ["partition 0: [100, 120) is not in the lake as a part of this topic, new, but of old, "
             "which it was before",
             "partition 0: [200, 210) is not in the lake as a part of this topic, new, but of old, "
             "which it was before",
             "partition 2: [0, 7) is not in the lake"],
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("lake")
def test_a_window_by_time_that_cannot_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, topic_id: str | None, complaints: list[str]
) -> None:
    """Kafka says what a moment means, so its topic must be the lake's; a partition that the lake
    has never seen is a part of such a window too. No boundary is frozen.
    """
    marks = {0: Watermarks(0, 210, 210), 1: Watermarks(0, 50, 50), 2: Watermarks(0, 7, 7)}
    identities = {"src": TopicIdentity(topic_id, dict.fromkeys(marks, 0))} if topic_id else {}
    seen = Survey("elsewhere", identities, {"src": marks} if topic_id else {})
    monkeypatch.setattr(replay, "survey", lambda *_: seen)
    answers = cycle([{0: 10, 1: 0, 2: 0}, dict.fromkeys(marks)])
    monkeypatch.setattr(Cluster, "__init__", lambda *_: None)
    monkeypatch.setattr(Cluster, "__exit__", lambda *_: None)
    monkeypatch.setattr(Cluster, "offsets_at", lambda *_: {"src": next(answers)})
    monkeypatch.setattr(timestamps, "_latest", lambda *_: 0)  # its files are names only
    window = {**asks(NOON, ONE), "source_kafka": KafkaSettings("k", {"bootstrap.servers": "s:1"})}
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

    monkeypatch.setattr(planning, "survey_target", survey)
    world.settings |= {"target": {"topic": "t", "partitions": 3}}
    with pytest.raises(WindowRefused):
        world.plan(**asks("90", "130"))
    assert asked == []
    explain(world.run(**asks()))
    world.plan(**asks())
    assert asked == [None, 3]


@pytest.mark.usefixtures("lake")
def test_a_lake_of_a_pattern_is_a_source_too(world: World) -> None:
    """Its topics are those that the ledger knows and the pattern means."""
    path = world.home / "pipelines/lake.yaml"
    form = json.loads(path.read_text())
    del form["topics"]
    path.write_text(json.dumps({**form, "pattern": "s.*"}))
    assert world.plan("live").plan.records == 300
    with pytest.raises(ConfigurationError, match="say which topic"):
        replay.topic_named(world.spec, None)
    assert world.plan(**asks()).plan.records == 40
    world.settings = {"source": {"lake": "lake", "topics": ["else"]}}
    with pytest.raises(ConfigurationError, match="else: not of 'lake'"):
        world.plan("other")


@pytest.mark.parametrize("left", [{"topics": ["new"]}, {"pattern": "n.*"}])
@pytest.mark.usefixtures("holes")
def test_what_a_lake_holds_of_a_topic_that_left_it_is_sent(world: World, left: Any) -> None:
    """The ingest pipeline reads other topics now; its lake still has what it committed, and that is
    sent, by name too, and can be sent again.
    """
    path = world.home / "pipelines/lake.yaml"
    form = json.loads(path.read_text())
    del form["topics"]
    path.write_text(json.dumps({**form, **left}))
    assert [str(r) for r in world.plan("one").plan.chunks[0]] == ["src-0 [60, 100)"]
    world.settings = {"source": {"lake": "lake", "topics": ["src"]}}
    assert sent_next(world, "two") == ["src-0 [60, 100)"]
    assert world.plan(**asks("60", "70")).plan.records == 10


@pytest.mark.usefixtures("holes")
def test_a_topic_that_left_the_source_is_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It was begun, and `source.topics` does not have it any more: what is left of it is not sent,
    which each plan and the status say. A topic that was never begun is nobody's concern.
    """
    world.settings["source"] = {"lake": "lake", "topics": ["src"]}
    assert sent_next(world, "one", max_records=20) == ["src-0 [60, 80)"]
    _, ledger = of_lake(world)
    for topic in ("other", "never"):
        ledger.append(Origin(topic, f"id-{topic}", {0: 0}), run="r")
    world.settings["source"] = {"lake": "lake", "topics": ["other"]}
    assert not world.plan("two").plan.has_work
    assert "src: 100 offsets of the lake are not sent: source.topics has it no more" in caplog.text
    assert "never" not in caplog.text
    assert status(world.spec)["waiting"]["unselected"] == 100


def test_files_are_not_sent_again_by_a_window(world: World) -> None:
    with pytest.raises(ConfigurationError, match="`tidegate run --resend`"):
        world.plan(**asks())
    with pytest.raises(ConfigurationError, match="`tidegate run --resend`"):
        replay.topic_named(world.spec, None)


@pytest.mark.usefixtures("lake")
def test_what_is_asked_for_ends_whatever_it_feeds(world: World) -> None:
    """Back into the topic that the lake is read from: the pipeline's own runs may not."""
    form = json.loads((world.home / "pipelines/lake.yaml").read_text())
    form["topics"] = ["src", "t"]
    (world.home / "pipelines/lake.yaml").write_text(json.dumps(form))
    with pytest.raises(ConfigurationError, match="without end"):
        world.plan("live")
    assert replay.topic_named(world.spec, "src") == "src"
    with pytest.raises(ConfigurationError, match="say which topic, of src, t"):
        replay.topic_named(world.spec, None)
    assert world.plan(**asks()).plan.records == 40


@pytest.mark.usefixtures("lake")
def test_explain_of_a_replay(world: World) -> None:
    """The exact JSON; afterwards it names the entry that did it."""
    asked = asks(where="true", partitions=(0,))
    told = explain(world.run(**asked))
    assert told == {
        "format": 1, "pipeline": "out", "kind": "egress", "lane": "replay",
        "replay": {"id": "x", "where": "true", "done": False, "commit": None},
        "plan_id": world.plan(**asked).plan.id, "finishes_first": None, "files": [],
        "offsets": [{"src": {"0": [20, 40]}}], "records": 20, "bytes": SIZE,
        "later": {"files": 0, "offsets": 0, "young": 0, "ahead": 0}, "left_out": [],
        "target": {"t": {"topic_id": "id-t", "partitions": 1}},
    }  # fmt: skip
    world.sends(does=sends_window, **asked)
    told["replay"] |= {"done": True, "commit": 2}
    assert explain(world.run(**asked)) == told
    live = explain(world.run())
    assert (live["replay"], live["records"], live["bytes"]) == (None, 300, 15 * SIZE)


@pytest.mark.usefixtures("lake")
def test_a_replay_and_the_pipelines_own_runs_leave_each_other_alone(world: World) -> None:
    """A replay that is being sent, or died half-way, is no reason to wait, and is finished by its
    id; nor does it finish, or wait for, what a run of the pipeline began.
    """
    with pytest.raises(SendFailed):
        world.send("one", dies_sending, **asks())
    (claim,) = world.fold.claims.values()
    assert [each["replay"] for each in status(world.spec)["open_claims"]] == ["x"]
    for alive in ({claim.attempt}, set()):
        world.alive = alive
        assert explain(world.run())["finishes_first"] is None
    world.alive = {claim.attempt}
    with pytest.raises(SenderAlive, match="holds the claim"):
        world.send("two", **asks())
    with pytest.raises(SendFailed):
        world.send("live", dies_sending)
    live = next(c for c in world.fold.claims.values() if c.lane == "live")
    assert [each["replay"] for each in status(world.spec)["open_claims"]] == ["x", None]
    world.alive = {live.attempt}
    assert world.sends("two", does=sends_window, **asks())["plan_id"] == claim.plan_id
    with pytest.raises(SenderAlive):
        world.send("other live")
    world.alive = set()
    assert world.sends("other live", does=sends_window)["plan_id"] == live.plan_id
    assert world.fold.claims == {}


@pytest.mark.usefixtures("lake")
def test_a_replay_resumes_where_it_was_claimed(world: World) -> None:
    """By the same plan, whatever the lake has got meanwhile, and with the same filter."""
    asked = asks(where="key is null")
    with pytest.raises(SendFailed):
        world.send("one", dies_sending, **asked)
    world.target = of_topic(ends={0: 9})
    commits(world, "new", 0, 100, 120)
    assert world.sends("two", does=sends_window, **asked)["receipts"][0]["before"] == 5
    first, second = world.ran
    assert first.plan_id == second.plan_id
    assert first.rows == second.rows


@pytest.mark.parametrize(("how", "runs"), [("declare sent", 1), ("resend", 2)])
@pytest.mark.usefixtures("lake")
def test_a_replay_is_released_by_hand(world: World, how: Any, runs: int) -> None:
    """Declared sent, its id does nothing more, and the pipeline's own runs still have all to send;
    released to be resent, its id sends all of it, from the target's ends of then.
    """
    with pytest.raises(SendFailed):
        world.send("one", dies_sending, **asks())
    release(world.spec, None, how, "looked", run="me")
    world.target = of_topic(ends={0: 9})
    report = world.sends("two", does=sends_window, **asks())
    assert len(world.ran) == runs
    assert report["commit"] == (4 if how == "resend" else None)
    assert [r["before"] for r in report["receipts"]] == ([9] if how == "resend" else [])
    told = explain(world.run(**asks()))["replay"]
    assert (told["done"], told["commit"]) == (True, report["commit"])
    assert world.plan("live").plan.records == 300


@pytest.mark.usefixtures("lake")
def test_a_replay_that_was_refused_may_be_corrected(world: World) -> None:
    """Its id has sent nothing, which the release says: another filter under it is its next
    generation, and the one before is then refused. What was sent, or may have been, is not.
    """
    with pytest.raises(RowsRefused):
        world.send("one", refuses(), **asks(where="nosuch = 1"))
    told = explain(world.run(**asks(where="offset < 5")))
    report = world.sends("two", does=sends_window, **asks(where="offset < 5"))
    assert (report["commit"], report["plan_id"], report["generation"]) == (4, told["plan_id"], 2)
    for where in ("nosuch = 1", "offset < 6", None):
        with pytest.raises(ReplayRefused):
            world.send("three", **asks(where=where))
    assert len(world.ran) == 2


@pytest.mark.usefixtures("lake")
def test_a_replay_that_may_have_sent_something_keeps_its_plan(world: World) -> None:
    """Frozen and not yet claimed, claimed, released by hand: another filter is refused."""
    world.plan("one", **asks(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **asks())
    with pytest.raises(SendFailed):
        world.send("one", dies_sending, **asks(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **asks())
    release(world.spec, None, "resend", "looked", run="me")
    with pytest.raises(RowsRefused):
        world.send("one", refuses(), **asks(where="true"))
    with pytest.raises(ReplayRefused):
        world.plan("two", **asks())


# Releases by hand


def test_released_to_be_sent_again(world: World) -> None:
    """As if nothing had been: from the ends of the new claim, the old records do not count."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    world.target = of_topic(ends={0: 9})
    assert release(world.spec, None, "resend", "looked", run="me")["files"] == ["a"]
    assert world.fold.claims == {}
    assert world.sends("A")["receipts"][0]["before"] == 9


def test_a_sender_that_is_alive_is_not_released(world: World) -> None:
    """Provably: its process is seen from here. It would go on sending what somebody else then sends
    again, or be refused its commit. The way out is to end it.
    """
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    (claim,) = world.fold.claims.values()
    world.alive.add(claim.attempt)
    for how in ("resend", "declare sent"):
        with pytest.raises(
            SenderAlive, match=rf"process {os.getpid()} .* is alive: .* end it first"
        ):
            release(world.spec, None, how, "looked", run="me")
    assert world.fold.claims.keys() == {claim.plan_id}
    world.alive.clear()
    assert release(world.spec, None, "resend", "looked", run="me")["files"] == ["a"]


def test_released_as_sent(world: World) -> None:
    """Nobody sends the files again; the run that did ends without a commit."""
    world.put(a="1", b="2")
    world.settings = {"max_files": 1}
    with pytest.raises(SendFailed):
        world.send("A", dies_sending)
    (plan_id,) = world.fold.claims
    release(world.spec, plan_id, "declare sent", "looked", run="me")
    assert world.sends("A")["files"] == ["b"]
    assert world.fold.sent.keys() == {"a", "b"}
    with pytest.raises(NotClaimed, match="has no open claim"):
        release(world.spec, None, "resend", "again", run="me")
    with pytest.raises(NotClaimed, match=f"of plan {plan_id}"):
        release(world.spec, plan_id, "resend", "again", run="me")


def test_a_seal_of_a_released_claim_is_worth_nothing(world: World) -> None:
    """Whoever released it has decided; the sealed attempt is abandoned."""
    world.put(a="1")
    world.send("A")
    sealed = deliveries.sealed(world.run().store(), world.plan("A").plan, world.fold)
    assert sealed is not None
    release(world.spec, None, "resend", "looked", run="me")
    ledger = world.run().ledger(world.run().store())
    plan = plans.latest(world.run("A").store(), world.run("A").key).plan
    outcome = deliveries.commit(world.run().store(), ledger, plan, sealed, run="A")
    assert "abandoned" in str(outcome)
    with pytest.raises((NotSealed, AttemptAbandoned)):
        publish(world.run("A"))


def test_an_attempt_is_sealed_once(world: World) -> None:
    """A second one of other content is somebody else's: its receipts would not be those of the
    first.
    """
    world.put(a="1")
    world.send("A")
    store = world.run().store()
    sealed = deliveries.sealed(store, world.plan("A").plan, world.fold)
    assert sealed is not None
    deliveries.seal(store, sealed)  # the same again: its first answer was lost
    with pytest.raises(LakeDamaged, match="is sealed already, and not by us"):
        deliveries.seal(store, replace(sealed, receipts=()))
    assert deliveries.sealed(store, world.plan("A").plan, world.fold) == sealed


def test_what_losers_have_kept_back_is_swept(world: World) -> None:
    """Bad rows of attempts that died, once another has finished their plan and an hour is over; the
    committed attempt's stay for good, and those of a plan that nobody has finished.
    """
    world.put(a="1")
    world.settings = {"on_bad_row": "quarantine"}

    def keeps(job: SendJob, then: Does, directory: Path) -> None:
        assert job.quarantine is not None
        Path(job.quarantine).mkdir(parents=True)
        Path(job.quarantine, "part-0.parquet").write_text(job.client_id)
        then(job, directory)

    def kept() -> set[str]:
        return {path.read_text() for path in (world.home / "lake").rglob("*/part-0.parquet")}

    with pytest.raises(SendFailed):
        world.send("A", lambda job, directory: keeps(job, dies_sending, directory))
    assert swept(world.spec, run="s")["swept"] == []
    world.send("A", lambda job, directory: keeps(job, sends, directory))
    commit = publish(world.run("A")).report["commit"]
    assert swept(world.spec, run="s")["swept"] == []
    loser, winner = (job.client_id for job in world.ran)
    assert kept() == {loser, winner}
    for path in (world.home / "lake/out/_tidegate/quarantine").rglob("*.parquet"):
        os.utime(path, (1, 1))
    (gone,) = swept(world.spec, run="s")["swept"]
    assert (gone["attempt"], gone["why"], gone["files"]) == (loser[-16:], "lost", 1)
    assert kept() == {winner}
    assert world.fold.live[commit].attempt == winner[-16:]
    assert world.sends("A")["commit"] == commit


# What changes under a run's feet


def test_a_file_that_changed_before_the_claim_is_planned_again(world: World) -> None:
    world.put(a="1", b="2")
    first = world.plan().plan
    world.put(a="longer")
    assert world.sends()["files"] == ["a", "b"]
    assert world.ran[0].plan_id != first.id


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_file_that_changes_while_it_is_sent(world: World, how: str) -> None:
    """Nothing is sealed; the claim stands until the file is back or somebody decides (fault E4)."""
    world.put(a="1", b="2")
    path = world.home / "in/a"
    aside = path.with_name(".a")

    def changes(job: SendJob, directory: Path) -> None:
        path.rename(aside)
        if how == "changed":
            path.write_text("1")
        sends(job, directory)

    with pytest.raises(SourceChanged, match="1 of its files are gone or have changed, a") as seen:
        world.send(does=changes)
    assert seen.value.numbers["files"] == ["a"]
    with pytest.raises(SourceChanged):
        world.send()
    with pytest.raises(NotSealed):
        publish(world.run())
    aside.rename(path)
    assert world.sends()["files"] == ["a", "b"]
    assert len(world.ran) == 2


def test_a_pipeline_that_is_edited_meanwhile_does_not_move_a_claim(world: World) -> None:
    """The files are looked for where they were planned."""
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(does=dies_sending)
    (world.home / "elsewhere").mkdir()
    world.settings = {"source": {"path": str(world.home / "elsewhere"), "format": "json"}}
    assert world.sends()["files"] == ["a"]
    assert world.ran[1].rows == world.ran[0].rows


@pytest.mark.parametrize(
    "now",
    [
        TargetSurvey("cluster", {"t": TargetState("another", {0: 5}, 1, compacted=False)}),
        TargetSurvey("another", {"t": TargetState("id-t", {0: 5}, 1, compacted=False)}),
    ],
)
@pytest.mark.parametrize("begun", [True, False])
def test_another_target_under_the_same_name(world: World, now: Any, begun: bool) -> None:
    """A recreated topic, another cluster: refused at once, also in the middle (req 6.11)."""
    world.put(a="1")
    if begun:
        with pytest.raises(SendFailed):
            world.send(does=dies_sending)
    else:
        world.plan()
    world.target = now
    with pytest.raises(IdentityChanged):
        world.send()
    assert len(world.ran) == begun


def test_rows_without_order_do_not_go_into_a_compacted_topic(world: World) -> None:
    """Which record of a key is the last would be chance. Refused before the claim (req 6.10)."""
    world.target = of_topic(compacted=True)
    world.put(a="1")
    with pytest.raises(ConfigurationError, match=r"t is compacted.* give order_by\. Nothing was"):
        world.send()
    assert (world.fold.n, world.ran) == (0, [])
    world.settings = {"order_by": ["value"], "columns": {"key": "value"}}
    assert world.sends("ordered")["files"] == ["a"]


def test_a_claim_says_who_sends(world: World) -> None:
    """Process, and Airflow's task where there is one; the job has the same attempt in its names."""
    task = {"dag": "d", "run": "r", "task": "send", "try": 2}
    world.put(a="1")
    with pytest.raises(SendFailed):
        world.send(does=dies_sending, task=task)
    (claim,) = world.fold.claims.values()
    assert isinstance(claim, Claim)
    assert (claim.sender["task"], claim.files[0].name) == (task, "a")
    assert not sender.is_dead(claim.sender, claim.attempt, lambda _: False, patience=0)
    assert world.ran[0].client_id == f"tidegate-out-{claim.attempt}"


def test_the_projects_pipelines_are_no_loop() -> None:
    """Whatever this project ships."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIDEGATE_LAKE", "/lake")
        for name in files.names():
            spec = files.load_named(name)
            if isinstance(spec, Egress):
                refuse_loop(spec, "cluster")


def test_two_runs_of_one_plan_race_to_the_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is overtaken just before its claim has nothing to do, and says what was done."""
    world.put(a="1\n")
    world.plan()

    def overtaken(*_: Any) -> None:
        monkeypatch.setattr(SENDER, "_refuse_unordered", lambda *_: None)
        world.sends()

    monkeypatch.setattr(SENDER, "_refuse_unordered", overtaken)
    assert world.send().sending is None
    assert len(world.ran) == 1
    report = publish(world.run()).report
    assert (report["rows"], report["commit"]) == (1, 2)


# The report


def test_what_is_told_and_what_is_kept(world: World) -> None:
    """The XCom, and the whole of it in the lake: receipts, rows of each file, what still waits; the
    first one stays (docs/format.md; req 6.9, 6.24).
    """
    world.settings = {"max_files": 1}
    world.put(a="1\n", b="22\n")
    told = world.sends()
    run = world.run()
    frozen = plans.latest(run.store(), run.key)
    assert frozen
    assert told == {
        "format": 1, "pipeline": "out", "kind": "egress", "run": "r", "run_key": run.key,
        "generation": 1, "plan_id": frozen.plan.id, "lane": "live", "rows": 1, "duplicates": 0,
        "quarantined": 0, "files": ["a"], "commit": 2,
        "receipts": [{"topic": "t", "topic_id": "id-t", "partition": 0, "before": 5, "after": 6,
                      "sent": 1, "duplicates": 0}],
        "broken_order": [], "left_out": [],
    }  # fmt: skip
    path = layout.report(run.key, 1)
    kept = json.loads(run.store().get(path) or b"")
    assert kept.pop("attempt")
    assert kept.pop("planned_at") <= kept.pop("published_at")
    assert kept == {
        **told, "dag": "dag", "window_date": "2026-01-01", "replay": None,
        "target": {"t": {"topic_id": "id-t", "partitions": 1}},
        "versions": {"tidegate": tidegate.__version__},
        "sent": [{"file": "a", "rows": 1, "bad": 0, "digest": None}],
        "source": str(world.home / "in"), "source_problem": None,
        "waiting": {"files": 1, "bytes": 3, "young": 0, "offsets": 0, "ahead": 0,
                    "unselected": 0},
    }  # fmt: skip
    page = Environment(
        loader=FileSystemLoader(Path(tidegate.__file__).parent / "ui"), undefined=StrictUndefined
    )
    page.filters["number"] = str
    whole = {**kept, "attempt": "a", "planned_at": "then", "published_at": "now"}
    assert "1 files" in page.get_template("report_of_egress.html").render(report=whole)
    before = run.store().get(path)
    world.put(c="3\n")
    assert publish(run).report == told
    assert run.store().get(path) == before


def test_a_broken_order_is_told_where_people_look(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger, status, the log of `verdict`, asset event and page, beside report and XCom; each by
    the partition, or the topic, that it is about.
    """

    def breaks(job: SendJob, directory: Path) -> None:
        sends(job, directory)
        done = json.loads((directory / DONE).read_text())
        (directory / DONE).write_text(json.dumps({**done, "broken_order": ["t-0", "u-t-0"]}))

    world.put(a="1\n")
    assert world.sends("one")["broken_order"] == []
    verdict(world.run("one"))
    assert "order" not in caplog.text
    world.put(b="1\n")
    report = world.sends("two", breaks)
    verdict(world.run("two"))
    assert f"out: commit #{report['commit']}: the order is broken in t-0, u-t-0" in caplog.text
    assert publish(world.run("two")).asset_event("t")["broken_order"] == ["t-0"]
    assert publish(world.run("one")).asset_event("t")["broken_order"] == []
    told = status(world.spec)
    assert told["broken_order"] == [{"commit": report["commit"], "where": ["t-0", "u-t-0"]}]
    assert checkpoint(world.spec)["bytes"]
    assert status(world.spec)["broken_order"] == told["broken_order"]
    page = Environment(
        loader=FileSystemLoader(Path(tidegate.__file__).parent / "ui"), undefined=StrictUndefined
    )
    page.filters["number"] = str
    html = page.get_template("status.html").render(pipelines=[told], now=datetime.now(UTC))
    assert f"Commit #{report['commit']}: the order is broken in t-0, u-t-0" in html


def test_a_report_without_its_source(world: World) -> None:
    """What was sent is committed and told, though nobody can say what waits."""
    world.put(a="1\n")
    world.send()
    (world.home / "in/a").unlink()
    (world.home / "in").rmdir()
    run = world.run()
    assert publish(run).report["rows"] == 1
    kept = json.loads(run.store().get(layout.report(run.key, 1)) or b"")
    assert (kept["waiting"], kept["rows"]) == (None, 1)
    assert kept["source_problem"]


def test_nothing_to_send_leaves_no_report(world: World) -> None:
    """A run that had no work, and left nothing out, has no page."""
    world.put(a="1\n")
    world.sends()
    world.sends("later")
    run = world.run("later")
    assert run.store().get(layout.report(run.key, 1)) is None
