"""Premises of a plan that move between planning and the entry."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import ingest_world, staged_attempts
from support.egress_world import (
    World as Egress,
)
from support.egress_world import (
    dies_while_sending,
)
from support.handed_in import TOY
from support.ingest_steps import ingest, plan, publish, stage
from support.ingest_world import World, ranges
from tidegate import flows
from tidegate.core.cluster_answers import TargetSurvey
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Account, Claim, Commit, Decoded, Gap, Origin, Reference, Release
from tidegate.core.fold import Fold
from tidegate.core.judge import Accepted, Refused, judge
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.core.replacement import Replaced
from tidegate.core.requests import Backfill, Replay
from tidegate.egress.egress_run import early_end
from tidegate.egress.release import release_claim
from tidegate.errors import (
    ConfigurationError,
    IdentityChanged,
    SendFailed,
    TidegateError,
)
from tidegate.ingest import status
from tidegate.lake import decodings, plans
from tidegate.lake.footers import arrow_type
from tidegate.lake.plan_work import gather_work
from tidegate.lake.sweeping import sweep
from tidegate.spark.ingest_job import IngestJob
from unit.egress import conftest as egress_fixtures

sending = egress_fixtures.world  # the fixture of the egress tests

INT, TEXT = "a INT", "a STRING"
LAST = {"asked": Backfill("t", (0,), "0", "100")}


# --- a. Decodings ---------------------------------------------------------------------------------


def decode(schema: str, format_: str = "json") -> dict[str, Any]:
    return {"t": {"value": {"format": format_, "schema": schema}}}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Partition 0 begins at 100 for the live lane: what is below it is backfilled."""
    start = {"offsets": {"t": {"0": 100}}}
    marks = {0: Watermarks(0, 150, 150)}
    return ingest_world.make(tmp_path, monkeypatch, marks, start=start, decode=decode(INT))


def typed(world: World) -> Any:
    """Return what stages chunks with the columns of their plan, all null."""
    inner = world.submit()

    def do(job: IngestJob, directory: Path) -> None:
        inner(job, directory)
        added = job.decode["t"].columns if "t" in job.decode else ()
        for chunk in job.chunks:
            for path in Path(chunk.directory).rglob("*.parquet"):
                table = pq.read_table(path, partitioning=None)
                for field in added:
                    nulls = pa.nulls(len(table), arrow_type(field.type))
                    table = table.append_column(field.name, nulls)
                pq.write_table(table, path, compression="zstd", write_page_checksum=True)

    return do


def schemas(world: World) -> set[str]:
    """Return the schemas of the decodings that the ledger has of t."""
    store = world.run("any").store()
    found = decodings._of_topic(store, world.ledger.fold, "t")
    return {str(each.columns[0]) for each in found}


@pytest.fixture
def old(world: World) -> World:
    """A backfill was planned with a wrong schema, the file corrected, and a live run planned. Spark
    finishes the backfill, and then the live run's rows are committed.
    """
    planned = plan(world.run("old", **LAST)).plan
    world.settings["decode"] = decode(TEXT)
    plan(world.run("new"))
    assert stage(world.run("old", **LAST), typed(world)).plan == planned
    stage(world.run("new"), typed(world))
    publish(world.run("new"))
    assert (schemas(world), world.rows) == ({TEXT}, {0: ranges((100, 150))})
    return world


def test_what_is_not_staged_is_planned_anew(world: World) -> None:
    """By today's schema: of an old plan that has no finished attempt nothing can be lost."""
    plan(world.run("old", **LAST))
    world.settings["decode"] = decode(TEXT)
    ingest(world.run("new"), typed(world))
    ingest(world.run("old", **LAST), typed(world))
    assert (schemas(world), world.rows) == ({TEXT}, {0: ranges((0, 150))})
    ingest(world.run("next"), typed(world))


def test_a_commit_does_not_contradict_the_decoding_of_live_rows(old: World) -> None:
    with pytest.raises(TidegateError, match="column a"):
        publish(old.run("old", **LAST))
    assert schemas(old) == {TEXT}


def test_and_so_no_later_plan_is_refused(old: World) -> None:
    """Whoever publishes what an old plan has staged: the run itself, or the next plan."""
    old.marks = {0: Watermarks(0, 160, 160)}
    ingest(old.run("next"), typed(old))
    ingest(old.run("after"), typed(old))  # refused today: both schemas are live
    assert old.rows == {0: ranges((100, 160))}


def test_what_is_refused_is_kept(old: World) -> None:
    """It is finished, and its records may have expired: neither swept nor forgotten."""
    with pytest.raises(TidegateError, match="column a"):
        publish(old.run("old", **LAST))
    store = old.run("any").store()
    planned = plan(old.run("next"))
    assert planned.plan.chunks == ()
    sweep(store, old.ledger, run="sweep", grace=0, abandon_after=0)
    (waits,) = plans.unfinished_ids(store)
    assert gather_work(store, plans.load_plan(store, waits), old.ledger.fold).sealed.keys() == {0}
    assert old.ledger.fold.barred == set()


def test_no_gap_is_recorded_over_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are the only ones there are. By hand they can be given up."""
    settings = {"decode": decode(INT), "on_expired": "skip"}
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 100, 100)}, **settings)
    assert plan(world.run("old")).plan.chunks
    world.settings["decode"] = decode(TEXT)
    world.marks[1], world.leaderless = Watermarks(0, 40, 40), {0}
    assert plan(world.run("new")).plan.chunks == ((OffsetRange("t", 1, 0, 40),),)
    world.leaderless = set()
    stage(world.run("old"), typed(world))
    stage(world.run("new"), typed(world))
    publish(world.run("new"))
    world.marks[0] = Watermarks(100, 120, 120)
    for _ in range(2):
        with pytest.raises(TidegateError, match="column a was STRING and is INT") as refused:
            plan(world.run("next"))
        assert refused.value.kind == "terminal"
        assert (world.ledger.fold.gaps, schemas(world)) == ([], {TEXT})
    world.ledger.skip(Gap("t", ingest_world.TOPIC_ID, 0, 0, 100, "given up", "me"), run="me")
    ingest(world.run("next"), typed(world))
    assert world.rows == {0: ranges((100, 120)), 1: ranges((0, 40))}


def test_the_status_says_why_it_waits(old: World) -> None:
    with pytest.raises(TidegateError, match="column a"):
        publish(old.run("old", **LAST))
    (waits,) = status._unfinished(old.run("any").store(), old.ledger.fold)
    assert (waits.sealed, waits.committed) == (1, 0)
    assert "column a" in str(waits.refused)


def test_it_is_committed_once_no_row_contradicts_it(old: World) -> None:
    """The newer rows are decoded again by the schema of the old plan, all by one commit."""
    old.settings["decode"] = decode(INT)
    again = {"asked": Replay("t", "r", (0,), "100", "150")}
    ingest(old.run("r", **again), typed(old))
    assert schemas(old) == {INT}
    ingest(old.run("old", **LAST), typed(old))
    assert (schemas(old), old.rows) == ({INT}, {0: ranges((0, 150))})
    assert plans.unfinished_ids(old.run("any").store()) == []


def commit(plan_id: str, start: int, end: int, *digests: str, **others: Any) -> Commit:
    decoded = {"t": Decoded(*digests, {})} if digests else None  # type: ignore[call-arg]
    form = {"lane": "live", "topic_ids": {"t": "id-t"}, "cluster_id": "cluster", **others}
    return Commit(
        plan_id=plan_id, plan_sha256="", chunk=0, attempt="x",
        accounts={"t": {0: Account(start, end, end - start, 0)}},
        manifest=Reference("m", ""), decoded=decoded, **form,
    )  # fmt: skip


def folded(*entries: Any) -> Fold:
    fold = Fold()
    for entry in (Origin("t", "id-t", {0: 0}), *entries):
        assert judge(fold, entry) == Accepted(), entry
        fold.apply(entry, "")
    return fold


def test_the_judge_takes_no_decoding_that_was_not_compared() -> None:
    fold = folded(commit("new", 10, 20, "d2"))
    assert judge(fold, commit("old", 0, 10, "d1")) != Accepted()


def test_a_decoding_without_a_row_is_forgotten() -> None:
    """In parts: it is there until the last one is replaced."""
    fold = folded(commit("one", 0, 10, "d1"))
    for plan_id, start, end, left in (("r1", 0, 4, {"d1", "d2"}), ("r2", 4, 10, {"d2"})):
        part = (Replaced(2, OffsetRange("t", 0, start, end)),)
        fold.apply(commit(plan_id, start, end, "d2", lane="replay", replaces=part), "")
        assert fold.decodings["t"].keys() == left


# --- b. Roots of names ----------------------------------------------------------------------------


def put_below(world: Egress, name: str) -> None:
    path = world.home / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1")


def read_from(world: Egress, path: str) -> None:
    world.settings["source"] = {"path": str(world.home / "in" / path), "format": "text"}


@pytest.mark.parametrize("now", ["*/*.csv", "sub/*.csv"])
def test_a_file_is_not_sent_by_two_names(sending: Egress, now: str) -> None:
    put_below(sending, "sub/a.csv")
    read_from(sending, "*/*.csv")
    assert [each.name for each in sending.plan("one").plan.files] == ["sub/a.csv"]
    read_from(sending, "sub/*.csv")
    assert sending.send_and_publish("two")["files"] == ["a.csv"]
    read_from(sending, now)
    with suppress(ConfigurationError):
        sending.send("one")
    assert len(sending.ran) == 1, "the same file was sent twice"
    assert sending.fold.egress.claims == {}


def test_nor_while_another_plan_sends_it(sending: Egress) -> None:
    """Its names say nothing of it: only the root does."""
    put_below(sending, "sub/a.csv")
    read_from(sending, "*/*.csv")
    sending.plan("one")
    read_from(sending, "sub/*.csv")
    with pytest.raises(SendFailed):
        sending.send("two", dies_while_sending)
    read_from(sending, "*/*.csv")
    with suppress(TidegateError):
        sending.send("one")
    assert len({job.plan_id for job in sending.ran}) == 1, "two plans have sent the same file"


A = SourceFile("a.csv", 1, "e1")


def claim(plan_id: str, name: str = "a.csv", **others: Any) -> Claim:
    form = {
        "lane": "live", "attempt": "x", "sender": {}, "topic_ids": {}, "window": (),
        "target": {"t": {0: 7}}, "spark": "4.0",
    }  # fmt: skip
    return Claim(plan_id=plan_id, files=(replace(A, name=name),), **{**form, **others})


@pytest.mark.parametrize("lane", ["live", "resend"])
@pytest.mark.parametrize(
    ("was", "now"), [("file:///in/sub", "file:///in"), ("s3://b", "s3://b/in")]
)
@pytest.mark.parametrize("how", ["sent", "declared", "open"])
def test_the_judge_knows_the_roots(was: str, now: str, how: str, lane: str) -> None:
    ends = {
        "sent": [replace(commit("p1", 0, 0), accounts={}, topic_ids={})],
        "declared": [Release("p1", "x", "declare sent", "looked")],
        "open": [],
    }[how]
    fold = folded(claim("p1", "sub/a.csv", root=was), *ends)
    assert judge(fold, claim("p2", "in/sub/b.csv", root=now, lane=lane)) != Accepted()


# --- c. Columns of the first files ----------------------------------------------------------------


def aside(world: Egress, name: str) -> Path:
    path = world.home / "in" / name
    return path.rename(path.with_name(f".{name}"))


def back(path: Path) -> None:
    path.rename(path.with_name(path.name.removeprefix(".")))


def test_files_have_the_columns_of_the_first_commit(sending: Egress) -> None:
    """Parquet: what a plan says of its columns is known before Spark starts."""
    source = sending.home / "in"
    sending.settings["source"] = {"path": str(source), "format": "parquet"}
    pq.write_table(pa.table({"x": [1]}), source / "a.parquet")
    assert sending.plan("one").plan.columns == (("x", "int64"),)
    away = aside(sending, "a.parquet")
    pq.write_table(pa.table({"y": ["b"]}), source / "b.parquet")
    assert sending.send_and_publish("two")["files"] == ["b.parquet"]
    assert sending.fold.egress.columns == (("y", "string"),)
    back(away)
    with suppress(TidegateError):
        sending.send_and_publish("one")
    assert sending.fold.egress.sent.keys() == {"b.parquet"}
    (left,) = sending.plan("three").plan.left_out
    assert left.file == "a.parquet"


# --- d. Clusters ----------------------------------------------------------------------------------


def test_two_plans_before_the_first_commit() -> None:
    """The first claim decides the columns: another one waits, if its own are others."""
    x, y = (("x", "string"),), (("y", "string"),)
    fold = folded(claim("p1", "a.parquet", columns=x))
    assert isinstance(judge(fold, claim("p2", "b.parquet", columns=y)), Refused)
    assert judge(fold, claim("p2", "b.parquet", columns=x)) == Accepted()
    assert judge(fold, claim("p2", "b.parquet")) == Accepted()


def test_a_ledger_is_of_one_cluster() -> None:
    fold = folded(commit("one", 0, 10))
    assert judge(fold, commit("two", 10, 20, cluster_id="another")) != Accepted()
    # A claim needs the field first.
    assert "cluster_id" in {each.name for each in fields(Claim)}


def test_an_ingest_plan_of_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen and staged before the ledger had a commit; the connection is another one since."""
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 50, 50)})
    opened = plan(world.run("one"))
    assert opened.plan.cluster_id == "cluster"
    store = world.run("any").store()
    staged_attempts.seal(store, opened.plan)
    ledger = world.ledger
    other = commit("p2", 0, 10, cluster_id="another", topic_ids={"t": "id-there"})
    ledger.append(other, run="r")
    with pytest.raises(IdentityChanged):
        publish(world.run("one"))
    assert world.ledger.fold.cluster_id == "another"


def test_an_egress_plan_of_another_cluster(sending: Egress) -> None:
    here, there = sending.target, TargetSurvey("there", sending.target.topics)
    sending.put(a="1")
    sending.target = there
    sending.plan("one")
    away = aside(sending, "a")
    sending.put(b="2")
    sending.target = here
    sending.send_and_publish("two")
    back(away)
    sending.target = there
    with pytest.raises(IdentityChanged):
        sending.send_and_publish("one")
    assert (len(sending.ran), sending.fold.cluster_id) == (1, "cluster")


def test_nor_while_nothing_is_committed(sending: Egress) -> None:
    """What was declared sent is in the first cluster, whose id no commit has."""
    sending.put(a="1")
    with pytest.raises(SendFailed):
        sending.send("one", dies_while_sending)
    release_claim(
        sending.spec,
        flows.store(sending.spec),
        None,
        "declare sent",
        "looked",
        engine=TOY,
        run="me",
    )
    sending.put(b="2")
    sending.target = TargetSurvey("there", sending.target.topics)
    with pytest.raises(IdentityChanged):
        sending.send_and_publish("two")


# --- e. What a run that ended early says ----------------------------------------------------------


@pytest.mark.parametrize("how", ["resend", "declare sent"])
def test_a_released_claim_may_have_sent(sending: Egress, how: Any) -> None:
    sending.put(a="1")
    with pytest.raises(SendFailed):
        sending.send("one", dies_while_sending)
    release_claim(
        sending.spec, flows.store(sending.spec), None, how, "looked", engine=TOY, run="me"
    )
    said = early_end(sending.run("one"))
    assert "nothing" not in said.text, said
    assert said.finished == (how == "declare sent")


# --- f. Settings of a frozen plan -----------------------------------------------------------------


OTHERS = [
    {"decode": decode("a INT, b STRING")},
    {"decode": {}},
    {"partition_by": ["topic"]},
    {"sort_by": ["timestamp"]},
    {"compression": "snappy"},
]


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    marks = {0: Watermarks(0, 150, 150)}
    return ingest_world.make(tmp_path, monkeypatch, marks, decode=decode(INT))


@pytest.mark.parametrize("staged", [False, True], ids=["to stage", "sealed"])
@pytest.mark.parametrize("others", OTHERS, ids=lambda each: "-".join(each))
def test_a_retry_says_what_its_files_do_not_have(
    plain: World, caplog: pytest.LogCaptureFixture, others: Mapping[str, Any], staged: bool
) -> None:
    planned = plan(plain.run("r")).plan
    if staged:
        stage(plain.run("r"), typed(plain))
    plain.settings |= others
    caplog.set_level(logging.WARNING)
    assert plan(plain.run("r")).plan == planned
    assert f"keeps its frozen plan {planned.id}" in caplog.text
    assert next(iter(others)) in caplog.text
