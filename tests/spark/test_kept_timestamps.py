"""Topic → lake → topic with the timestamps of the source, to the millisecond."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import topic_reader, topic_records
from support.egress_pipeline import EgressPipeline, begun
from tidegate import flows
from tidegate.egress.verify import verify
from tidegate.errors import (
    ConfigurationError,
    PartitionsLeftOut,
    RowsRefused,
    SendFailed,
    StageFailed,
)
from tidegate.spark import producer_table
from tidegate.spark.egress_job import EgressJob

ALL_TIMES = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
DAY = 86_400_000


@pytest.fixture
def back(pipeline: EgressPipeline, topic: str) -> str:
    """Return the name of a topic that the pipeline sends the lake back to."""
    name = f"{topic}-back"
    pipeline.settings |= {
        "source": {"lake": "lake"}, "target": {"topic": name, "timestamps": "source"},
    }  # fmt: skip
    return name


def make(pipeline: EgressPipeline, name: str, **config: str) -> None:
    topic_records.create(
        pipeline.bootstrap, name, partitions=topic_records.PARTITIONS,
        config={"max.message.bytes": "2100000", **config},
    )  # fmt: skip


def differences(pipeline: EgressPipeline) -> int:
    kafka = pipeline.run("v").kafka
    return verify(pipeline.spec, flows.store(pipeline.spec), kafka, print).differences


def said(each: topic_reader.Record) -> tuple[object, ...]:
    return each.partition, each.timestamp, *each.content


def yesterday(pipeline: EgressPipeline, source: str) -> list[int]:
    """Ingest a topic with fifty records of a day ago. Return their timestamps."""
    begin = int(time.time() * 1000) - DAY
    stamps = [*range(begin, begin + 50)]
    topic_records.create(pipeline.bootstrap, source, partitions=1)
    topic_records.stamped(pipeline.bootstrap, source, 0, stamps)
    pipeline.run_ingest(source, "one")
    return stamps


def test_there_and_back_is_equal_to_the_byte(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """Every kind of record and client. Of those without a time, none is sent."""
    make(pipeline, back, **ALL_TIMES)
    source = f"{topic}-source"
    with topic_records.fill(pipeline.bootstrap, source, records=2_500):
        pipeline.run_ingest(source, "one")
        there = topic_reader.read(pipeline.bootstrap, source, isolation="read_committed")
    timeless = [each for each in there if each.timestamp < 0]
    assert timeless
    with pytest.raises(RowsRefused, match="-1 ms is before 1970"):
        pipeline.run_all("refused")
    pipeline.settings["on_bad_row"] = "quarantine"
    pipeline.run_all("two")
    here = pipeline.records(back)
    assert [*map(said, here)] == [said(each) for each in there if each not in timeless]
    assert differences(pipeline) == 0
    assert pipeline.run_all("three")["commit"] is None


@pytest.mark.parametrize("proof", ["counts", "full"])
def test_by_each_proof(
    pipeline: EgressPipeline, topic: str, back: str, proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_table, "FEWEST_ROWS", 1)
    make(pipeline, back)
    stamps = yesterday(pipeline, f"{topic}-source")
    pipeline.settings["proof"] = proof
    pipeline.run_all("two")
    assert [each.timestamp for each in pipeline.records(back)] == stamps
    (manifest,) = (pipeline.home / "ledger/out/_tidegate/manifests").glob("*.json")
    assert json.loads(manifest.read_text())["proof"] == proof
    assert differences(pipeline) == 0


def test_a_dead_attempt_is_resumed(pipeline: EgressPipeline, topic: str, back: str) -> None:
    """A record with another time, as of an interceptor that is not there, does not count."""
    make(pipeline, back)
    stamps = yesterday(pipeline, f"{topic}-source")

    def dies(given: EgressJob, _: Path) -> None:
        job = begun(given)
        producer = Producer({"bootstrap.servers": pipeline.bootstrap})
        for n, stamp in enumerate(stamps[:10]):
            said = [("tidegate", f"{job.plan_id}:0:{n}:{stamp}")]
            time_sent = stamp if n < 9 else 0
            producer.produce(back, b"%d" % n, None, 0, headers=said, timestamp=time_sent)
        producer.flush()
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=dies)
    pipeline.run_all("one")
    here = [each for each in pipeline.records(back) if each.timestamp in stamps]
    assert sorted(each.timestamp for each in here) == stamps
    assert len(pipeline.records(back)) == len(stamps) + 1


def test_what_was_judged_is_not_judged_again(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """Rows that have become too old while their plan was sent: the rest follows."""
    make(pipeline, back)
    stamps = yesterday(pipeline, f"{topic}-source")

    def dies(job: EgressJob, _: Path) -> None:
        begun(job)
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=dies)
    topic_records.configure(pipeline.bootstrap, back, retention_ms="3600000")
    pipeline.run_all("one")
    assert [each.timestamp for each in pipeline.records(back)] == stamps


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"message.timestamp.before.max.ms": str(DAY)}, "beyond message.timestamp.before.max.ms"),
        ({"retention.ms": str(DAY + 600_000)}, "would delete it at once"),
        ({"message.timestamp.type": "LogAppendTime"}, "and gives records its own"),
    ],
)
def test_what_the_target_would_not_keep(
    pipeline: EgressPipeline, topic: str, back: str, config: dict[str, str], said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Nothing is sent. By counts, which otherwise need no look at the rows."""
    monkeypatch.setattr(producer_table, "FEWEST_ROWS", 1)
    make(pipeline, back, **config)
    stamps = yesterday(pipeline, f"{topic}-source")
    with pytest.raises((RowsRefused, ConfigurationError), match=said):
        pipeline.run_all("two")
    assert pipeline.records(back) == []
    if "retention.ms" in config:
        pipeline.settings["target"] |= {"accept_expiry": True}
        pipeline.run_all("two")
        assert [each.timestamp for each in pipeline.records(back)] == stamps


def test_files_have_a_column_of_time(pipeline: EgressPipeline, topic: str) -> None:
    """A timestamp, or milliseconds. A row without one is bad; 2038 and later are times."""
    topic_records.configure(pipeline.bootstrap, topic, **ALL_TIMES)
    pipeline.set_source("csv", columns="at TIMESTAMP, ms BIGINT, name STRING")
    head = "at,ms,name\n"
    rows = "1970-01-01T00:00:00.001Z,1,a\n2038-01-19T03:14:08Z,2147483648000,b\n"
    pipeline.put("a.csv", head + rows)
    pipeline.settings |= {
        "target": {"topic": topic, "timestamps": "source"},
        "columns": {"value": "name", "timestamp": "at"},
    }
    pipeline.run_all("one")
    assert {each.value: each.timestamp for each in pipeline.records()} == {
        b"a": 1, b"b": 2_147_483_648_000,
    }  # fmt: skip
    pipeline.settings["columns"] |= {"timestamp": "ms"}
    pipeline.put("b.csv", f"{head}1970-01-01T00:00:00Z,7,c\n")
    pipeline.run_all("two")
    assert [each.timestamp for each in pipeline.records() if each.value == b"c"] == [7]
    for row, why in (("1969-12-31T23:59:59Z,-1000,d", "before 1970"), (",,e", "no timestamp")):
        pipeline.put("c.csv", f"{head}{row}\n")
        with pytest.raises(PartitionsLeftOut, match=why):
            pipeline.run_all(why)
    pipeline.settings["columns"] |= {"timestamp": "name"}
    with pytest.raises(RowsRefused, match="milliseconds as BIGINT"):
        pipeline.run_all("wrong")
