"""A partition that cannot be read: plan, `status`, doctor, `explain` and the page say the same."""

import time
from pathlib import Path
from unittest import mock

import pytest

from support import ingest_world
from support.ingest_steps import explain, ingest
from support.kafka_answers import answer
from tidegate import flows
from tidegate.core.cursor import Watermarks
from tidegate.core.partition import FIXES, LeftOut, Reason
from tidegate.doctor import pipeline_checks
from tidegate.errors import PartitionsLeftOut
from tidegate.ingest import status
from tidegate.terminal import render_ingest

DOCS = Path(__file__).parents[3] / "docs"
DAY = 86_400_000


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Both partitions of a topic are read up to 100."""
    marks = {0: Watermarks(0, 100, 100), 1: Watermarks(0, 100, 100)}
    world = ingest_world.make(tmp_path, monkeypatch, marks, max_records=1000)
    answer(monkeypatch, open_since=lambda *_: {})
    monkeypatch.setattr(pipeline_checks, "survey", world.survey)
    monkeypatch.setattr(pipeline_checks, "open_since", lambda *_: {})
    cluster = mock.MagicMock(**{"id.return_value": "cluster", "version.return_value": "4.3"})
    cluster.operations.return_value = {}
    cluster.__enter__.return_value = cluster
    cluster.nearest.return_value = ""
    monkeypatch.setattr(pipeline_checks, "Cluster", lambda _: cluster)
    monkeypatch.setattr(pipeline_checks, "read_retentions", lambda *_: {})
    ingest(world.run("one"), world.submit())
    world.marks = {0: Watermarks(0, 200, 200), 1: Watermarks(0, 200, 200)}
    return world


def missing(world):
    world.topic_id = None


def recreated(world):
    world.topic_id = "new"


def leaderless(world):
    world.leaderless = {1}


def vanished(world):
    del world.marks[1]


def truncated(world):
    world.marks[1] = Watermarks(0, 50, 50)


def truncated_and_grown(world):
    world.epoch, world.began = 3, {3: 60}


def expired(world):
    world.marks[1] = Watermarks(150, 200, 200)


def never_seen_and_expired(world):
    world.marks[2] = Watermarks(10, 20, 20)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (missing, "t: no such topic (was id-t)"),
        (recreated, "t: the topic was recreated (was id-t, is new)"),
        (leaderless, "t-1: no leader"),
        (vanished, "t-1: the partition vanished (cursor 100)"),
        (truncated, "t-1: truncated (cursor 100, end 50)"),
        (truncated_and_grown, "t: truncated: partitions [0, 1]"),
        (expired, "t-1: expired: [100, 150), 50 offsets"),
        (never_seen_and_expired, "t-2: expired: [0, 10), 10 offsets"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_one_reason_and_one_fix(world, damage, says, capsys):
    """In the same words, wherever somebody looks."""
    damage(world)
    spec = world.run("any").spec
    read = status.read_ingest_status(spec, flows.store(spec), world.run("any").kafka)
    state = read.to_json()
    problems = [LeftOut.from_json(each) for each in state["problems"]]
    fixes = {each["fix"] for each in state["problems"]}
    (fix,) = fixes
    first = problems[0]
    where = {"pipeline": "p", "topic": "t", "partition": first.partition}
    assert fix == FIXES[first.reason].format_map({**first.numbers, **where})

    render_ingest.print_status(read)
    shown = capsys.readouterr().out
    first_way, *others = fix.split("; ")
    lines = [f"  → {first_way}", *(f"    {way}" for way in others), ""]
    assert all("\n".join((str(each), *lines)) in shown for each in problems)

    explained = explain(world.run("two"))
    assert explained["left_out"] == state["problems"]

    lines = list(pipeline_checks.check_topics(spec, world.run("any").kafka))
    found = [line for line in lines if line.state == "failure"]
    assert [line.says for line in found] == [says]
    assert found[0].fix.startswith(fix)

    with pytest.raises(PartitionsLeftOut) as failed:
        ingest(world.run("two"), world.submit())
    assert all(str(each) in str(failed.value) for each in problems)
    assert fix in str(failed.value)
    left_out = [{k: v for k, v in each.items() if k != "fix"} for each in state["problems"]]
    assert failed.value.numbers["left_out"] == left_out


def test_a_hanging_transaction(world, monkeypatch):
    """What is behind it waits; one that began a minute ago is no problem."""
    world.marks[0] = Watermarks(0, 150, 200)
    now = time.time() * 1000
    for age, expected in ((60_000, []), (DAY, ["t-0: open transaction (offsets 50)"])):
        since = {("t", 0): int(now - age)}
        answer(monkeypatch, open_since=lambda *_, since=since: since)
        monkeypatch.setattr(pipeline_checks, "open_since", lambda *_, since=since: since)
        run = world.run("any")
        state = status.read_ingest_status(run.spec, run.store(), run.kafka).to_json()
        assert [str(LeftOut.from_json(each)) for each in state["problems"]] == expected
        lines = list(pipeline_checks.check_topics(world.run("any").spec, world.run("any").kafka))
        fixes = [line.fix for line in lines if line.check == "transactions" and line.fix]
        assert fixes == [each["fix"] for each in state["problems"]]


def test_a_gap_that_the_next_run_records_is_said_to_be_one(world):
    """By the policy `on_expired: skip`: nobody has to do anything."""
    expired(world)
    world.settings["on_expired"] = "skip"
    run = world.run("any")
    (problem,) = status.read_ingest_status(run.spec, run.store(), run.kafka).to_json()["problems"]
    assert problem["fix"] == "the next run records the gap and goes on"


@pytest.mark.parametrize("page", ["runbook.md", "json.md"])
def test_the_docs_have_a_row_for_each_reason(page):
    """And no other."""
    text = (DOCS / page).read_text()
    table = text[text.index("| Reason |" if page == "runbook.md" else "| `reason` |") :]
    rows = table[: table.index("\n\n")].splitlines()[2:]
    assert {row.split("`")[1] for row in rows} == {*Reason}
