"""The history of runs in the lake, and the one state that is made of it."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support import ingest_world
from support.ingest_world import World
from support.toy_engine import ToyEngine
from tidegate.core import layout
from tidegate.core.cursor import Watermarks
from tidegate.core.ended_run import EndedRun, RunError
from tidegate.core.requests import Backfill
from tidegate.errors import BrokerUnreachable, JavaMissing, PartitionsLeftOut, WindowRefused
from tidegate.ingest.ingest_run import ingest
from tidegate.lake.store_protocol import Store
from tidegate.runs import history
from tidegate.runs.history import read_history
from tidegate.runs.pipeline_state import (
    DagState,
    Due,
    Judged,
    State,
    judge_backlog,
    judge_runs,
)

NOW = datetime.now(UTC)
OK, LOST = judge_backlog(5, "offset"), Judged(State.LOSING, "expired", 5, "set offsets")
AWAY = Judged(State.UNKNOWN, "no broker answered")
HOURLY = Due(NOW - timedelta(hours=2), NOW - timedelta(hours=1), NOW + timedelta(hours=1))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 30, 30)})


def take(world: World, run_id: str, **given: Any) -> None:
    """Carry out a whole run."""
    ingest(world.run(run_id, engine=ToyEngine(world.submit()), **given))


def ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat(timespec="seconds")


def ended(run: str = "r", *, error: RunError | None = None, **more: Any) -> EndedRun:
    form = {"dag": "d", "began": ago(0.2), "ended": ago(0.1), "lane": "live"}
    return EndedRun(run=run, error=error, **{**form, **more})


def test_each_run_says_how_it_ended(world: World) -> None:
    """With the numbers of its report; one that finds nothing new, and one that fails, too."""
    world.marks = {0: Watermarks(0, 300, 300)}
    take(world, "first", max_chunks=2)
    world.marks = {0: Watermarks(0, 200, 200)}
    take(world, "idle")
    world.away = BrokerUnreachable("no broker answered")
    with pytest.raises(BrokerUnreachable):
        take(world, "red")
    first, idle, red = read_history(world.run("x").store())
    assert (first.run, first.rows, first.lag, first.error) == ("first", 200, 100, None)
    assert first.report == (world.run("first").key, 1)
    assert first.bytes
    assert first.planned
    assert (idle.rows, idle.report, idle.error) == (0, None, None)
    assert first.complete_through is None  # 100 wait
    assert idle.complete_through
    assert red.error == RunError("BrokerUnreachable", "no broker answered", "transient")


def test_a_run_has_one_place(world: World) -> None:
    """A task that is cleared, or a command with the same id, replaces the earlier end."""
    world.marks = {0: Watermarks(0, 10, 10)}
    world.away = BrokerUnreachable("no broker answered")
    with pytest.raises(BrokerUnreachable):
        take(world, "r")
    world.away = None
    take(world, "r")
    (only,) = read_history(world.run("x").store())
    assert (only.error, only.rows) == (None, 10)


def test_the_first_error_of_a_run_stays(world: World) -> None:
    """What failed is the reason; that chunks are missing therefore says the verdict."""
    take(world, "good")
    run = world.run("r")
    cause, then = RunError("StageFailed", "Spark", "transient"), RunError("ChunksMissing", "", "t")
    history.record_end(run, run.store(), None, cause)
    history.record_end(run, run.store(), None, then, checked=False)
    assert read_history(run.store())[-1].error == cause
    history.record_end(run, run.store(), None, then)
    assert read_history(run.store())[-1].error == then


def test_the_newest_are_kept(world: World) -> None:
    run = world.run("r")
    for n in range(history.MOST_RUNS + 5):
        history.record_end(world.run(f"r{n}"), run.store(), None, None)
    runs = read_history(run.store())
    assert [each.run for each in runs] == [f"r{n}" for n in range(5, history.MOST_RUNS + 5)]
    assert len(run.store().names(layout.HISTORY)) == 5


def test_two_runs_that_end_at_once_lose_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one finds that its number is taken, and reads again."""
    run, store = world.run("slow"), world.run("slow").store()
    create, raced = type(store).create, list[str]()

    def racing(this: Store, path: str, data: bytes) -> bool:
        if path.startswith(layout.HISTORY) and not raced:
            raced.append(path)
            history.record_end(world.run("fast"), store, None, None)
        return create(this, path, data)

    monkeypatch.setattr(type(store), "create", racing)
    history.record_end(run, store, None, None)
    assert [each.run for each in read_history(store)] == ["fast", "slow"]


def test_a_damaged_history_is_none(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is a copy of what happened: status and runs go on without it."""
    store = world.run("r").store()
    store.create(layout.history(7), b"{")
    assert read_history(store) == ()
    assert layout.history(7) in caplog.text
    history.record_end(world.run("r"), store, None, None)
    assert [each.run for each in read_history(store)] == ["r"]


def test_an_old_run_that_is_checked_again_is_not_the_newest(world: World) -> None:
    """Its task was cleared: what waited after it waited then."""
    for run_id in ("old", "new"):
        history.record_end(world.run(run_id), None, None, None)
    history.record_end(world.run("old"), None, None, None)
    assert [each.run for each in read_history(world.run("x").store())] == ["old", "new"]


def test_what_is_done_again_changes_nothing(world: World) -> None:
    """A repeated run, and a window that is refused, leave the lake as it was."""
    take(world, "r")
    store = world.run("x").store()
    before = store.names(layout.HISTORY)
    take(world, "r")
    asked = Backfill(topic="t", start="900", end="100")
    with pytest.raises(WindowRefused):
        ingest(world.run("b", asked=asked))
    assert store.names(layout.HISTORY) == before


def test_a_replay_that_is_done_counts_once(world: World) -> None:
    """Another run that asks for it by the same id has moved no row."""
    done = replace(ended("one", lane="replay"), rows=7, report=("key", 1))
    other = replace(done, run="two", dag="by-hand")
    assert history._is_again(done, other)
    assert not history._is_again(done, replace(other, report=("key", 2)))
    assert not history._is_again(ended("one"), ended("two"))  # two that found nothing new


def test_backfills_push_no_regular_run_out(world: World) -> None:
    regular, good = ended("red", error=RED.error), ended("good")
    runs: tuple[EndedRun, ...] = (good, regular)
    for n in range(history.MOST_RUNS + 5):
        runs = history._with(runs, ended(f"b{n}", lane="backfill"), keeps_error=False)
    assert runs[:2] == (good, regular)
    assert len(runs) == history.MOST_RUNS + 2
    assert judge_runs("p", OK, runs).state is State.FAILING


def test_a_newer_history_is_left_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged one is passed over."""
    store = world.run("r").store()
    history.record_end(world.run("r"), store, None, None)
    store.create(layout.history(2), b"{")
    history.record_end(world.run("s"), store, None, None)
    assert [each.run for each in read_history(store)] == ["r", "s"]
    store.create(layout.history(9), b'{"format": 99}')
    history.record_end(world.run("t"), store, None, None)
    assert "not in the history" in caplog.text
    assert store.names(layout.HISTORY)[-1] == f"{9:020d}.json"


def test_an_error_of_opening_is_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    take(world, "good")

    def no_java(*_: object) -> None:
        raise JavaMissing("no java")

    monkeypatch.setattr("tidegate.runs.history.open_run", no_java)
    with pytest.raises(JavaMissing):
        ingest(world.run("bad"))
    assert read_history(world.run("x").store())[-1].error == RunError.of(JavaMissing("no java"))


def test_an_unforeseen_error_is_told_without_its_words() -> None:
    found = RunError.of(RuntimeError("postgres://user:secret@host"))
    assert "secret" not in json.dumps(found.to_json())
    assert RunError.of(PartitionsLeftOut("x" * 5000)).message == "x" * 2000


RED = ended(error=RunError("StageFailed", "Spark", "transient"))
OLD = ended(ended=ago(2.5))
SOON = (NOW + timedelta(minutes=30)).isoformat()
GROWING = [ended(str(n), lag=n) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("now", "runs", "due", "dag", "state"),
    [
        (OK, [], HOURLY, None, State.OK),
        (OK, [ended()], HOURLY, None, State.OK),
        (OK, [ended(), RED], None, None, State.FAILING),
        (LOST, [RED], None, None, State.FAILING),
        (OK, [RED, ended("again")], None, None, State.OK),
        (OK, [ended(), ended("b", error=RED.error, lane="backfill")], None, None, State.OK),
        (OK, [ended(lag=9, expires_at=SOON)], HOURLY, None, State.LOSING),
        (OK, [ended(lag=0, expires_at=SOON)], HOURLY, None, State.OK),
        (LOST, [OLD], HOURLY, None, State.LOSING),
        (AWAY, [OLD], HOURLY, None, State.UNKNOWN),
        (OK, [OLD], HOURLY, None, State.LATE),
        (OK, [OLD], None, None, State.OK),
        (OK, GROWING, None, None, State.LATE),
        (OK, GROWING[1:], None, None, State.OK),
        (OK, [*GROWING, ended("5", lag=4)], None, None, State.OK),
        (OK, [*GROWING, ended("5", lag=5, rows=9)], None, None, State.OK),  # a run takes it
        (judge_backlog(0, "offset"), [ended(lag=9, expires_at=SOON)], HOURLY, None, State.IDLE),
        (OK, [OLD, ended("old", error=RED.error)], HOURLY, None, State.FAILING),
        (OK, [OLD], HOURLY, DagState(True, False), State.PAUSED),
        (OK, [ended()], HOURLY, DagState(False, True), State.RUNNING),
        (OK, [OLD], HOURLY, DagState(False, True), State.RUNNING),  # for more than two intervals
        (
            OK,
            [ended(), ended("x", lane="backfill")],
            None,
            DagState(False, False, "x", NOW),
            State.OK,
        ),
        (OK, [ended()], HOURLY, DagState(False, False, "killed", NOW), State.FAILING),
        (OK, [ended("k")], HOURLY, DagState(False, False, "k", NOW), State.FAILING),  # cleared
        (OK, [ended()], HOURLY, DagState(False, False, "old", NOW - timedelta(1)), State.OK),
    ],
)
def test_the_worst_that_holds_is_the_state(
    now: Judged, runs: list[EndedRun], due: Due | None, dag: DagState | None, state: State
) -> None:
    assert judge_runs("p", now, runs, due, dag).state is state


def test_the_reason_has_a_way_out(world: World) -> None:
    """Of a red run that excluded partitions, it is that of the partitions."""
    failing = judge_runs("p", LOST, [RED])
    assert failing.reason == "run r has failed: StageFailed"
    assert failing.fix == "set offsets"
    late = judge_runs("p", OK, [OLD], HOURLY)
    assert "tidegate run p" in late.fix
    assert re.search(r"2h \d+m", late.reason)
    paused = judge_runs("p", OK, [], HOURLY, DagState(True, False))
    assert "airflow dags unpause tidegate__p" in paused.fix
