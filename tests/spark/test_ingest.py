"""Chunks are staged exactly as planned, with a real broker; pyarrow reads the staged files."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.topic_records import create, delete_records, fill, numbers
from tidegate.core import columns
from tidegate.core.accounting import collect_offsets
from tidegate.core.files import Contents, LakeFile, Part
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.errors import ConfigurationError
from tidegate.lake import footers
from tidegate.lake.store import Listed, LocalStore
from tidegate.spark import ingest_driver
from tidegate.spark.failures import describe, describe_thrown
from tidegate.spark.hadoop_files import HadoopDirectory
from tidegate.spark.ingest_job import DONE, Chunk, IngestJob, StagedChunk
from tidegate.spark.parquet_writer import written_files
from tidegate.spark.record_size import record_size
from tidegate.spark.session import configure_session
from tidegate.spark.task_size import count_splits
from tidegate_local.kafka import Broker

READ_COMMITTED = "read_committed"
SPILLS = "spark.shuffle.spill.numElementsForceSpillThreshold"


def job(broker: Broker, *chunks: Chunk, **options: str) -> IngestJob:
    names = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.isolation.level": READ_COMMITTED}
    return IngestJob(
        "f00d",
        chunks,
        ParquetSettings("zstd", 1, 1_000_000),
        app_name="tests",
        options={**names, **options},
        records=sum(len(r) for chunk in chunks for r in chunk.window),
    )


def stage(
    spark: SparkSession, broker: Broker, directory: Path, *window: OffsetRange, **settings: Any
) -> StagedChunk:
    chunk = Chunk(0, tuple(sorted(window)), str(directory))
    return ingest_driver.stage_chunk(spark, job(broker, chunk, **settings), chunk)


def rows(directory: Path) -> list[dict[str, Any]]:
    """Return every staged row, with timestamps in microseconds."""
    found = []
    for file in sorted(directory.rglob("*.parquet")):
        table = pq.ParquetFile(file).read()
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table["timestamp"].cast("int64"))
        topic = file.parent.name.removeprefix("topic=")
        found += [{"topic": topic, **row} for row in table.to_pylist()]
    return found


def test_the_second_version_of_the_source_reads(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Spark's KafkaRelationSuiteV2: "V2 Source is used when set through SQLConf"."""
    numbers(broker.bootstrap, topic, 8, partitions=1)
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 8),), str(tmp_path))
    rows = ingest_driver.read_chunk(spark, job(broker, chunk), chunk)
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "BatchScan" in plan
    assert "KafkaRelation(" not in plan


def test_many_topics_and_exact_ranges_in_one_application(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Ranges begin and end within segments and batches; no row outside of them is staged."""
    some, another = f"{topic}-some", f"{topic}-another"
    numbers(broker.bootstrap, some, 700, partitions=2)
    numbers(broker.bootstrap, another, 800, partitions=1)
    window: Window = (
        OffsetRange(some, 0, 110, 220),
        OffsetRange(some, 1, 100, 313),
        OffsetRange(another, 0, 456, 789),
    )
    done = stage(spark, broker, tmp_path / "a", *window)
    assert done.rows == 110 + 213 + 333
    found = Counter((r["topic"], r["partition"], r["offset"]) for r in rows(tmp_path / "a"))
    assert found == Counter(
        (r.topic, r.partition, o) for r in window for o in range(r.start, r.end)
    )
    for row in rows(tmp_path / "a"):
        number = row["offset"] * (2 if row["topic"] == some else 1) + row["partition"]
        assert (row["key"], row["value"]) == (b"%d" % number, b"n%d" % number)


def test_every_kind_of_record_arrives_as_it_was_sent(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """In keys, values and headers, null differs from empty; order and repetition are kept."""
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k", b"v", []),
        (None, b"v", []),
        (b"", b"", []),
        (b"k", None, []),  # a tombstone
        (None, None, []),
        (b"\xff\x00", b"\x00\xfe", [("h", b"1")]),
        (b"k", b"v", [("a", b"1"), ("b", b"2"), ("a", b"2"), ("a", b"1")]),
        (b"k", None, [("null", None), ("empty", b""), ("", b"no name"), ("ключ", b"\xff")]),
        (b"k", b"x" * 900_000, []),
    ]
    create(broker.bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, (key, value, headers) in enumerate(sent):
        producer.produce(topic, value, key, timestamp=1_700_000_000_123 + number, headers=headers)
        producer.flush()
    done = stage(spark, broker, tmp_path / "a", OffsetRange(topic, 0, 0, len(sent)))
    assert done.largest == 900_001
    found = sorted(rows(tmp_path / "a"), key=lambda row: row["offset"])
    assert [(row["key"], row["value"], _headers(row)) for row in found] == sent
    assert [row["timestamp"] for row in found] == [
        (1_700_000_000_123 + n) * 1000 for n in range(len(sent))
    ]
    assert {row["timestampType"] for row in found} == {0}
    assert {json.dumps(row["headers"]) for row in found if not _headers(row)} == {"null"}


def test_transactions_show_what_was_committed_and_no_markers(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Equal to an independent consumer: unusual records, five codecs, extreme timestamps."""
    with fill(broker.bootstrap, topic, records=1_500) as filled:
        seen = _consumed(broker, topic)
        assert sum(filled.visible.values()) == len(seen)
        window = [OffsetRange(topic, p, 0, end) for p, end in _ends(broker, topic).items()]
        done = stage(spark, broker, tmp_path / "a", *window)
    assert done.rows == len(seen) < sum(map(len, window))
    assert Counter(map(_identity, rows(tmp_path / "a"))) == seen


def test_a_window_of_nothing_but_markers_is_an_empty_chunk(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Spark may write a file without rows for it, which is not one of the attempt's files."""
    create(broker.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for partition, end in ((0, producer.abort_transaction), (1, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=partition)
        producer.flush()
        end(30)
    invisible, visible = OffsetRange(topic, 0, 0, 2), OffsetRange(topic, 1, 0, 2)
    done = stage(spark, broker, tmp_path / "a", invisible)
    assert (done.rows, done.largest) == (0, None)
    assert json.loads((tmp_path / "a" / "_done.json").read_text()) == done.to_json()
    assert _staged(tmp_path / "a", done) == []
    done = stage(spark, broker, tmp_path / "b", invisible, visible)
    assert done.rows == 1
    assert _staged(tmp_path / "b", done) == [(Part(1, 0, 0, 1),)]


def test_a_big_range_is_split_without_a_row_lost_or_duplicated(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """With 90 % of the records in one partition, both cores get work, and files do not overlap."""
    create(broker.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for number in range(100_000):
        producer.produce(topic, b"%d" % number, partition=int(number >= 90_000))
        producer.poll(0)
    producer.flush()
    window = (OffsetRange(topic, 0, 0, 90_000), OffsetRange(topic, 1, 0, 10_000))
    done = stage(spark, broker, tmp_path / "a", *window)
    spans = sorted(_span(tmp_path / "a" / file) for file in done.files)
    assert [span for span in spans if span[0] == 1] == [(1, 0, 9_999, 10_000)]
    big = [span for span in spans if span[0] == 0]
    assert len(big) > 1
    assert max(n for *_, n in big) <= 1.1 * 50_000
    assert [first for _, first, _, _ in big] == [0, *(last + 1 for _, _, last, _ in big[:-1])]
    assert all(n == last - first + 1 for _, first, last, n in big)
    assert big[-1][2] == 89_999


def test_short_ranges_share_files(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """One file a topic; a long range has its own; each in the order of offsets."""
    some, another = f"{topic}-some", f"{topic}-another"
    numbers(broker.bootstrap, some, 400, partitions=4)
    numbers(broker.bootstrap, another, 25_010, partitions=1)
    create(broker.bootstrap, f"{topic}-third", partitions=1)
    numbers(broker.bootstrap, f"{topic}-third", 5, partitions=1)
    window = [OffsetRange(some, p, 7, 90 + p) for p in range(4)]
    window += [OffsetRange(another, 0, 3, 25_010), OffsetRange(f"{topic}-third", 0, 0, 5)]
    done = stage(spark, broker, tmp_path / "a", *window)
    store = LocalStore(tmp_path / "a")
    by_topic: dict[str, list[Contents]] = {}
    for file in done.files:
        listed = Listed(file, (tmp_path / "a" / file).stat().st_size)
        contents = footers.read_data_file(store, listed, is_new=True).contents
        by_topic.setdefault(file.partition("/")[0].removeprefix("topic="), []).append(contents)
    assert all(contents.ascending for each in by_topic.values() for contents in each)
    assert [contents.parts for contents in by_topic[some]] == [
        tuple(Part(p, 7, 89 + p, 83 + p) for p in range(4))
    ]
    assert [len(contents.parts) for contents in by_topic[f"{topic}-third"]] == [1]
    long = [part for contents in by_topic[another] for part in contents.parts]
    assert sum(part.rows for part in long) == 25_007
    assert done.rows == sum(map(len, window))


@pytest.mark.slow
def test_files_of_a_topic_do_not_overlap(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, request: Any
) -> None:
    """Also where a task has more topics than it writes at once, and sorts their rows on disk."""
    conf: Any = spark._jvm.org.apache.spark.SparkEnv.get().conf()  # type: ignore[union-attr]
    conf.set(SPILLS, "40")
    request.addfinalizer(lambda: conf.remove(SPILLS))
    window = [OffsetRange(f"{topic}-{i:02d}", 0, 0, 300) for i in range(20)]
    for each in window:
        numbers(broker.bootstrap, each.topic, 300, partitions=1)
    chunk = Chunk(0, tuple(window), str(tmp_path / "a"))
    given = replace(job(broker, chunk), parquet=ParquetSettings("zstd", 1, 64))
    done = ingest_driver.stage_chunk(spark, given, chunk)
    store = LocalStore(tmp_path / "a")
    staged = []
    for path in done.files:
        listed = Listed(path, (tmp_path / "a" / path).stat().st_size)
        contents = footers.read_data_file(store, listed, is_new=True).contents
        name = path.partition("/")[0].removeprefix("topic=")
        file = LakeFile(name, contents.parts, contents.ascending, 1, "d", path, "f")
        staged.append((file, contents))
    assert len(staged) == 100
    assert collect_offsets(window, staged)[1] == []


def test_the_size_of_a_record(spark: SparkSession) -> None:
    """By bytes, not by characters; whatever is null; with 10 more for each header."""
    records = [
        (b"key", b"\xff" * 5, [("h", b"\xff\xfe"), ("ключ", None), ("", b"")]),
        (None, None, None),
        (None, b"v", []),
    ]
    rows = spark.createDataFrame(
        records,
        columns.data_file_ddl().replace("`", "").split(", partition")[0]
        + ", headers array<struct<key:string,value:binary>>",
    )
    found = rows.select(record_size().alias("size"))
    assert [row["size"] for row in found.collect()] == [3 + 5 + 3 + 8 + 30, 0, 1]
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert "lambda" not in plan


def test_limits_of_tasks_and_files_are_kept(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    numbers(broker.bootstrap, topic, 1_000, partitions=1)
    window = OffsetRange(topic, 0, 0, 1_000)
    done = stage(spark, broker, tmp_path / "tasks", window, maxRecordsPerPartition="300")
    assert [_span(tmp_path / "tasks" / f)[3] for f in done.files] == [250] * 4
    done = stage(spark, broker, tmp_path / "least", window, minPartitions="7")
    assert sum(_span(tmp_path / "least" / f)[3] for f in done.files) == 1_000
    expected = sum(n for n, _ in count_splits((window,), 1, 1_000_000, {"minPartitions": "7"}))
    assert len(done.files) == expected == 7
    chunk = Chunk(0, (window,), str(tmp_path / "files"))
    given = job(broker, chunk)
    small = replace(given, chunks=(chunk,), parquet=ParquetSettings("zstd", 1, 400))
    done = ingest_driver.stage_chunk(spark, small, chunk)
    assert sorted(_span(tmp_path / "files" / f)[3] for f in done.files) == [200, 400, 400]


def test_done_json_lists_rows_and_files_and_there_are_no_others(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    numbers(broker.bootstrap, topic, 40)
    window = [OffsetRange(topic, p, 0, 10) for p in range(4)]
    done = stage(spark, broker, tmp_path / "a", *window)
    assert json.loads((tmp_path / "a" / "_done.json").read_text()) == done.to_json()
    there = {str(f.relative_to(tmp_path / "a")) for f in (tmp_path / "a").rglob("*") if f.is_file()}
    assert there == {"_done.json", *done.files}
    parts = [part for each in _staged(tmp_path / "a", done) for part in each]
    assert sum(part.rows for part in parts) == done.rows == 40
    assert (done.format, done.plan_id, done.chunk) == (2, "f00d", 0)
    assert done.versions.keys() == {"spark", "connector", "kafka-clients", "tidegate"}
    assert done.versions["connector"] == done.versions["spark"] == spark.version


def test_the_files_are_what_the_contract_says(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Columns and types, Zstandard, statistics for pruning and sealing, no dictionary of keys."""
    numbers(broker.bootstrap, topic, 100, partitions=1)
    (file,) = stage(spark, broker, tmp_path / "a", OffsetRange(topic, 0, 20, 90)).files
    assert file.startswith(f"topic={topic}/")
    parquet = pq.ParquetFile(tmp_path / "a" / file)
    assert [(f.name, str(f.type)) for f in parquet.schema_arrow] == [
        ("key", "binary"),
        ("value", "binary"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string, value: binary>>"),
    ]
    group = parquet.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {c.compression for c in columns.values()} == {"ZSTD"}
    for name in ("key", "value"):
        assert not [e for e in columns[name].encodings if "DICTIONARY" in e]
    assert columns["offset"].statistics.min == 20
    assert columns["offset"].statistics.max == 89
    assert columns["timestamp"].statistics.has_min_max


def test_no_setting_of_spark_changes_the_files(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    elsewhere: None,
) -> None:
    """Although `spark.conf` or a cluster's defaults set HDFS as the default file system, the legacy
    list layout and no page checksums, the files are on the local disk, can be sealed, and a damaged
    page is detected.
    """
    numbers(broker.bootstrap, topic, 100, partitions=1)
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 100),), str(tmp_path / "a"))
    (file,) = ingest_driver.stage_chunk(configure_session(session), job(broker, chunk), chunk).files
    path = tmp_path / "a" / file
    store = LocalStore(tmp_path)
    listed = Listed(f"a/{file}", path.stat().st_size)
    assert footers.read_data_file(store, listed, is_new=True).contents.rows == 100
    content = bytearray(path.read_bytes())
    at = pq.ParquetFile(path).metadata.row_group(0).column(1)
    content[at.data_page_offset + at.total_compressed_size - 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"(?i)crc|checksum"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_records_that_expired_fail_the_chunk(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The rows that Spark could read are not a chunk: there is no `_done.json`."""
    numbers(broker.bootstrap, topic, 100, partitions=1)
    delete_records(broker.bootstrap, topic, {0: 50})
    with pytest.raises(Py4JJavaError) as failed:
        stage(spark, broker, tmp_path / "a", OffsetRange(topic, 0, 0, 100))
    assert not list(tmp_path.rglob("_done.json"))
    message = describe(failed.value)
    assert message.startswith("KafkaIllegalStateException: ")
    assert f"{topic}-0" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("start", "end", "error", "least"),
    [
        (0, 101, "org.apache.kafka.clients.consumer.OffsetOutOfRangeException", 1),
        (150, 200, "org.apache.kafka.clients.consumer.OffsetOutOfRangeException", 0),
        pytest.param(
            0, 100, "TimeoutException: Cannot fetch record for offset 0 in 1000 milliseconds", 1,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one beyond the end", "all beyond the end", "not in time"],
)  # fmt: skip
def test_records_that_are_not_there_fail_the_chunk(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path,
    start: int, end: int, error: str, least: float,
) -> None:  # fmt: skip
    """Beyond the end of the log, or not within `kafkaConsumer.pollTimeoutMs`, which Spark waits for
    the first record that does not come.
    """
    numbers(broker.bootstrap, topic, 100, partitions=1)
    options = {"kafkaConsumer.pollTimeoutMs": "1000"}
    if end == 100:  # the broker holds the fetch: there are not so many bytes
        options |= {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "2000"}
    began = time.monotonic()
    with pytest.raises(Py4JJavaError) as failed:
        stage(spark, broker, tmp_path / "a", OffsetRange(topic, 0, start, end), **options)
    assert time.monotonic() - began >= least
    assert error in describe_thrown(failed.value)
    assert not list(tmp_path.rglob("_done.json"))


def test_a_directory_that_exists_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Two attempts in one directory would be sealed as one."""
    numbers(broker.bootstrap, topic, 10, partitions=1)
    window = OffsetRange(topic, 0, 0, 10)
    stage(spark, broker, tmp_path / "a", window)
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        stage(spark, broker, tmp_path / "a", window)
    assert len(rows(tmp_path / "a")) == 10


def _headers(row: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in row["headers"] or []]


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    timestamp = row["timestamp"] // 1000
    return (
        row["partition"], row["offset"], row["key"], row["value"], timestamp, tuple(_headers(row))
    )  # fmt: skip


def _staged(directory: Path, done: StagedChunk) -> list[tuple[Part, ...]]:
    """Return the parts of the files that count: those with rows."""
    listed = [Listed(name, (directory / name).stat().st_size) for name in done.files]
    read = [footers.read_data_file(LocalStore(directory), each, is_new=True) for each in listed]
    return [each.contents.parts for each in read if each.contents.rows]


def _span(file: Path) -> tuple[int, int, int, int]:
    """Return partition, first and last offset, and rows of a file."""
    table = pq.ParquetFile(file).read(["partition", "offset"])
    (partition,) = set(table["partition"].to_pylist())
    offsets = table["offset"].to_pylist()
    assert offsets == sorted(offsets)
    return partition, offsets[0], offsets[-1], len(offsets)


def _consumer(broker: Broker) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "independent",
            "isolation.level": READ_COMMITTED,
            "enable.partition.eof": False,
            "enable.auto.commit": False,
        }
    )


def _ends(broker: Broker, topic: str) -> dict[int, int]:
    """Return the last stable offset of each partition."""
    consumer = _consumer(broker)
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in partitions}
    consumer.close()
    return ends


def _consumed(broker: Broker, topic: str) -> Counter[tuple[Any, ...]]:
    consumer = _consumer(broker)
    ends = {p: end for p, end in _ends(broker, topic).items() if end}
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    seen: Counter[tuple[Any, ...]] = Counter()
    while any(at.offset < ends[at.partition] for at in consumer.position(consumer.assignment())):
        for record in consumer.consume(1_000, timeout=0.2):
            assert record.error() is None
            seen[
                record.partition(), record.offset(), record.key(), record.value(),
                record.timestamp()[1], tuple(record.headers() or ()),
            ] += 1  # fmt: skip
    consumer.close()
    return seen


def test_files_of_a_committer_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    """Files of a killed job of the S3A magic committer are neither listed nor read."""
    left = tmp_path / "topic=t/__magic_job-1/tasks/attempt_1/__base/part-00000-0.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    (tmp_path / "topic=t/part-00001-0.parquet").touch()
    directory = HadoopDirectory.of(spark, str(tmp_path))
    settings = ParquetSettings("zstd", 1, 1)
    assert written_files(directory, settings) == ["topic=t/part-00001-0.parquet"]


def test_executors_that_write_elsewhere(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake that they do not share: Spark returns as if all were well."""
    numbers(broker.bootstrap, topic, 10, partitions=1)
    monkeypatch.setattr(ingest_driver, "written_files", lambda *_: ())
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "a"))
    with pytest.raises(ConfigurationError, match="none of their files"):
        ingest_driver.stage_chunk(spark, job(broker, chunk), chunk)
    assert not (tmp_path / "a" / DONE).exists()
