"""Topic → lake → topic: equal bytes in the same order, also after a dead attempt."""

from collections import defaultdict
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from support import topic_reader, topic_records
from support.egress_pipeline import EgressPipeline, begun
from tidegate import flows
from tidegate.core.offsets import spark_offsets
from tidegate.core.requests import Backfill, Replay
from tidegate.egress import lake_source
from tidegate.egress.verify import verify
from tidegate.errors import LakeDamaged, RowsRefused, SendFailed, StageFailed
from tidegate.faults import FaultInjected
from tidegate.spark import egress_driver
from tidegate.spark.egress_job import EgressJob

Lake = dict[int, list[topic_reader.Record]]
START, END = attrgetter("start"), attrgetter("end")


def by_partition(found: list[topic_reader.Record]) -> Lake:
    parts: Lake = defaultdict(list)
    for each in found:
        parts[each.partition].append(each)
    return parts


def assert_equal(source: list[topic_reader.Record], target: list[topic_reader.Record]) -> None:
    """Assert equal contents, order and provenance headers in each partition."""
    ours, theirs = by_partition(source), by_partition(target)
    assert ours.keys() == theirs.keys()
    for p in ours:
        assert [each.content for each in ours[p]] == [each.content for each in theirs[p]]
        assert [each.offset for each in ours[p]] == [each.row[1] for each in theirs[p]]
        assert {each.row[0] for each in theirs[p]} == {theirs[p][0].row[0]}
        stamps = [int(each.said[3]) for each in theirs[p]]
        assert stamps == [each.timestamp for each in ours[p]]


@pytest.fixture
def back(pipeline: EgressPipeline, topic: str) -> str:
    """Return the topic that the pipeline sends the lake of `source` back to."""
    name = f"{topic}-back"
    config = {"max.message.bytes": "2100000"}
    topic_records.create(
        pipeline.bootstrap, name, partitions=topic_records.PARTITIONS, config=config
    )
    pipeline.settings |= {"source": {"lake": "lake"}, "target": {"topic": name}}
    return name


@pytest.mark.parametrize("scans", [400, 0], ids=["no shuffle", "shuffle"])
def test_every_kind_of_record_is_sent_back_unchanged(
    pipeline: EgressPipeline, topic: str, back: str, monkeypatch: pytest.MonkeyPatch, scans: int
) -> None:
    """Null, empty and 1 MB values, tombstones, repeated and null headers, extreme timestamps;
    several plans and commits, one of them not placed yet. A lake of many files is shuffled.
    """
    monkeypatch.setattr(egress_driver, "MOST_SCANS", scans)
    source = f"{topic}-source"
    with topic_records.fill(pipeline.bootstrap, source, records=2_500) as filled:
        pipeline.run_ingest(source, "one", max_records=1_500)
        first = pipeline.run_all("one")
        assert 0 < first["rows"] == filled.visible.total()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIDEGATE_FAULT", "publish.finalising:raise")
        with pytest.raises(FaultInjected):
            pipeline.run_ingest(source, "two")
    second = pipeline.run_all("two")
    there = topic_reader.read(pipeline.bootstrap, source, isolation="read_committed")
    assert first["rows"] + second["rows"] == len(there)
    assert_equal(there, pipeline.records(back))
    assert pipeline.run_all("three")["commit"] is None
    assert all(len(each["digest"]) == 16 for each in pipeline.sealed())
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert found.differences == 0


@pytest.mark.slow
def test_the_order_of_the_source_holds_after_a_dead_attempt(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """After an attempt has sent a prefix of each partition and the lake has grown, the claim is
    finished first.
    """
    source = f"{topic}-source"
    topic_records.numbers(pipeline.bootstrap, source, 600, partitions=topic_records.PARTITIONS)
    pipeline.run_ingest(source, "one")
    there = topic_reader.read(pipeline.bootstrap, source)

    def dies(given: EgressJob, _: Path) -> None:
        job = begun(given)
        (topic_id,) = job.source.topic_ids.values()
        producer = Producer({"bootstrap.servers": pipeline.bootstrap})
        for each in there:
            if each.offset < 10 * each.partition:
                index = job.source.names.index(f"{topic_id}/{each.partition}")
                said = f"{job.plan_id}:{index}:{each.offset}:{each.timestamp}"
                producer.produce(
                    back, each.value, each.key, each.partition,
                    headers=[*each.headers, ("tidegate", said)],
                )  # fmt: skip
        producer.flush()
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=dies)
    topic_records.numbers(pipeline.bootstrap, source, 60, first=600)
    pipeline.run_ingest(source, "two")
    report = pipeline.run_all("one")
    assert (report["duplicates"], report["broken_order"], report["rows"]) == (0, [], 600)
    assert_equal(there, pipeline.records(back))
    pipeline.run_all("two")
    assert_equal(topic_reader.read(pipeline.bootstrap, source), pipeline.records(back))


def test_a_range_that_was_filled_in_later_breaks_the_order_and_is_reported(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """A partition is backfilled below its origin after the rest was sent: its rows are sent, and
    only this partition is reported.
    """
    source = f"{topic}-source"
    topic_records.numbers(pipeline.bootstrap, source, 40, partitions=topic_records.PARTITIONS)
    settings = {"start": {"offsets": {source: dict.fromkeys(range(topic_records.PARTITIONS), 5)}}}
    pipeline.run_ingest(source, "one", **settings)
    assert pipeline.run_all("one")["broken_order"] == []
    pipeline.run_ingest(source, "two", asked=Backfill(source, (1,), "0", "5"), **settings)
    topic_records.numbers(pipeline.bootstrap, source, 20, first=40)
    pipeline.run_ingest(source, "three", **settings)
    report = pipeline.run_all("two")
    assert (report["broken_order"], report["duplicates"]) == ([f"{back}-1"], 0)
    there = by_partition(topic_reader.read(pipeline.bootstrap, source))
    here = by_partition(pipeline.records(back))
    assert [each.row[1] for each in here[1]][-5:] == [0, 1, 2, 3, 4]
    assert [each.row[1] for each in here[0]] == list(range(5, len(there[0])))
    assert pipeline.run_all("three")["broken_order"] == []


def test_provenance_headers_of_an_earlier_egress_are_kept(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """The source's records were sent by an egress: the last block of headers is this pipeline's."""
    source = f"{topic}-source"
    topic_records.create(pipeline.bootstrap, source, partitions=1)
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    earlier = [("tidegate", "x:0:7:"), ("a", b""), ("tidegate", None)]
    producer.produce(source, b"v", headers=earlier)
    producer.flush()
    pipeline.run_ingest(source, "one")
    report = pipeline.run_all()
    (there,) = topic_reader.read(pipeline.bootstrap, source)
    (here,) = pipeline.records(back)
    assert here.content == (None, b"v", there.headers)
    assert here.plan == report["plan_id"]
    assert here.row[1] == 0


def delete_a_row(pipeline: EgressPipeline, partition: int) -> None:
    """Rewrite a data file of the lake without one of its rows."""
    (path,) = (pipeline.home / "lake/lake/data").rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    at = table["partition"].to_pylist().index(partition) + 1
    path.unlink()  # the staged copy is the same file
    pq.write_table(pa.concat_tables([table.slice(0, at), table.slice(at + 1)]), path)


@pytest.mark.leaves("file", "offsets")
def test_a_lake_that_has_lost_rows_is_refused(
    pipeline: EgressPipeline, topic: str, back: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Detected before the first record is sent, by the file size or else by the row count in the
    ledger: lost rows are not taken for invisible offsets, such as control and aborted records.
    """
    source = f"{topic}-source"
    with topic_records.fill(pipeline.bootstrap, source, records=300):
        pipeline.run_ingest(source, "one")
    delete_a_row(pipeline, 1)
    before = pipeline.ends(back)
    with pytest.raises(LakeDamaged, match=r"\.parquet, a committed file .* has \d+ bytes"):
        pipeline.run_all()
    ignore_file_sizes(monkeypatch)
    with pytest.raises(RowsRefused) as refused:
        pipeline.run_all()
    (named,) = [name for name in pipeline.jobs[0].source.counts if name.endswith("/1")]
    count = pipeline.jobs[0].source.counts[named]
    assert f"{named}: {count - 1} row" in str(refused.value)
    assert "`tidegate verify` of its pipeline names the files" in str(refused.value)
    # Lost rows are not taken for rows that a filter has excluded.
    window = pipeline.jobs[0].source.window
    start, end = ({source: {r.partition: edge(r) for r in window}} for edge in (START, END))
    asked = Replay(source, "x", None, spark_offsets(start), spark_offsets(end), "partition = 0")
    with pytest.raises(RowsRefused, match=f"{count - 1} rows? read, and it has {count}"):
        pipeline.run_all("again", asked=asked, source_kafka=pipeline.kafka)
    assert pipeline.ends(back) == before
    assert pipeline.fold().egress.claims == {}


def ignore_file_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the check of file sizes, as if files had been changed in place."""
    monkeypatch.setattr(lake_source, "check_committed_files", lake_source.planned_files)


@pytest.mark.leaves("file", "offsets")
def test_a_flipped_bit_in_the_lake_is_not_sent(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """Nothing but the checksum of its page shows it. It ends as damage of the lake, before the
    first record, and the claim is released.
    """
    source = f"{topic}-source"
    topic_records.numbers(pipeline.bootstrap, source, 300, partitions=topic_records.PARTITIONS)
    pipeline.run_ingest(source, "one")
    (path,) = (pipeline.home / "lake/lake/data").rglob("*.parquet")
    at, data = pq.read_metadata(path).row_group(0).column(1), bytearray(path.read_bytes())
    data[at.data_page_offset + at.total_compressed_size - 3] ^= 1
    path.unlink()  # the staged copy is the same file
    path.write_bytes(data)
    before = pipeline.ends(back)
    with pytest.raises(LakeDamaged, match="a file of the source's lake, cannot be read"):
        pipeline.run_all()
    assert pipeline.ends(back) == before
    assert pipeline.fold().egress.claims == {}


@pytest.mark.slow
@pytest.mark.leaves("file", "offsets")
def test_windows_that_cut_a_file(
    pipeline: EgressPipeline, topic: str, back: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a part of a file are counted; a changed file is refused before the claim."""
    source = f"{topic}-source"
    topic_records.numbers(pipeline.bootstrap, source, 120, partitions=topic_records.PARTITIONS)
    pipeline.run_ingest(source, "one")
    pipeline.settings["max_records"] = 70
    assert pipeline.run_all("one")["rows"] == 70
    assert sum(pipeline.jobs[0].source.counts.values()) == 70
    for p in range(topic_records.PARTITIONS):
        delete_a_row(pipeline, p)
    entries = pipeline.entries()
    ignore_file_sizes(monkeypatch)
    with pytest.raises(LakeDamaged, match=r"\.parquet is not the file that was committed; restore"):
        pipeline.run_all("two")
    assert pipeline.entries() == entries


def test_quarantined_rows_are_not_counted_as_invisible(
    pipeline: EgressPipeline, topic: str, back: str
) -> None:
    """`end - start = rows + invisible`, where rows are sent or quarantined."""
    source = f"{topic}-source"
    topic_records.numbers(pipeline.bootstrap, source, 12, partitions=1)
    pipeline.run_ingest(source, "one")
    pipeline.settings |= {
        "on_bad_row": "quarantine", "columns": {"partition": "if(offset = 5, 99, 0)"},
    }  # fmt: skip
    report = pipeline.run_all()
    assert (report["rows"], report["quarantined"]) == (11, 1)
    (commit,) = [entry for entry in pipeline.entries() if entry["kind"] == "commit"]
    assert commit["topics"][source]["ranges"] == {"0": [0, 12, 12, 0]}
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert found.differences == 0
