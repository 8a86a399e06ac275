"""Files become records: every format, with identities that hold, read back by another client."""

import contextlib
import gzip
import io
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from support import topic_reader, topic_records
from support.egress_pipeline import Outlet
from tidegate.broker import consumer as reading
from tidegate.egress.verify import verify
from tidegate.errors import RowsRefused, SendFailed
from tidegate.spark import kafka_sink
from tidegate.spark.preflight import Refused, preflight


def parquet(path: Path, count: int, first: int = 0, group: int = 1_000) -> None:
    """Write rows (id, name, at) in many row groups."""
    ids = list(range(first, first + count))
    table = pa.table({"id": ids, "name": [f"n{i}" for i in ids]})
    pq.write_table(table, path, row_group_size=group)


def lines(*ids: int) -> str:
    return "".join(f'{{"id":{i},"name":"n{i}"}}\n' for i in ids)


def ids(found: list[topic_reader.Sent]) -> Counter[int]:
    return Counter(json.loads(each.value or b"{}")["id"] for each in found)


@pytest.mark.parametrize("format_", ["json", "parquet", "lake"])
def test_local_files_are_found_whatever_the_default_file_system_is(
    outlet: Outlet, format_: str, elsewhere: None
) -> None:
    """Where `fs.defaultFS` is HDFS, a path is still one of this machine, bad rows' too."""
    if format_ == "lake":
        topic_records.numbers(outlet.bootstrap, f"{outlet.topic}-in", 6, partitions=1)
        outlet.fill(f"{outlet.topic}-in", "i")
        outlet.settings["source"] = {"lake": "lake"}
    elif format_ == "parquet":
        parquet(outlet.source / "a.parquet", 6)
        outlet.file_of("parquet")
    else:
        outlet.put("a.json", lines(*range(6)) + "no json\n")
        outlet.file_of("json", columns="id INT, name STRING")
        outlet.settings["on_bad_row"] = "quarantine"
    assert outlet.go()["rows"] == len(outlet.sent()) == 6
    kept = list((outlet.home / "ledger/out/_tidegate/quarantine").rglob("*.parquet"))
    assert len(kept) == (format_ == "json")


def test_parquet_in_many_row_groups_and_splits(outlet: Outlet) -> None:
    """Each row once, with the place in its file, however many tasks read a file (req 2.1, 2.17)."""
    parquet(outlet.source / "a.parquet", 5_000)
    parquet(outlet.source / "b.parquet", 300, first=5_000)
    outlet.file_of("parquet")
    outlet.settings["columns"] = {"key": "cast(id as string)"}
    outlet.spark.conf.set("spark.sql.files.maxPartitionBytes", "9000")
    report = outlet.go()
    found = outlet.sent()
    assert report["rows"] == len(found) == 5_300
    assert ids(found) == Counter(range(5_300))
    for each in found:
        place = json.loads(each.value or b"")["id"]
        assert each.row == (("a.parquet", place) if place < 5_000 else ("b.parquet", place - 5_000))
        assert each.key == str(place).encode()
    assert {each.last("tidegate-plan") for each in found} == {report["plan_id"]}
    ends = outlet.ends()
    assert [
        (r["partition"], r["before"], r["after"], r["sent"], r["duplicates"])
        for r in report["receipts"]
    ] == [(p, 0, end, end, 0) for p, end in ends.items()]
    assert outlet.go("again")["commit"] is None
    assert outlet.ends() == ends


def test_the_same_row_has_the_same_number_anywhere(outlet: Outlet, topic: str) -> None:
    """Read once more in one task, in many, and with files put together: identities are equal."""
    for name in ("c.json", "a.json", "b.json"):
        outlet.put(name, lines(*range(200)))
    outlet.put("empty.json", "")
    outlet.file_of("json")
    outlet.go("first")
    first = {(each.row, each.value) for each in outlet.sent()}
    assert len(first) == 600
    for number, conf in enumerate(
        (
            {"spark.sql.files.maxPartitionBytes": "500", "spark.sql.files.openCostInBytes": "1"},
            {"spark.sql.files.minPartitionNum": "40"},
            {"spark.sql.files.maxPartitionNum": "1"},
        )
    ):
        for name, value in conf.items():
            outlet.spark.conf.set(name, value)
        again = f"{topic}-{number}"
        topic_records.create(outlet.bootstrap, again, partitions=2)
        outlet.settings |= {"name": f"out{number}", "target": {"topic": again}}
        outlet.go("again")
        assert {(each.row, each.value) for each in outlet.sent(again)} == first
        for name in conf:
            outlet.spark.conf.unset(name)


def test_csv_with_headers_and_quoted_newlines(outlet: Outlet) -> None:
    """With `multiLine` a row is what the quotes say; the header is no row."""
    outlet.put("a.csv", 'id,name\n1,"two\nlines"\n2,"a ""quote"""\n')
    outlet.put("b.csv", "id,name\n3,ü\n")
    outlet.file_of("csv", options={"multiLine": True, "escape": '"'})
    outlet.settings["columns"] = {"key": "id", "value": "name", "headers": "map('h', id)"}
    outlet.go()
    assert sorted((s.row, *s.content) for s in outlet.sent()) == [
        (("a.csv", 0), b"1", b"two\nlines", (("h", b"1"),)),
        (("a.csv", 1), b"2", b'a "quote"', (("h", b"2"),)),
        (("b.csv", 0), b"3", "ü".encode(), (("h", b"3"),)),
    ]


def test_csv_without_a_header(outlet: Outlet) -> None:
    """The columns are given, and the first line is a row."""
    outlet.put("a.csv", "1;x\n2;y\n")
    outlet.file_of("csv", options={"header": False, "sep": ";"}, columns="id INT, name STRING")
    outlet.settings["columns"] = {"key": "cast(id + 1 as string)", "value": "name"}
    outlet.go()
    assert sorted((s.row[1], s.key, s.value) for s in outlet.sent()) == [
        (0, b"2", b"x"), (1, b"3", b"y"),
    ]  # fmt: skip


def test_lines_of_text_plain_and_compressed(outlet: Outlet) -> None:
    """A line is a row, an empty one too; gz beside plain, below directories, of odd names."""
    outlet.put("d=1/a b%20ü[1].txt", "one\n\nthree\n")
    outlet.put("z.txt.gz", gzip.compress(b"four\nfive"))
    outlet.file_of("text")
    report = outlet.go()
    assert report["rows"] == 5
    assert sorted((s.row, s.key, s.value) for s in outlet.sent()) == [
        (("d=1/a b%20ü[1].txt", 0), None, b"one"),
        (("d=1/a b%20ü[1].txt", 1), None, b""),
        (("d=1/a b%20ü[1].txt", 2), None, b"three"),
        (("z.txt.gz", 0), None, b"four"),
        (("z.txt.gz", 1), None, b"five"),
    ]
    (entry,) = [e for e in outlet.entries() if e["kind"] == "commit"]
    manifest = json.loads((outlet.home / "ledger/out" / entry["manifest"]["path"]).read_text())
    assert [(f["file"], f["rows"], f["bad"]) for f in manifest["files"]] == [
        ("d=1/a b%20ü[1].txt", 3, 0), ("z.txt.gz", 2, 0),
    ]  # fmt: skip


def test_many_topics_by_a_column(outlet: Outlet, topic: str) -> None:
    """Each row goes to the topic that it names, with receipts per topic; the option beats the
    column (req 2.11, 2.12).
    """
    topics = [f"{topic}-{n}" for n in range(3)]
    for name in topics:
        topic_records.create(outlet.bootstrap, name, partitions=2)
    outlet.put("a.json", lines(*range(60)))
    outlet.file_of("json")
    chosen = f"concat('{topic}-', id % 3)"
    outlet.settings |= {
        "target": {"topics": topics},
        "columns": {"topic": chosen, "key": "name"},
    }
    report = outlet.go()
    for number, name in enumerate(topics):
        found = outlet.sent(name)
        assert ids(found) == Counter(range(number, 60, 3))
        receipts = [r for r in report["receipts"] if r["topic"] == name]
        assert [r["sent"] for r in receipts] == list(outlet.ends(name).values())
    outlet.settings |= {"name": "one", "target": {"topic": outlet.topic}}
    outlet.go("one")
    assert ids(outlet.sent()) == Counter(range(60))


def test_columns_become_records(outlet: Outlet) -> None:
    """Bytes and text, a partition of one's own, headers as an array with nulls, tombstones, no key
    (req 2.10, 2.16, 2.22).
    """
    table = pa.table(
        {
            "k": pa.array([b"\xff\x00", None, b""], pa.binary()),
            "v": pa.array(["text", None, ""]),
            "p": pa.array([2, 0, 1], pa.int64()),
            "h": pa.array(
                [[("a", b"1"), ("a", None)], None, []],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    pq.write_table(table, outlet.source / "a.parquet")
    outlet.file_of("parquet")
    outlet.settings["tombstones"] = True
    outlet.settings["columns"] = {"key": "k", "value": "v", "partition": "p", "headers": "h"}
    outlet.go()
    assert [(s.partition, s.row[1], *s.content) for s in outlet.sent()] == [
        (0, 1, None, None, ()),
        (1, 2, b"", b"", ()),
        (2, 0, b"\xff\x00", b"text", (("a", b"1"), ("a", None))),
    ]


def test_the_order_within_a_key_is_that_of_the_pipeline(outlet: Outlet) -> None:
    """Whatever file or task a row comes from (req 4.2)."""
    for name in range(4):
        outlet.put(f"{name}.json", lines(*range(name, 400, 4)))
    outlet.file_of("json")
    outlet.settings |= {"order_by": ["id desc"], "columns": {"key": "cast(id % 5 as string)"}}
    outlet.go()
    found = outlet.sent()
    assert ids(found) == Counter(range(400))
    for key in {each.key for each in found}:
        order = [json.loads(each.value or b"")["id"] for each in found if each.key == key]
        assert order == sorted(order, reverse=True)


def test_what_the_producer_is_told_reaches_it(outlet: Outlet) -> None:
    """Settings of the pipeline beside the defaults; a limit of the producer is seen before."""
    outlet.put("a.txt", "x\n")
    outlet.file_of("text")
    producer = {"linger.ms": 3, "compression.type": "gzip", "acks": 1, "retries": 2}
    outlet.settings["target"] = {"topic": outlet.topic, "producer": producer}
    outlet.go()
    assert outlet.jobs[0].producer == {
        "linger.ms": "3", "compression.type": "gzip", "acks": "1", "retries": "2",
    }  # fmt: skip
    assert len(outlet.sent()) == 1


def test_the_sink_is_v1_with_one_producer(outlet: Outlet) -> None:
    """Many tasks of one executor share a producer that bears the attempt's name, and no plan writes
    through V2 (req 2.2, 2.8, 4.12, 4.16).
    """
    for name in range(6):
        outlet.put(f"{name}.json", lines(*range(name * 100, name * 100 + 100)))
    outlet.file_of("json")
    outlet.spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))  # a task for each file
    done = outlet.spark._jsparkSession.sharedState().statusStore()
    before = done.executionsList().size()
    assert outlet.go()["rows"] == 600
    java = outlet.spark._jvm.java.lang.Thread  # type: ignore[union-attr]
    threads = [thread.getName() for thread in java.getAllStackTraces().keySet()]
    (job,) = outlet.jobs
    assert job.client_id.startswith("tidegate-out-")
    assert [name for name in threads if job.client_id in name] == [
        f"kafka-producer-network-thread | {job.client_id}"
    ]
    ran = done.executionsList()
    plans = {n: ran.apply(n).physicalPlanDescription() for n in range(before, ran.size())}
    assert not any("AppendData" in plan for plan in plans.values())
    (write,) = (ran.apply(n) for n in plans if "SaveIntoDataSourceCommand" in plans[n])
    stages = [write.stages().toSeq().apply(n) for n in range(write.stages().size())]
    status = outlet.spark.sparkContext._jsc.sc().statusStore()
    assert sum(status.lastStageAttempt(stage).numTasks() for stage in stages) > 1


def test_a_topic_is_read_changed_and_sent_to_another(outlet: Outlet, topic: str) -> None:
    """By way of the lake, with SQL over its columns; JSON is UTF-8 (req 2.21, 4.14)."""
    producer = Producer({"bootstrap.servers": outlet.bootstrap})
    topic_records.create(outlet.bootstrap, f"{topic}-in", partitions=1)
    for number, name in enumerate(("Łódź", "zürich", "東京")):
        producer.produce(f"{topic}-in", key=name.encode(), value=b"x" * number)
    producer.flush()
    outlet.fill(f"{topic}-in", "first")
    outlet.settings |= {
        "source": {"lake": "lake"},
        "columns": {
            "key": "upper(cast(key as string))",
            "value": "to_json(struct(length(cast(value as string)) as long, "
            "cast(key as string) as name))",
            "partition": "cast(offset % 3 as int)",
        },
    }
    outlet.go()
    assert sorted((each.partition, each.key, each.value) for each in outlet.sent()) == [
        (0, "ŁÓDŹ".encode(), '{"long":0,"name":"Łódź"}'.encode()),
        (1, "ZÜRICH".encode(), '{"long":1,"name":"zürich"}'.encode()),
        (2, "東京".encode(), '{"long":2,"name":"東京"}'.encode()),
    ]


def test_a_record_that_the_broker_refuses_fails_the_attempt(
    outlet: Outlet, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in the middle, too large for a limit that was lowered after the look at every row: an
    error of one record is never a success; the retry sends what is missing (req 0.15, 2.5, 2.7).
    """
    small = f"{topic}-small"
    topic_records.create(outlet.bootstrap, small, partitions=1)
    patience = {"delivery.timeout.ms": 6_000, "request.timeout.ms": 5_000}
    outlet.settings["target"] = {"topic": small, "producer": patience}
    outlet.file_of("text")
    outlet.put("a.txt", "".join(f"{'x' * (5_000 if n == 700 else 90)}\n" for n in range(1_000)))

    def lower(point: str) -> None:
        if point == "send.before":
            topic_records.configure(outlet.bootstrap, small, **{"max.message.bytes": "3000"})

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.spark.egress.faults.point", lower)
        with pytest.raises(SendFailed):
            outlet.go()
    assert outlet.fold().claims
    assert len(outlet.sent(small)) < 1_000
    topic_records.configure(outlet.bootstrap, small, **{"max.message.bytes": "1000000"})
    report = outlet.go()
    assert (report["rows"], report["duplicates"]) == (1_000, 0)
    assert len(outlet.sent(small)) == 1_000


def test_small_limits_of_a_topic(outlet: Outlet, topic: str) -> None:
    """Batches larger than a topic takes are cut by the producer; a record of just its limit goes,
    and one byte more is refused.
    """
    small = f"{topic}-small"
    topic_records.create(
        outlet.bootstrap, small, partitions=1, config={"max.message.bytes": "3000"}
    )
    outlet.settings["target"] = {"topic": small, "producer": {"compression.type": "none"}}
    outlet.file_of("text")
    outlet.put("a.txt", "".join("x" * 500 + "\n" for _ in range(100)))
    assert outlet.go("first")["rows"] == 100
    room = 3000 - _overhead(outlet, small)
    outlet.put("b.txt", "y" * room)
    assert outlet.go("second")["rows"] == 1
    outlet.put("c.txt", "z" * (room + 1))
    with pytest.raises(RowsRefused, match=r"c\.txt, row 0: 3001 bytes as a record, and 3000 is"):
        outlet.go("third")


def test_records_that_come_after_the_sink_has_ended(outlet: Outlet, topic: str) -> None:
    """The producer guesses how well rows compress. Where it guesses wrong the broker refuses the
    batch, and its pieces are sent when Spark thinks that all is: the read-back waits (req 2.6).
    """
    small = f"{topic}-small"
    topic_records.create(
        outlet.bootstrap, small, partitions=1, config={"max.message.bytes": "3000"}
    )
    outlet.settings["target"] = {"topic": small, "producer": {"compression.type": "gzip"}}
    outlet.file_of("text")
    noise = (random.Random(n).randbytes(250).hex() for n in range(25))
    outlet.put("a.txt", "\n".join([*["x" * 500] * 2_000, *noise]))
    report = outlet.go()
    assert (report["rows"], report["duplicates"], len(outlet.sent(small))) == (2_025, 0, 2_025)


@pytest.mark.parametrize(("producer", "topics"), [("gzip", "producer"), ("none", "gzip")])
def test_what_does_not_compress_is_seen_before(
    outlet: Outlet, topic: str, producer: str, topics: str
) -> None:
    """A codec adds to it, the producer's or the topic's own: a record that would fit as it is, and
    not as it is stored, is refused before it is sent. A little less goes.
    """
    small = f"{topic}-small"
    config = {"max.message.bytes": "1000000", "compression.type": topics}
    topic_records.create(outlet.bootstrap, small, partitions=1, config=config)
    patience = {"delivery.timeout.ms": 6_000, "request.timeout.ms": 5_000}
    chosen = {"compression.type": producer, **patience}
    outlet.settings |= {
        "target": {"topic": small, "producer": chosen}, "columns": {"value": "v"},
    }  # fmt: skip
    outlet.file_of("parquet")
    noise = random.Random(1).randbytes(1_000_000)
    path = outlet.source / "a.parquet"
    pq.write_table(pa.table({"v": [noise[:-300]]}), path)  # 300: its headers and the batch's
    with pytest.raises(RowsRefused, match=r"a\.parquet, row 0: .* and 1000000 is the most"):
        outlet.go("first")
    assert outlet.ends(small) == {0: 0}
    pq.write_table(pa.table({"v": [noise[:-900]]}), path)
    assert outlet.go("second")["rows"] == 1


def _overhead(outlet: Outlet, topic: str) -> int:
    """Return what Tidegate counts for a line of a file with such a name, beside the line."""
    outlet.put("q.txt", "q" * 4_000)
    with pytest.raises(RowsRefused) as refused:
        outlet.go("ask")
    (outlet.source / "q.txt").unlink()
    (row,) = refused.value.numbers["rows"]
    return int(row["reason"].split()[0]) - 4_000


def test_bad_rows_into_quarantine(outlet: Outlet) -> None:
    """The good ones are sent, the bad ones kept with file, row, reason and text (req 6.22)."""
    outlet.put("a.json", '{"id":1,"name":"n1"}\nnot json\n{"id":2,"name":null}\n')
    outlet.put("b.json", lines(3, 4))
    outlet.file_of("json")
    outlet.settings |= {"on_bad_row": "quarantine", "columns": {"value": "name"}}
    report = outlet.go()
    assert (report["rows"], report["quarantined"]) == (3, 2)
    assert sorted((s.row, s.value) for s in outlet.sent()) == [
        (("a.json", 0), b"n1"), (("b.json", 0), b"n3"), (("b.json", 1), b"n4"),
    ]  # fmt: skip
    kept = outlet.home / "ledger/out/_tidegate/quarantine" / report["plan_id"]
    table = pq.read_table(next(kept.iterdir())).to_pylist()
    assert sorted((r["file"], r["row"], r["reason"], r["text"]) for r in table) == [
        ("a.json", 1, "cannot be read", "not json"),
        ("a.json", 2, "no value, and tombstones are not on", None),
    ]
    assert verify(outlet.spec, outlet.run("v").kafka, print)["differences"] == 0


def test_nothing_but_bad_rows_in_quarantine(outlet: Outlet) -> None:
    """The file is done with, and the target as it was."""
    outlet.put("a.json", "not json\nneither\n")
    outlet.file_of("json")
    outlet.settings["on_bad_row"] = "quarantine"
    report = outlet.go()
    assert (report["rows"], report["quarantined"], outlet.sent()) == (0, 2, [])
    assert outlet.go("again")["commit"] is None


def test_empty_files_are_done_with(outlet: Outlet) -> None:
    """Of every format; they hold no row, and are not looked at again."""
    for number, (format_, content) in enumerate(
        {"json": b"", "csv": b"", "text": b"", "parquet": _no_rows()}.items()
    ):
        outlet.settings["name"] = f"out{number}"
        outlet.put(f"{format_}/a", content)
        outlet.settings["source"] = {"path": f"{outlet.source}/{format_}", "format": format_}
        report = outlet.go("one")
        assert (report["rows"], report["files"]) == (0, ["a"])
        assert outlet.go("two")["commit"] is None


def _no_rows() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"k": pa.array([], pa.int64())}), buffer)
    return buffer.getvalue()


def test_which_rows_of_json_are_bad_does_not_depend_on_the_question(outlet: Outlet) -> None:
    """A column that only the order asks for is wrong: the row is bad from the start, not lost on
    the way.
    """
    outlet.put("a.json", '{"id":1,"at":1}\n{"id":2,"at":"late"}\n{"id":3,"at":3}\n')
    outlet.file_of("json", columns="id INT, at INT")
    outlet.settings |= {
        "order_by": ["at"], "on_bad_row": "quarantine",
        "columns": {"key": "'k'", "value": "cast(id as string)"},
    }  # fmt: skip
    report = outlet.go()
    assert (report["rows"], report["quarantined"]) == (2, 1)
    assert [(s.row[1], s.value) for s in outlet.sent()] == [(0, b"1"), (2, b"3")]


def test_the_producer_takes_what_is_allowed(spark: SparkSession) -> None:
    """The least and the most of each number, as the client itself judges it; one beyond is refused
    by both, but for those that start, and then send nothing.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    idle = {"buffer.memory", "delivery.timeout.ms", "max.block.ms", "max.request.size",
            "request.timeout.ms"}  # fmt: skip

    def starts(name: str, value: int) -> bool:
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", "nowhere:1")
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        for each in ("key.serializer", "value.serializer"):
            settings.put(each, serializer)
        settings.put(name, str(value))
        config = jvm.org.apache.kafka.clients.producer.ProducerConfig.configDef()
        with contextlib.suppress(Py4JJavaError):
            jvm.org.apache.kafka.common.config.AbstractConfig(config, settings)
            return True
        return False

    for name, (least, most) in kafka_sink._NUMBERS.items():
        assert starts(name, least), name
        assert starts(name, most), name
        assert kafka_sink.complaints({name: str(least - 1)}), name
        assert starts(name, least - 1) is (name in idle), name
        assert not starts(name, most + 1), name


def test_verify_counts_what_is_there(outlet: Outlet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row against where it was sent, whatever the pipeline says today, by one consumer."""
    outlet.put("a.json", lines(*range(50)))
    outlet.file_of("json")
    outlet.go()
    outlet.put("b.json", lines(*range(50, 70)))
    outlet.go("more")
    opened = create_autospec(reading.KafkaConsumer, side_effect=reading.KafkaConsumer)
    monkeypatch.setattr(reading, "KafkaConsumer", opened)
    found = verify(outlet.spec, outlet.run("v").kafka, print)
    assert (found["differences"], found["against_kafka"]["rows"]) == (0, 70)
    assert opened.call_count == 1
    outlet.settings["target"] = {"topic": "another"}
    found = verify(outlet.spec, outlet.run("v").kafka, print)
    assert (found["differences"], found["against_kafka"]["rows"]) == (0, 70)
    topic_records.delete_records(outlet.bootstrap, outlet.topic, outlet.ends())
    found = verify(outlet.spec, outlet.run("v").kafka, print)
    assert (found["differences"], found["against_kafka"]["expired"]) == (0, 70)


def test_rows_are_held_against_the_footer(outlet: Outlet) -> None:
    """A file of which Spark reads fewer rows, or more, than it had when it was planned."""
    parquet(outlet.source / "a.parquet", 30)
    outlet.file_of("parquet")
    outlet.go()
    (job,) = outlet.jobs
    assert job.rows.counts == {"a.parquet": 30}
    for count in (29, 31):
        wrong = replace(job, rows=replace(job.rows, counts={"a.parquet": count}))
        with pytest.raises(Refused, match=f"30 rows were read, and it has {count}") as refused:
            preflight(outlet.spark, wrong)
        assert refused.value.files == ["a.parquet"]
