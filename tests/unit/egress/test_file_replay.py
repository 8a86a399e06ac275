"""Replays of an egress of files: what was sent is sent again, once for each replay id."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.egress_world import World, dies_while_sending, refuses
from support.handed_in import TOY
from tidegate import flows
from tidegate.core.requests import FileReplay, Replay
from tidegate.egress import replay
from tidegate.egress.explain import explain
from tidegate.egress.release import release_claim
from tidegate.errors import (
    ConfigurationError,
    ReplayRefused,
    RowsRefused,
    SendFailed,
    WindowRefused,
)
from tidegate.pipelines import pipeline_files


def again(*files: str, replay_id: str = "x", **others: Any) -> dict[str, Any]:
    """Return what makes a run a replay of files."""
    return {"asked": FileReplay(replay_id, files, **others)}


@pytest.fixture
def sent(world: World) -> World:
    """Send a1 and a2, then b1; what waits is c1."""
    world.put(a1="1", a2="2")
    world.send_and_publish("one")
    world.put(b1="3")
    world.send_and_publish("two")
    world.put(c1="4")
    return world


def complaints(world: World, *files: str, **others: Any) -> list[str]:
    with pytest.raises(WindowRefused, match="replay of files: nothing was sent") as refused:
        world.plan(**again(*files, **others))
    assert (world.fold.egress.claims, len(world.ran)) == ({}, 2)
    return list(refused.value.numbers["complaints"])


def test_by_names_and_globs(sent: World) -> None:
    """Once for each id, as a commit of its own; the pipeline's own runs send the same as without
    it.
    """
    explained = explain(sent.open(**again("a*"))).to_json()
    assert [each["name"] for each in explained["files"]] == ["a1", "a2"]
    assert explained["later"]["files"] == 0
    report = sent.send_and_publish("again", **again("a*"))
    assert (report["files"], report["lane"], report["commit"]) == (["a1", "a2"], "replay", 6)
    assert sent.send_and_publish("later", **again("a*")) == {**report, "run": "later"}
    assert len(sent.ran) == 3
    assert explain(sent.open(**again("a*"))).to_json()["replay"]["done"]
    other = sent.send_and_publish("other", **again("b1", "a2", replay_id="y"))
    assert other["files"] == ["a2", "b1"]
    assert sent.send_and_publish("three")["files"] == ["c1"]
    with pytest.raises(ReplayRefused, match="stands for files "):
        sent.plan(**again("b1"))


def test_by_when_they_were_sent(sent: World) -> None:
    now = datetime.now(UTC)
    hour_ago, soon = ((now + timedelta(hours=h)).isoformat() for h in (-1, 1))
    files = [each.name for each in sent.plan(**again(start=hour_ago)).plan.files]
    assert files == ["a1", "a2", "b1"]
    files = [each.name for each in sent.plan(**again("b*", replay_id="y", end=soon)).plan.files]
    assert files == ["b1"]
    # What was sent by a replay was not sent then, also if the file's time is another one now.
    os.utime(sent.home / "in/b1", (1, 1))
    sent.send_and_publish("again", **again("b1", replay_id="w"))
    assert sent.plan(**again(replay_id="v", start=hour_ago[:19])).plan.files
    with pytest.raises(WindowRefused, match="no file was sent in this time"):
        sent.plan(**again("b*", replay_id="z", start=soon))
    with pytest.raises(WindowRefused, match="start '12': a date, a time, or -1d, -6h, -30m"):
        sent.plan(**again(replay_id="z", start="12"))


def test_a_name_that_looks_like_a_glob_is_a_name(world: World) -> None:
    for name in ("a[1]", "a1"):
        (world.home / "in" / name).write_text("1")
    world.send_and_publish("one")
    assert [file.name for file in world.plan(**again("a[1]")).plan.files] == ["a[1]"]


def test_a_time_at_which_another_content_was_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent then is not there any more."""
    world.put(a1="1")
    world.send_and_publish("one")
    world.put(a1="other")
    world.send_and_publish("two", resend=True)
    days = lambda _, n: datetime(2026, 1, n, tzinfo=UTC)  # noqa: E731
    monkeypatch.setattr(replay, "written_at", days)
    edges = {"start": "2026-01-02T00:00:00Z", "end": "2026-01-03T00:00:00Z"}
    with pytest.raises(WindowRefused, match="a1 was sent again later, with other content"):
        world.plan(**again(**edges))
    assert world.plan(**again("a1")).plan.files


def test_a_replay_decides_no_columns(world: World) -> None:
    """Not even the first commit, where the files were declared sent."""
    world.settings = {"source": {"path": str(world.home / "in"), "format": "parquet"}}
    (world.home / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": ["1"]}), world.home / "in" / "a")
    with pytest.raises(SendFailed):
        world.send("one", dies_while_sending)
    release_claim(
        world.spec, flows.store(world.spec), None, "declare sent", "looked", engine=TOY, run="me"
    )
    world.send_and_publish("again", **again("a"))
    assert world.fold.egress.columns is None


def test_what_is_not_as_it_was_sent_is_refused(sent: World) -> None:
    """All complaints at once; a file of which only the time differs is as it was."""
    assert complaints(sent) == [
        "give names of files, or globs, `*` for all; or when they were sent"
    ]
    assert complaints(sent, "c1") == ["no file that was sent has the name 'c1'"]
    (sent.home / "in/a1").unlink()
    sent.put(a2="other")
    assert complaints(sent, "*", replay_id="/") == [
        "replay id '/': letters, digits and _.:+-, 128 at most",
        "a1 is gone",
        "a2 has changed since: `tidegate run --resend` sends it",
    ]


def test_a_file_of_another_time_is_as_it_was(sent: World) -> None:
    os.utime(sent.home / "in/b1", (1, 1))
    assert sent.send_and_publish("again", **again("b1"))["files"] == ["b1"]


def test_a_dead_attempt_is_finished_by_its_id(sent: World) -> None:
    """And by no other run; none waits for it."""
    with pytest.raises(SendFailed):
        sent.send("again", dies_while_sending, **again("a*"))
    assert sent.send_and_publish("three")["files"] == ["c1"]
    assert sent.send_and_publish("four", **again("a1", replay_id="y"))["files"] == ["a1"]
    report = sent.send_and_publish("later", **again("a*"))
    assert (report["files"], sent.fold.egress.claims) == (["a1", "a2"], {})


def test_bad_files_refuse_a_replay(sent: World) -> None:
    """By name, with nothing sent: under the same id, the other files can be named."""
    with pytest.raises(RowsRefused, match="name the other files") as refused:
        sent.send("again", refuses("a1"), **again("a*"))
    assert "Nothing was sent" in str(refused.value)
    assert len(sent.ran) == 3
    assert sent.send_and_publish("again", **again("a2"))["files"] == ["a2"]
    assert sent.send_and_publish("three")["files"] == ["c1"]


def test_a_replay_that_was_declared_sent_counts_as_done(sent: World) -> None:
    with pytest.raises(SendFailed):
        sent.send("again", dies_while_sending, **again("a*"))
    release_claim(
        sent.spec, flows.store(sent.spec), None, "declare sent", "looked", engine=TOY, run="me"
    )
    before = dict(sent.fold.egress.sent)
    assert sent.send("again", **again("a*")) is None
    assert sent.fold.egress.sent == before


def test_parquet_has_the_columns_of_the_first_commit(world: World) -> None:
    world.settings = {"source": {"path": str(world.home / "in"), "format": "parquet"}}
    pq.write_table(pa.table({"value": ["1"]}), world.home / "in/a")
    world.send_and_publish("one")
    plan = world.plan(**again("a")).plan
    assert [(file.name, file.rows) for file in plan.files] == [("a", 1)]
    assert plan.columns == (("value", "string"),)


@pytest.mark.parametrize("given", [{"partitions": (0,)}, {"where": "true"}])
def test_what_is_for_lakes_is_refused(world: World, given: dict[str, Any]) -> None:
    whole = {"id": "x", "files": ("a",), "start": None, "end": None, **given}
    with pytest.raises(ConfigurationError, match=f"{next(iter(given))} is for a lake"):
        replay.replay_settings(world.spec, None, pipeline_files, lambda _: world.run().kafka, whole)
    assert Replay.lane == FileReplay.lane
