"""Files are sent as records: every format, with stable row numbers, read by another client."""

import gzip
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from support import topic_reader, topic_records
from support.egress_pipeline import EgressPipeline
from tidegate import flows
from tidegate.broker import consumer as reading
from tidegate.egress.verify import verify
from tidegate.spark.preflight import Refused, preflight
from tidegate.terminal.render_egress import quarantine_query


def parquet(path: Path, count: int, first: int = 0, group: int = 1_000) -> None:
    """Write rows (id, name, at) in many row groups."""
    ids = list(range(first, first + count))
    table = pa.table({"id": ids, "name": [f"n{i}" for i in ids]})
    pq.write_table(table, path, row_group_size=group)


def lines(*ids: int) -> str:
    return "".join(f'{{"id":{i},"name":"n{i}"}}\n' for i in ids)


def ids(found: list[topic_reader.Record]) -> Counter[int]:
    return Counter(json.loads(each.value or b"{}")["id"] for each in found)


@pytest.mark.parametrize("format_", ["json", "parquet", "lake"])
def test_local_files_are_found_whatever_the_default_file_system_is(
    pipeline: EgressPipeline, format_: str, elsewhere: None
) -> None:
    """If `fs.defaultFS` is HDFS, paths are still local, that of the quarantine included."""
    if format_ == "lake":
        topic_records.numbers(pipeline.bootstrap, f"{pipeline.topic}-in", 6, partitions=1)
        pipeline.run_ingest(f"{pipeline.topic}-in", "i")
        pipeline.settings["source"] = {"lake": "lake"}
    elif format_ == "parquet":
        parquet(pipeline.source / "a.parquet", 6)
        pipeline.set_source("parquet")
    else:
        pipeline.put("a.json", lines(*range(6)) + "no json\n")
        pipeline.set_source("json", columns="id INT, name STRING")
        pipeline.settings["on_bad_row"] = "quarantine"
    assert pipeline.run_all()["rows"] == len(pipeline.records()) == 6
    kept = list((pipeline.home / "ledger/out/_tidegate/quarantine").rglob("*.parquet"))
    assert len(kept) == (format_ == "json")


def test_parquet_in_many_row_groups_and_splits(pipeline: EgressPipeline) -> None:
    """Each row is sent once, with its number in the file, however many tasks read a file."""
    parquet(pipeline.source / "a.parquet", 5_000)
    parquet(pipeline.source / "b.parquet", 300, first=5_000)
    pipeline.set_source("parquet")
    pipeline.settings["columns"] = {"key": "cast(id as string)"}
    pipeline.spark.conf.set("spark.sql.files.maxPartitionBytes", "9000")
    report = pipeline.run_all()
    found = pipeline.records()
    assert report["rows"] == len(found) == 5_300
    assert ids(found) == Counter(range(5_300))
    for each in found:
        place = json.loads(each.value or b"")["id"]
        assert each.row == ((0, place) if place < 5_000 else (1, place - 5_000))
        assert each.key == str(place).encode()
    assert {each.plan for each in found} == {report["plan_id"]}
    ends = pipeline.ends()
    assert [
        (r["partition"], r["before"], r["after"], r["sent"], r["duplicates"])
        for r in report["receipts"]
    ] == [(p, 0, end, end, 0) for p, end in ends.items()]
    assert pipeline.run_all("again")["commit"] is None
    assert pipeline.ends() == ends


@pytest.mark.slow
def test_the_same_row_has_the_same_number_anywhere(pipeline: EgressPipeline, topic: str) -> None:
    """Row numbers are equal if the files are read by one task, by many, or combined."""
    for name in ("c.json", "a.json", "b.json"):
        pipeline.put(name, lines(*range(200)))
    pipeline.put("empty.json", "")
    pipeline.set_source("json")
    pipeline.run_all("first")
    first = {(each.row, each.value) for each in pipeline.records()}
    assert len(first) == 600
    for number, conf in enumerate(
        (
            {"spark.sql.files.maxPartitionBytes": "500", "spark.sql.files.openCostInBytes": "1"},
            {"spark.sql.files.minPartitionNum": "40"},
            {"spark.sql.files.maxPartitionNum": "1"},
        )
    ):
        for name, value in conf.items():
            pipeline.spark.conf.set(name, value)
        again = f"{topic}-{number}"
        topic_records.create(pipeline.bootstrap, again, partitions=2)
        pipeline.settings |= {"name": f"out{number}", "target": {"topic": again}}
        pipeline.run_all("again")
        assert {(each.row, each.value) for each in pipeline.records(again)} == first
        for name in conf:
            pipeline.spark.conf.unset(name)


def test_csv_with_headers_and_quoted_newlines(pipeline: EgressPipeline) -> None:
    """Quoted newlines are part of a row; the header is not a row."""
    pipeline.put("a.csv", 'id,name\n1,"two\nlines"\n2,"a ""quote"""\n')
    pipeline.put("b.csv", "id,name\n3,ü\n")
    pipeline.set_source("csv")
    pipeline.settings["columns"] = {"key": "id", "value": "name", "headers": "map('h', id)"}
    pipeline.run_all()
    assert sorted((s.row, *s.content) for s in pipeline.records()) == [
        ((0, 0), b"1", b"two\nlines", (("h", b"1"),)),
        ((0, 1), b"2", b'a "quote"', (("h", b"2"),)),
        ((1, 0), b"3", "ü".encode(), (("h", b"3"),)),
    ]


def test_csv_without_a_header(pipeline: EgressPipeline) -> None:
    """The columns are given, and the first line is a row."""
    pipeline.put("a.csv", "1;x\n2;y\n")
    pipeline.set_source("csv", options={"header": False, "sep": ";"}, columns="id INT, name STRING")
    pipeline.settings["columns"] = {"key": "cast(id + 1 as string)", "value": "name"}
    pipeline.run_all()
    assert sorted((s.row[1], s.key, s.value) for s in pipeline.records()) == [
        (0, b"2", b"x"), (1, b"3", b"y"),
    ]  # fmt: skip


def test_lines_of_text_plain_and_compressed(pipeline: EgressPipeline) -> None:
    """Each line is a row, also an empty one; plain and gz files, subdirectories, unusual names."""
    pipeline.put("d=1/a b%20ü[1].txt", "one\n\nthree\n")
    pipeline.put("z.txt.gz", gzip.compress(b"four\nfive"))
    pipeline.set_source("text")
    report = pipeline.run_all()
    assert report["rows"] == 5
    assert sorted((s.row, s.key, s.value) for s in pipeline.records()) == [
        ((0, 0), None, b"one"),
        ((0, 1), None, b""),
        ((0, 2), None, b"three"),
        ((1, 0), None, b"four"),
        ((1, 1), None, b"five"),
    ]
    (entry,) = [e for e in pipeline.entries() if e["kind"] == "commit"]
    manifest = json.loads((pipeline.home / "ledger/out" / entry["manifest"]["path"]).read_text())
    assert [(f["file"], f["rows"], f["bad"]) for f in manifest["files"]] == [
        ("d=1/a b%20ü[1].txt", 3, 0), ("z.txt.gz", 2, 0),
    ]  # fmt: skip


def test_many_topics_by_a_column(pipeline: EgressPipeline, topic: str) -> None:
    """Each row is sent to the topic in its column, with receipts per topic; `target.topic`
    overrides the column.
    """
    topics = [f"{topic}-{n}" for n in range(3)]
    for name in topics:
        topic_records.create(pipeline.bootstrap, name, partitions=2)
    pipeline.put("a.json", lines(*range(60)))
    pipeline.set_source("json", columns="id BIGINT, name STRING")
    chosen = f"concat('{topic}-', id % 3)"
    pipeline.settings |= {
        "target": {"topics": topics},
        "columns": {"topic": chosen, "key": "name"},
    }
    report = pipeline.run_all()
    for number, name in enumerate(topics):
        found = pipeline.records(name)
        assert ids(found) == Counter(range(number, 60, 3))
        receipts = [r for r in report["receipts"] if r["topic"] == name]
        assert [r["sent"] for r in receipts] == list(pipeline.ends(name).values())
    pipeline.settings |= {"name": "one", "target": {"topic": pipeline.topic}}
    pipeline.run_all("one")
    assert ids(pipeline.records()) == Counter(range(60))


def test_columns_become_records(pipeline: EgressPipeline) -> None:
    """Bytes and text, a chosen partition, headers as an array with nulls, tombstones, null keys."""
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
    pq.write_table(table, pipeline.source / "a.parquet")
    pipeline.set_source("parquet")
    pipeline.settings["tombstones"] = True
    pipeline.settings["columns"] = {"key": "k", "value": "v", "partition": "p", "headers": "h"}
    pipeline.run_all()
    assert [(s.partition, s.row[1], *s.content) for s in pipeline.records()] == [
        (0, 1, None, None, ()),
        (1, 2, b"", b"", ()),
        (2, 0, b"\xff\x00", b"text", (("a", b"1"), ("a", None))),
    ]


def test_the_order_within_a_key_is_that_of_the_pipeline(pipeline: EgressPipeline) -> None:
    """Also if the rows of a key come from several files and tasks."""
    for name in range(4):
        pipeline.put(f"{name}.json", lines(*range(name, 400, 4)))
    pipeline.set_source("json", columns="id BIGINT, name STRING")
    pipeline.settings |= {"order_by": ["id desc"], "columns": {"key": "cast(id % 5 as string)"}}
    pipeline.run_all()
    found = pipeline.records()
    assert ids(found) == Counter(range(400))
    for key in {each.key for each in found}:
        order = [json.loads(each.value or b"")["id"] for each in found if each.key == key]
        assert order == sorted(order, reverse=True)


def test_a_topic_is_read_changed_and_sent_to_another(pipeline: EgressPipeline, topic: str) -> None:
    """Through the lake, with SQL expressions over its columns; JSON is UTF-8."""
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    topic_records.create(pipeline.bootstrap, f"{topic}-in", partitions=1)
    for number, name in enumerate(("Łódź", "zürich", "東京")):
        producer.produce(f"{topic}-in", key=name.encode(), value=b"x" * number)
    producer.flush()
    pipeline.run_ingest(f"{topic}-in", "first")
    pipeline.settings |= {
        "source": {"lake": "lake"},
        "columns": {
            "key": "upper(cast(key as string))",
            "value": "to_json(struct(length(cast(value as string)) as long, "
            "cast(key as string) as name))",
            "partition": "cast(offset % 3 as int)",
        },
    }
    pipeline.run_all()
    assert sorted((each.partition, each.key, each.value) for each in pipeline.records()) == [
        (0, "ŁÓDŹ".encode(), '{"long":0,"name":"Łódź"}'.encode()),
        (1, "ZÜRICH".encode(), '{"long":1,"name":"zürich"}'.encode()),
        (2, "東京".encode(), '{"long":2,"name":"東京"}'.encode()),
    ]


def test_bad_rows_into_quarantine(pipeline: EgressPipeline) -> None:
    """Good rows are sent; bad rows are quarantined with file, row, reason and text."""
    pipeline.put("a.json", '{"id":1,"name":"n1"}\nnot json\n{"id":2,"name":null}\n')
    pipeline.put("b.json", lines(3, 4).encode() + b'{"id": "\xff"}\n')
    pipeline.set_source("json", columns="id BIGINT, name STRING")
    pipeline.settings |= {"on_bad_row": "quarantine", "columns": {"value": "name"}}
    report = pipeline.run_all()
    assert (report["rows"], report["quarantined"]) == (3, 3)
    assert sorted((s.row, s.value) for s in pipeline.records()) == [
        ((0, 0), b"n1"), ((1, 0), b"n3"), ((1, 1), b"n4"),
    ]  # fmt: skip
    kept = pipeline.home / "ledger/out/_tidegate/quarantine" / report["plan_id"]
    query = quarantine_query(str(kept)) + " ORDER BY file, row"
    no_json = "not one JSON object in UTF-8 of at most 100 levels"
    assert duckdb.sql(query).fetchall() == [
        ("a.json", 1, no_json, b"not json"),
        ("a.json", 2, "no value, and tombstones are not on", None),
        ("b.json", 2, no_json, b'{"id": "\xff"}'),
    ]
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert found.differences == 0


def test_a_file_of_only_bad_rows_is_quarantined(pipeline: EgressPipeline) -> None:
    """The file is not planned again, and nothing is sent."""
    pipeline.put("a.json", "not json\nneither\n")
    pipeline.set_source("json")
    pipeline.settings["on_bad_row"] = "quarantine"
    report = pipeline.run_all()
    assert (report["rows"], report["quarantined"], pipeline.records()) == (0, 2, [])
    assert pipeline.run_all("again")["commit"] is None


def test_empty_files_are_committed_once(pipeline: EgressPipeline) -> None:
    """In every format; they have no rows, and are not planned again."""
    for number, (format_, content) in enumerate(
        {"json": b"", "csv": b"", "text": b"", "parquet": _no_rows()}.items()
    ):
        pipeline.settings["name"] = f"out{number}"
        pipeline.put(f"{format_}/a", content)
        pipeline.set_source(format_, path=f"{pipeline.source}/{format_}")
        report = pipeline.run_all("one")
        assert (report["rows"], report["files"]) == (0, ["a"])
        assert pipeline.run_all("two")["commit"] is None


def _no_rows() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"k": pa.array([], pa.int64())}), buffer)
    return buffer.getvalue()


def test_bad_json_rows_do_not_depend_on_the_selected_columns(
    pipeline: EgressPipeline,
) -> None:
    """A bad value in a column that only `order_by` uses makes the row bad; the row is not lost."""
    pipeline.put("a.json", '{"id":1,"at":1}\n{"id":2,"at":"late"}\n{"id":3,"at":3}\n')
    pipeline.set_source("json", columns="id INT, at INT")
    pipeline.settings |= {
        "order_by": ["at"], "on_bad_row": "quarantine",
        "columns": {"key": "'k'", "value": "cast(id as string)"},
    }  # fmt: skip
    report = pipeline.run_all()
    assert (report["rows"], report["quarantined"]) == (2, 1)
    assert [(s.row[1], s.value) for s in pipeline.records()] == [(0, b"1"), (2, b"3")]


def test_verify_compares_rows_with_the_topics_they_were_sent_to(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one consumer, and also after the pipeline's target has changed."""
    pipeline.put("a.json", lines(*range(50)))
    pipeline.set_source("json")
    pipeline.run_all()
    pipeline.put("b.json", lines(*range(50, 70)))
    pipeline.run_all("more")
    opened = create_autospec(reading.KafkaConsumer, side_effect=reading.KafkaConsumer)
    monkeypatch.setattr(reading, "KafkaConsumer", opened)
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert (found.differences, found.against_kafka.rows) == (0, 70)
    assert opened.call_count == 1
    pipeline.settings["target"] = {"topic": "another"}
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert (found.differences, found.against_kafka.rows) == (0, 70)
    topic_records.delete_records(pipeline.bootstrap, pipeline.topic, pipeline.ends())
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert (found.differences, found.against_kafka.expired) == (0, 70)


def test_rows_read_are_compared_with_the_footer(pipeline: EgressPipeline) -> None:
    """A file is refused if Spark reads fewer or more rows than its footer had at planning."""
    parquet(pipeline.source / "a.parquet", 30)
    pipeline.set_source("parquet")
    pipeline.run_all()
    (job,) = pipeline.jobs
    assert job.source.counts == {"a.parquet": 30}
    for count in (29, 31):
        wrong = replace(job, source=replace(job.source, counts={"a.parquet": count}))
        with pytest.raises(Refused, match=f"30 rows read, and it has {count:,}") as refused:
            preflight(pipeline.spark, wrong)
        assert [*refused.value.files] == ["a.parquet"]
