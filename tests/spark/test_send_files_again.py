"""Replays of files: each record once more for each replay id, on a real broker."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from support.egress_pipeline import EgressPipeline, begun
from tidegate import flows
from tidegate.core.requests import FileReplay
from tidegate.egress.verify import verify
from tidegate.errors import SendFailed, StageFailed
from tidegate.spark.egress_job import EgressJob
from tidegate_check.lake import Checker, Stored

ROWS = 20  # of each file


def put(pipeline: EgressPipeline, format_: str) -> None:
    """Make the files a and b; row n has the value `<file><n>`."""
    for name in ("a", "b"):
        values = [f"{name}{n}" for n in range(ROWS)]
        path = pipeline.put(name, "")
        if format_ == "parquet":
            pq.write_table(pa.table({"value": values}), path)
        elif format_ == "json":
            path.write_text("".join(f"{json.dumps({'value': each})}\n" for each in values))
        else:
            header = ["value"] if format_ == "csv" else []
            path.write_text("".join(f"{each}\n" for each in header + values))
    more = {"columns": "value STRING"} if format_ in ("csv", "json") else {}
    pipeline.set_source(format_, **more)
    pipeline.settings["columns"] = {"value": "value"}


def counted(pipeline: EgressPipeline) -> Counter[bytes | None]:
    return Counter(each.value for each in pipeline.records())


def times(**files: int) -> Counter[bytes | None]:
    """Return how often each value is there, if the files were sent so many times."""
    return Counter({b"%s%d" % (f.encode(), n): k for f, k in files.items() for n in range(ROWS)})


@pytest.mark.parametrize(
    "format_",
    ["json", *(pytest.param(each, marks=pytest.mark.slow) for each in ("csv", "parquet", "text"))],
)
def test_each_row_once_for_each_id(pipeline: EgressPipeline, format_: str) -> None:
    """Twice is exactly twice; the same id sends nothing, and later runs send what is new."""
    put(pipeline, format_)
    pipeline.run_all("one")
    again = {"asked": FileReplay("x", ("a",))}
    report = pipeline.run_all("again", **again)
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)
    assert counted(pipeline) == times(a=2, b=1)
    assert pipeline.run_all("later", **again) == {**report, "run": "later"}
    assert pipeline.run_all("both", asked=FileReplay("y", ("*",)))["rows"] == 2 * ROWS
    assert pipeline.run_all("live")["commit"] is None
    assert counted(pipeline) == times(a=3, b=2)
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, print)
    assert (found.differences, found.rows) == (0, 5 * ROWS)
    assert Checker(Stored(str(pipeline.home / "ledger/out"))).run() == []


@pytest.mark.slow
def test_a_dead_attempt_is_resumed(pipeline: EgressPipeline) -> None:
    """By its id alone: rows that it has sent are not sent again, though the first plan's records
    have the same content. A run in between sends what is new, and does not finish it.
    """
    put(pipeline, "text")
    pipeline.run_all("one")
    again = {"asked": FileReplay("x", ("a", "b"))}

    def dies(given: EgressJob, _: Path) -> None:
        plan = begun(given).plan_id
        producer = Producer({"bootstrap.servers": pipeline.bootstrap})
        for n in range(7):
            headers = [("tidegate", f"{plan}:0:{n}:".encode())]
            producer.produce(pipeline.topic, b"a%d" % n, headers=headers)
        producer.flush()
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all("again", submit=dies, **again)
    pipeline.put("c", "c0\n")
    assert pipeline.run_all("live")["files"] == ["c"]
    report = pipeline.run_all("later", **again)
    assert (report["rows"], report["duplicates"]) == (2 * ROWS, 0)
    assert counted(pipeline) == times(a=2, b=2) + Counter([b"c0"])
    assert verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, print).differences == 0
    assert Checker(Stored(str(pipeline.home / "ledger/out"))).run() == []
