"""Replays of an egress: exactly the rows of a window, in order, once for each replay id."""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from support import topic_records
from support.egress_pipeline import EgressPipeline, begun
from support.handed_in import HERE
from support.ingest_steps import plan
from tidegate import flows
from tidegate.core.requests import Backfill, Replay
from tidegate.egress.explain import explain
from tidegate.egress.verify import verify
from tidegate.errors import (
    ReplayRefused,
    RowsRefused,
    SendFailed,
    StageFailed,
    WindowRefused,
)
from tidegate.lake.boundary_files import neighbouring_boundaries
from tidegate.lake.store import open_store
from tidegate.pipelines.pipeline_files import load_ingest
from tidegate.runs.run import Run, open_run
from tidegate.spark import readback
from tidegate.spark.egress_job import EgressJob

ROWS = 300  # in each of two partitions; row n has key k<n % 3>, and as value its offset
KEY = "cast(key as string) = 'k1'"


@pytest.fixture
def source(pipeline: EgressPipeline, topic: str) -> str:
    """Create and ingest a topic, in files of 100 offsets, and a target; return the topic."""
    name, back = f"{topic}-source", f"{topic}-back"
    topic_records.create(pipeline.bootstrap, name, partitions=2)
    topic_records.create(pipeline.bootstrap, back, partitions=2)
    fill(pipeline, name, range(ROWS))
    pipeline.settings |= {"source": {"lake": "lake"}, "target": {"topic": back}}
    pipeline.run_ingest(name, "one", max_records=200)
    return name


def fill(pipeline: EgressPipeline, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    for n in numbers:
        for p in (0, 1):
            value = b"poison" if n == 0 else b"%d" % n
            producer.produce(topic, value, b"k%d" % (n % 3), p)
    producer.flush()


def replay_settings(
    pipeline: EgressPipeline, source: str, start: object, end: object, **others: Any
) -> dict[str, Any]:
    """Return the settings of a replay; an edge is an offset, offsets by partition, or a text."""

    def edge(given: object) -> str:
        return json.dumps({source: given}) if isinstance(given, dict) else str(given)

    asked = Replay(source, **{"id": "x", "start": edge(start), "end": edge(end), **others})
    return {"asked": asked, "source_kafka": pipeline.kafka}


def target(pipeline: EgressPipeline) -> str:
    return str(pipeline.settings["target"]["topic"])


def offsets(pipeline: EgressPipeline, report: dict[str, Any], partition: int) -> list[int]:
    """Check a plan's records in a partition of the target; return their row numbers in order."""
    found = [
        each
        for each in pipeline.records(target(pipeline))
        if each.partition == partition and each.plan == report["plan_id"]
    ]
    for each in found:
        _, n = each.row
        assert (each.key, each.value) == (b"k%d" % (n % 3), b"%d" % n if n else b"poison")
        assert each.row[0] == partition  # one topic, all its partitions
    return [each.row[1] for each in found]


def matching(start: int, end: int) -> list[int]:
    return [n for n in range(start, end) if n % 3 == 1]


def test_exactly_the_window_and_the_filter(pipeline: EgressPipeline, source: str) -> None:
    """Edges are within files and differ by partition; live runs are not affected; the same id sends
    nothing, a new id sends the window again.
    """
    live = pipeline.run_all("live")
    assert live["rows"] == 2 * ROWS
    fill(pipeline, source, range(ROWS, ROWS + 30))
    pipeline.run_ingest(source, "two", max_records=200)
    x = replay_settings(pipeline, source, {"0": 37, "1": 0}, {"0": 250, "1": 310}, where=KEY)
    explained = explain(open_run(pipeline.run("r", **x))).to_json()
    assert (explained["records"], explained["replay"]["commit"]) == (213 + 310, None)
    report = pipeline.run_all("again", **x)
    assert (report["lane"], report["plan_id"]) == ("replay", explained["plan_id"])
    assert offsets(pipeline, report, 0) == matching(37, 250)
    assert offsets(pipeline, report, 1) == matching(0, 310)
    assert report["rows"] == len(matching(37, 250)) + len(matching(0, 310))
    assert {r["partition"]: r["sent"] for r in report["receipts"]} == {0: 71, 1: 103}
    ends = pipeline.ends(target(pipeline))
    assert pipeline.run_all("later", **x) == {**report, "run": "later"}
    assert pipeline.ends(target(pipeline)) == ends
    more = pipeline.run_all("live 2")
    assert [offsets(pipeline, more, p) for p in (0, 1)] == [list(range(ROWS, ROWS + 30))] * 2
    none = pipeline.run_all(
        "again", **replay_settings(pipeline, source, 0, 50, id="z", where="key is null")
    )
    assert (none["rows"], none["commit"] is None) == (0, False)
    assert sum(pipeline.ends(target(pipeline)).values()) == 2 * ROWS + 174 + 60
    assert verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, print).differences == 0


def send_and_die(
    pipeline: EgressPipeline, source: str, numbers: Sequence[Sequence[int]]
) -> Callable[[Any], None]:
    """Return a submit function that sends these rows of each partition and fails."""

    def submit(given: EgressJob, _: Path) -> None:
        job = begun(given)
        producer = Producer({"bootstrap.servers": pipeline.bootstrap})
        for p, rows in enumerate(numbers):
            for n in rows:
                index = job.source.names.index(f"{job.source.topic_ids[source]}/{p}")
                headers = [("tidegate", f"{job.plan_id}:{index}:{n}:0".encode())]
                producer.produce(target(pipeline), b"%d" % n, b"k%d" % (n % 3), p, headers=headers)
        producer.flush()
        raise StageFailed("killed")

    return submit


@pytest.mark.slow
def test_a_dead_attempt_is_resumed_with_its_filter(pipeline: EgressPipeline, source: str) -> None:
    """Sent rows are recognised by their offsets, and the rest is sent in order. A live run in
    between does not finish the replay.
    """
    x = replay_settings(pipeline, source, 10, 200, where=KEY)
    first = matching(10, 90), matching(10, 200)
    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=send_and_die(pipeline, source, first), **x)
    live = pipeline.run_all("live")
    assert (live["lane"], live["rows"]) == ("live", 2 * ROWS)
    report = pipeline.run_all("two", **x)
    assert (report["duplicates"], report["broken_order"]) == (0, [])
    assert [offsets(pipeline, report, p) for p in (0, 1)] == [matching(10, 200)] * 2
    assert report["rows"] == 2 * len(matching(10, 200))
    assert pipeline.fold().egress.claims == {}
    assert verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, print).differences == 0


@pytest.mark.slow
def test_a_record_outside_the_filter_fails_the_read_back(
    pipeline: EgressPipeline, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with the plan's id that its filter excludes is not accepted."""
    monkeypatch.setattr(readback, "WAIT", 0.1)
    x = replay_settings(pipeline, source, 10, 40, where=KEY)
    wrong = [*matching(10, 20), 20], []
    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=send_and_die(pipeline, source, wrong), **x)
    with pytest.raises(SendFailed):
        pipeline.run_all("two", **x)
    assert len(pipeline.fold().egress.claims) == 1


NONE = (
    ("nosuch = 1", "nosuch"),
    ("offset =", "PARSE_SYNTAX_ERROR"),
    ("offset", "BOOLEAN"),
    (
        "cast(kee as string) = 'c2'",
        "where: there is no column `kee`; did you mean 'key'\\? The col",
    ),
    ("rand() < 0.5", "where: .*would be another one each time"),
    ("timestamp < current_timestamp()", "where: .*would be another one each time"),
    ("timestamp < timestamp'now'", "where: timestamp'now.*would be another one each time"),
    ("timestamp < 'today'", "where: .*would be another one each time"),
    ("count(*) > 1", "where: function count is not allowed"),
    ("offset in (select 1)", "PARSE_|where: .*is not allowed"),
    ("exists(select 1)", "where: Exists is not allowed"),
    ("java_method('java.lang.System', 'getenv', 'HOME') = ''", "where: function java_method is"),
    # No variable of a process is in an expression, nor, by a message, in a log.
    ("`${env:HOME}` = 1", r"where: there is no column `\$\{env:HOME\}`"),
    ("`${system:user.home}` = 1", r"where: there is no column `\$\{system:user.home\}`"),
    ("cast(cast(value as string) as int) > 5", "an expression of where, `columns` or order_by"),
)


def test_an_invalid_filter_is_refused(pipeline: EgressPipeline, source: str) -> None:
    """Refused before the first record; the claim is released and nothing is sent. The replay id can
    be used with a valid filter, and then belongs to that replay.
    """
    for n, (where, message) in enumerate(NONE):
        with pytest.raises(RowsRefused, match=rf"(?s){message}.*Nothing was sent") as refused:
            pipeline.run_all(
                "one", **replay_settings(pipeline, source, 0, 50, id=f"n{n}", where=where)
            )
        assert "from_json" not in str(refused.value)  # only the requested expression is quoted
        assert pipeline.fold().egress.claims == {}
        assert pipeline.entries()[-1]["how"] == "nothing sent"
    assert pipeline.ends(target(pipeline)) == {0: 0, 1: 0}
    report = pipeline.run_all("one", **replay_settings(pipeline, source, 0, 50, id="n0", where=KEY))
    assert [offsets(pipeline, report, p) for p in (0, 1)] == [matching(0, 50)] * 2
    with pytest.raises(ReplayRefused):
        pipeline.run_all(
            "one", **replay_settings(pipeline, source, 0, 50, id="n0", where="offset < 7")
        )


def test_rows_outside_window_and_filter_are_ignored(pipeline: EgressPipeline, source: str) -> None:
    """A filter is not evaluated on rows outside the window, nor a column on rows that the filter
    excludes.
    """
    number = "cast(cast(value as string) as int)"
    report = pipeline.run_all(
        "one", **replay_settings(pipeline, source, 1, 50, where=f"{number} >= 40")
    )
    assert [offsets(pipeline, report, p) for p in (0, 1)] == [list(range(40, 50))] * 2
    pipeline.settings |= {"columns": {"value": f"cast({number} as string)"}}
    with pytest.raises(RowsRefused, match="`columns` or order_by"):
        pipeline.run_all("one", **replay_settings(pipeline, source, 0, 20, id="y"))
    sound = "nullif(cast(value as string), 'poison') >= ''"  # null of that row
    report = pipeline.run_all(
        "one", **replay_settings(pipeline, source, 0, 20, id="z", where=sound)
    )
    assert [offsets(pipeline, report, p) for p in (0, 1)] == [list(range(1, 20))] * 2


@pytest.mark.slow
def test_a_window_by_time_of_records_expired_in_kafka(pipeline: EgressPipeline, topic: str) -> None:
    """Below the log start, the lake's rows resolve a timestamp; adjacent windows do not overlap,
    although timestamps are out of order; runs freeze boundaries in the lake, explain does not.
    """
    name, back = f"{topic}-source", f"{topic}-back"
    for each in (name, back):
        topic_records.create(pipeline.bootstrap, each, partitions=2)
    noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
    ms = int(noon.timestamp() * 1000)
    # Offset 20 is the first at or after 12:00:20, although offsets 21 to 23 are earlier.
    stamps = [*range(20), 20, 5, 6, 7, *range(24, 60)]
    for p in (0, 1):
        topic_records.stamped(pipeline.bootstrap, name, p, [ms + 1000 * s for s in stamps])
    pipeline.settings |= {"source": {"lake": "lake"}, "target": {"topic": back}}
    pipeline.run_ingest(name, "one", max_records=30)
    topic_records.delete_records(pipeline.bootstrap, name, {0: 40})

    def at(seconds: int) -> str:
        return (noon + timedelta(seconds=seconds)).isoformat()

    def ask(start: int, end: int, replay_id: str) -> dict[str, Any]:
        return replay_settings(pipeline, name, at(start), at(end), id=replay_id)

    store = open_store(str(pipeline.home / "lake"), "lake")
    explained = explain(open_run(pipeline.run("e", **ask(10, 20, "a")))).to_json()
    assert explained["offsets"] == [{name: {"0": [10, 20], "1": [10, 20]}}]
    assert list(store.objects("_tidegate/boundaries/")) == []
    nothing_to_do = Backfill(name, None, at(20), at(50))
    ingest = Run(
        load_ingest("lake"),
        pipeline.kafka,
        "d",
        "b",
        date(2026, 1, 1),
        asked=nothing_to_do,
        **HERE,
    )
    assert not plan(ingest).plan.has_work  # but it freezes the boundaries of its times
    edges = (0, 20, 50)
    reports = [
        pipeline.run_all("r", **ask(*edge, f"w{edge[0]}")) for edge in itertools.pairwise(edges)
    ]
    for p in (0, 1):
        parts = [each.row[1] for each in pipeline.records(back) if each.partition == p]
        assert parts == list(range(50))
    assert [each["rows"] for each in reports] == [40, 60]
    topic_id = pipeline.jobs[-1].source.names[0].split("/")[0]
    frozen = neighbouring_boundaries(store, topic_id, ms + 20_000).frozen
    assert frozen is not None
    assert frozen.offsets == {0: 20, 1: 20}
    topic_records.stamped(pipeline.bootstrap, name, 1, [ms + 61_000])
    with pytest.raises(WindowRefused) as refused:
        pipeline.run_all("r", **ask(50, 70, "late"))
    assert refused.value.numbers["complaints"] == ["partition 1: [60, 61) is not in the lake"]
    assert sum(pipeline.ends(back).values()) == 100
