"""Every refusal of an egress: its message, before the first record, with the claim released."""

import gzip
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import topic_records
from support.egress_pipeline import EgressPipeline
from tidegate.errors import (
    ConfigurationError,
    PartitionsLeftOut,
    RowsRefused,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
    UnknownTopic,
)
from tidegate_local.kafka import Broker


@dataclass(frozen=True)
class Refusal:
    """The content of the source, the pipeline's settings, and the expected error.

    `files` are left out, with this message, and the others are sent.
    """

    name: str
    put: Callable[[EgressPipeline], None]
    message: str
    error: type[TidegateError] = RowsRefused
    settings: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()


def texts(format_: str, **files: str | bytes) -> Callable[[EgressPipeline], None]:
    def put(pipeline: EgressPipeline) -> None:
        pipeline.set_source(format_)
        for name, content in files.items():
            pipeline.put(f"{name}.{format_}", content)

    return put


def with_columns(
    put: Callable[[EgressPipeline], None], **source: Any
) -> Callable[[EgressPipeline], None]:
    def more(pipeline: EgressPipeline) -> None:
        put(pipeline)
        pipeline.settings["source"] |= source

    return more


def parquet(cut: str | None = None, **tables: dict[str, Any]) -> Callable[[EgressPipeline], None]:
    """Write Parquet files; zero the middle of `cut`, which its footer does not show."""

    def put(pipeline: EgressPipeline) -> None:
        pipeline.set_source("parquet")
        for name, columns in tables.items():
            path = pipeline.source / f"{name}.parquet"
            pq.write_table(pa.table(columns), path)
            if name == cut:
                data = bytearray(path.read_bytes())
                data[30:60] = bytes(30)
                path.write_bytes(data)

    return put


def nanoseconds(pipeline: EgressPipeline) -> None:
    """As pandas writes a time."""
    table = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(table, pipeline.source / "a.parquet")
    pipeline.set_source("parquet")


def copying(pipeline: EgressPipeline) -> None:
    pipeline.set_source("text")
    pipeline.put("a.txt", "x\n")
    pipeline.put("b.txt._COPYING_", "y\n")


def loop(pipeline: EgressPipeline) -> None:
    directory = pipeline.home / "pipelines"
    form = {
        "name": "back",
        "kind": "ingest",
        "topics": [pipeline.topic],
        "lake": str(pipeline.home),
    }
    (directory / "back.yaml").write_text(json.dumps(form))
    pipeline.settings["source"] = {"lake": "back"}


def cut_gz(pipeline: EgressPipeline) -> None:
    pipeline.set_source("text")
    pipeline.put("good/a.txt", "fine\n")
    pipeline.put("good/b.txt.gz", gzip.compress(b"fine\n"))
    pipeline.put("bad/b.txt.gz", gzip.compress(b"line\n" * 1_000)[:30])


GOOD = '{"id":1,"name":"x"}\n'
UNCLEAR = "a key of source.columns is there twice, or in another case"
NO_JSON = "not one JSON object in UTF-8 of at most 100 levels"
SIX = {"id": [0, 1, 2, 3, 4, 5]}


def typed(**files: str | bytes) -> Callable[[EgressPipeline], None]:
    return with_columns(texts("json", **files), columns="id BIGINT, name STRING")


ONE = typed(a=GOOD)


def columns(**given: str) -> dict[str, Any]:
    return {"columns": given}


TYPED = columns(value="to_json(struct(*))")


def flip(path: Path, column: int = 0) -> None:
    """Flip a bit in the last page of a column: footer, size and times stay as they are."""
    at, data = pq.read_metadata(path).row_group(0).column(column), bytearray(path.read_bytes())
    first = at.dictionary_page_offset or at.data_page_offset
    data[first + at.total_compressed_size - 3] ^= 1
    path.unlink()  # another name of the file stays as it is
    path.write_bytes(data)


def flipped(pipeline: EgressPipeline) -> None:
    pipeline.set_source("parquet")
    for name in ("a", "b"):
        path = pipeline.source / f"{name}.parquet"
        pq.write_table(
            pa.table({"id": range(99)}), path, compression="none", use_dictionary=False,
            write_page_checksum=True,
        )  # fmt: skip
    flip(path)


REFUSALS = (
    # Files
    Refusal("a cut gz file", cut_gz, "bad/b.txt.gz: cannot be read: EOFException: Unexpected end",
            files=("bad/b.txt.gz",)),
    Refusal("pages of Parquet that are damaged", parquet("b", a=SIX, b=SIX),
            "b.parquet: cannot be read: ", files=("b.parquet",)),
    Refusal("a flipped bit in a page of Parquet", flipped, "b.parquet: cannot be read: ",
            files=("b.parquet",)),
    Refusal("a cut Parquet file, its columns given",
            with_columns(texts("parquet", a=b"PAR1 and no more"), columns="id BIGINT"),
            "a.parquet: not a whole Parquet file: ", files=("a.parquet",)),
    Refusal("mixed columns", parquet(a=SIX, b={"id": ["x"]}),
            "id string / int64. Keep them apart by source.path, or give source.columns",
            files=("b.parquet",)),
    Refusal("a Parquet file that is not as the pipeline says",
            with_columns(parquet(a=SIX, b={"id": ["x"]}), columns="id BIGINT"),
            "b.parquet: cannot be read: ", files=("b.parquet",)),
    Refusal("a header unlike the pipeline's columns",
            texts("csv", a="id,nme\n2,y\n", b="id,name\n1,x\n", c="", d="id,name\n3,x\n"),
            "a.csv: its header is id, nme, and not id, name: keep files of other columns apart",
            files=("a.csv",)),
    Refusal("a column whose name holds another separator", texts("csv", a="id;name\n1;x\n"),
            "a.csv: its header is one column, 'id;name': is source.options.sep ';'?",
            files=("a.csv",)),
    Refusal("a quote that is not closed",
            texts("csv", a='id,name\n1,"x\n2,y\n', b="id,name\n3,z\n"),
            "a.csv: row 0: a quote that is not closed. Correct", files=("a.csv",)),
    Refusal("text behind a closing quote", texts("csv", a='id,name\n1,"x" y\n'),
            "a.csv: row 0: text behind a closing quote. Correct", files=("a.csv",)),
    Refusal("a valid column that Spark does not know", nanoseconds,
            "SQLSTATE: 42846. The file may be valid: Spark's reader does not know at (TIMESTAMP in "
            "nanoseconds): write them as other types, or name the other columns in source.columns",
            files=("a.parquet",)),
    Refusal("a name that Spark passes over", copying,
            "b.txt._COPYING_: Spark does not read it: it takes", files=("b.txt._COPYING_",)),
    Refusal("a header with a column that has no name",
            texts("csv", a=",id,name\n0,1,x\n", b="id,name\n1,x\n", c="id,name\n2,y\n"),
            "a.csv: its header does not name its columns: one has no name", files=("a.csv",)),
    Refusal("headers with a column twice",
            texts("csv", a="id,name\n1,x\n", b="id,id\n1,x\n", c="id,ID\n1,x\n"),
            "two have the same; c.csv: its header does not name its columns",
            files=("b.csv", "c.csv")),
    Refusal("keys that differ only in case", typed(a=GOOD, b='{"id":1,"ID":2}\n'),
            f"b.json: row 0: {UNCLEAR}", files=("b.json",)),
    Refusal("a key twice", typed(a=GOOD, b='{"id":1,"id":2}\n'),
            f"b.json: row 0: {UNCLEAR}", files=("b.json",)),
    Refusal("a key twice in the only line", typed(b='{"id":1,"id":2}\n'),
            f"b.json: row 0: {UNCLEAR}",
            settings=columns(key="cast(id as string)"), files=("b.json",)),
    Refusal("an expression on JSON without columns", texts("json", a=GOOD),
            "columns: name: expressions on JSON need source.columns, as 'id BIGINT, name STRING'",
            settings=columns(key="upper(name)")),
    Refusal("a line that other readers of JSON refuse", texts("json", a=GOOD, b="{'id':1}\n"),
            f"b.json: row 0: {NO_JSON}. Correct", files=("b.json",)),
    Refusal("two objects in a line", texts("json", a=GOOD, b=GOOD.strip() + GOOD),
            f"b.json: row 0: {NO_JSON}. Correct", files=("b.json",)),
    Refusal("JSON that is too deep", texts("json", a=GOOD, b='{"a":' * 900 + "1" + "}" * 900),
            f"b.json: row 0: {NO_JSON}. Correct", files=("b.json",)),
    Refusal("CSV in another encoding",
            with_columns(texts("csv", a="id\nx\n", b=b"id\n\xfc\n"), columns="id STRING"),
            "b.csv: row 0: text that is not in UTF-8: set source.options.encoding",
            files=("b.csv",)),
    Refusal("no file", lambda pipeline: pipeline.set_source("json"), "no file matches",
            SourceRefused),
    Refusal("no directory", lambda pipeline: pipeline.settings.update(
                source={"path": str(pipeline.home / "none"), "format": "json"}),
            "make it, or correct `source.path`", SourceUnavailable),
    # Rows
    Refusal("an invalid line of JSON", texts("json", a=GOOD + "{'id':\n" + GOOD, b=GOOD),
            f"a.json: row 1: {NO_JSON}. Correct", files=("a.json",)),
    Refusal("nothing but invalid lines", texts("json", a="never\n"),
            f"a.json: row 0: {NO_JSON}. Correct", files=("a.json",)),
    Refusal("a value of another type than the pipeline says",
            with_columns(texts("json", a='{"id":1}\n{"id":"x"}\n'), columns="id BIGINT"),
            "a.json: row 1: id: no BIGINT. Correct", files=("a.json",)),
    Refusal("a row of CSV that is too long", texts("csv", a="id,name\n1,x\n2,y,z\n"),
            "a.csv: row 1: 3 values, and there are 2 columns. Correct", files=("a.csv",)),
    Refusal("a value of CSV of another type",
            with_columns(texts("csv", a="n,id\nx,1\ny,z\n"), columns="n STRING, id BIGINT"),
            "a.csv: row 1: a value of another type than its column: see id. "
            "Correct or remove what is named, or set on_bad_row: "
            "quarantine for bad rows; it is tried again when it or the pipeline's settings change, "
            "or with --resend. Rows count from 0, without a header",
            files=("a.csv",)),
    Refusal("a null value", typed(a=GOOD, b='{"id":2}\n'),
            "b.json: row 0: no value, and tombstones are not on",
            settings=columns(value="name"), files=("b.json",)),
    Refusal("a row too large", texts("text", a="x" * 1_100_000 + "\nsmall\n"),
            "a.text: row 0: 1100", files=("a.text",)),
    Refusal("a row too large for the producer", texts("text", a="x" * 5_000 + "\nsmall\n"),
            "and 4000 is the most: see the topic's max.message.bytes, and max.request.size",
            settings={"target": {"topic": "T", "producer": {"max.request.size": 4000}}},
            files=("a.text",)),
    Refusal("a partition out of range", parquet(a=SIX),
            "a.parquet: row 3: partition 3 is out of range, the topic has 3",
            settings=columns(partition="id"), files=("a.parquet",)),
    Refusal("a negative partition", parquet(a=SIX),
            "row 0: partition -1 is out of range, the topic has 3",
            settings=columns(partition="id - 1"), files=("a.parquet",)),
    Refusal("a partition beyond any", parquet(a=SIX),
            "partition 4294967296 is out of range, the topic has 3",
            settings=columns(partition="id * 4294967296"), files=("a.parquet",)),
    Refusal("no partition", parquet(a=SIX), "a.parquet: row 5: no partition",
            settings=columns(partition="nullif(id, 5) % 3"), files=("a.parquet",)),
    Refusal("a null topic", ONE, "a.json: row 0: no topic",
            settings={"target": {"topics": ["T"]}, **columns(topic="nullif(name, 'x')")},
            files=("a.json",)),
    Refusal("a topic that is not listed", ONE,
            "a.json: row 0: topic x is not among target.topics",
            settings={"target": {"topics": ["T"]}, **columns(topic="name")}, files=("a.json",)),
    Refusal("a header without a key", ONE, "a.json: row 0: a header without a key",
            settings=columns(headers="array(struct(nullif(name, 'x') as key, name as value))"),
            files=("a.json",)),
    Refusal("a null header", ONE, "a.json: row 0: a header without a key",
            settings=columns(
                headers="array(if(id = 1, null, struct(name as key, name as value)))"),
            files=("a.json",)),
    Refusal("a failing cast", typed(a=GOOD, b=GOOD, c='{"id":2,"name":"7"}\n', d=""),
            "a.json: an expression of `columns` or order_by fails on a row: ",
            settings=columns(key="cast(cast(name as int) as string)"),
            files=("a.json", "b.json")),
    Refusal("a failing cast in the last of many",
            typed(**{f"f{n}": '{"id":2,"name":"7"}\n' for n in range(9)}, z=GOOD),
            "z.json: an expression of `columns` or order_by fails on a row: ",
            settings=columns(key="cast(cast(name as int) as string)"), files=("z.json",)),
    Refusal("raise_error", ONE, "a.json: an expression of `columns` or order_by fails on a row: ",
            settings=columns(key="if(id = 1, cast(raise_error('no') as string), 'k')"),
            files=("a.json",)),
    # Columns
    Refusal("an unknown column", ONE, "columns.value: there is no column `nmae`; did you mean "
            "'name'? The columns are: id, name. Nothing", settings=columns(value="nmae")),
    Refusal("an unknown column beside the line of a file", ONE,
            "columns.key: there is no column `x`; the columns are: id, name. Nothing",
            settings=columns(key="lower(x)")),
    Refusal("an unknown column of CSV", texts("csv", a="id,name\n1,x\n"),
            "order_by: there is no column `_x`; the columns are: id, name. Nothing",
            settings={"order_by": ["_x desc"]}),
    Refusal("an expression that is none", ONE, "columns.value: [PARSE_SYNTAX_ERROR]",
            settings=columns(value="name +")),
    Refusal("a topic that is a number", ONE, "columns.topic is bigint; a record needs a string",
            settings={"target": {"topics": ["T"]}, **columns(topic="id")}),
    Refusal("a value that is a number", ONE, "columns.value is bigint; a record needs text or byte",
            settings=columns(value="id")),
    Refusal("a key that is a struct", ONE, "columns.key is struct<id:bigint>; a record needs text",
            settings=columns(key="struct(id)")),
    Refusal("a partition that is text", ONE, "columns.partition is string; a record needs an integ",
            settings=columns(partition="name")),
    Refusal("headers that are none", ONE, "columns.headers is array<string>; a record needs a map",
            settings=columns(headers="array(name)")),
    Refusal("a column of chance", ONE, "columns: key would be another one each time",
            settings=columns(key="cast(rand() as string)")),
    Refusal("a subquery", ONE, "columns: key: ScalarSubquery is not allowed",
            settings=columns(key="(select 'x')")),
    Refusal("a call of Java", ONE, "columns: value: function reflect is not allowed",
            settings=columns(value="reflect('java.lang.System', 'getenv', 'HOME')")),
    Refusal("a cipher with a random start", ONE, "columns: key: function aes_encrypt is not all",
            settings=columns(key="aes_encrypt(name, '0000111122223333')")),
    Refusal("an order by another row's value", ONE, "columns: order0: WindowExpression is not all",
            settings={"order_by": ["max(id) over ()"]}),
    Refusal("a column of the clock", ONE, "columns: value would be another one each time",
            settings=columns(value="concat(name, cast(now() as string))")),
    Refusal("an order of chance", ONE, "columns: order0 would be another one each time",
            settings={"order_by": ["rand()"]}),
    # Target
    Refusal("an unknown topic", ONE, "has no topic no-such-topic, or this user may not DESCRIBE it",
            UnknownTopic, settings={"target": {"topic": "no-such-topic"}}),
    Refusal("a loop", loop, "feeds the lake of 'back', which is the source",
            ConfigurationError),
    Refusal("no order into a compacted topic", ONE, "is compacted and keeps the last record of a k",
            ConfigurationError, settings={"target": {"topic": "T-compacted"}}),
    Refusal("no key into a compacted topic", ONE, "a.json: row 0: no key, and the topic is compact",
            settings={"target": {"topic": "T-compacted"}, "order_by": ["id"]}, files=("a.json",)),
)  # fmt: skip


@pytest.fixture(scope="module")
def target(broker: Broker) -> str:
    """Return a topic for all refusals, which send nothing; there is also `<topic>-compacted`."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    topic_records.create(broker.bootstrap, name, partitions=3)
    topic_records.numbers(broker.bootstrap, name, 7)
    topic_records.create(
        broker.bootstrap, f"{name}-compacted", partitions=3, config={"cleanup.policy": "compact"}
    )
    return name


@pytest.mark.parametrize(
    "refusal", [each for each in REFUSALS if not each.files], ids=lambda refusal: refusal.name
)
def test_refused_before_anything_is_sent(
    pipeline: EgressPipeline, target: str, refusal: Refusal
) -> None:
    """The error names what is wrong; nothing is sent, and no claim is open."""
    other = put(pipeline, target, refusal)
    before = pipeline.ends(other)
    with pytest.raises(refusal.error) as refused:
        pipeline.run_all()
    assert refusal.message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert pipeline.ends(other) == before
    fold = pipeline.fold()
    assert (fold.egress.claims, fold.egress.refused, fold.egress.sent) == ({}, {}, {})
    if refusal.error is RowsRefused:
        assert str(refused.value).endswith("Nothing was sent")
        assert [entry["kind"] for entry in pipeline.entries()] == ["claim", "release"]
        assert pipeline.entries()[-1]["how"] == "nothing sent"
    else:
        assert pipeline.entries() == []


OFTEN = {
    "a header without a key", "a name that Spark passes over", "a null value",
    "a partition out of range", "a row too large for the producer",
    "a value of CSV of another type", "a cut gz file", "a failing cast",
}  # fmt: skip


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in OFTEN else pytest.mark.slow)
        for each in REFUSALS
        if each.files
    ],
)
def test_bad_files_are_left_out(pipeline: EgressPipeline, target: str, refusal: Refusal) -> None:
    """By one plan for all of them, before the first record; the same run sends the others, fails,
    and names file and reason. So do the next ones, which start no Spark.
    """
    other = put(pipeline, target, refusal)
    before = pipeline.ends(other)
    for run in ("r", "next", "last"):
        started = len(pipeline.jobs)
        with pytest.raises(PartitionsLeftOut) as left_out:
            pipeline.run_all(run)
        assert refusal.message in str(left_out.value)
        assert "\n" not in str(left_out.value)
        named = tuple(each["file"] for each in left_out.value.numbers["left_out"])
        assert named == refusal.files
        assert run == "r" or len(pipeline.jobs) == started
    fold = pipeline.fold()
    files = {str(path.relative_to(pipeline.source)) for path in pipeline.source.rglob("*.*")}
    assert fold.egress.claims == {}
    assert fold.egress.sent.keys() == files - {*refusal.files}
    rows = sum(pipeline.ends(other).values()) - sum(before.values())
    assert rows == sum(each["rows"] for each in pipeline.sealed())
    kinds = [entry["kind"] for entry in pipeline.entries()]
    by_spark = ["claim", "release"] if fold.egress.refused else []
    sent = ["claim", "commit"] if fold.egress.sent else []
    assert kinds == by_spark + sent


def put(pipeline: EgressPipeline, target: str, refusal: Refusal) -> str:
    """Set up the pipeline; return the topic that it may send to."""
    pipeline.topic = target
    refusal.put(pipeline)
    named = json.dumps(refusal.settings).replace('"T', f'"{target}')
    pipeline.settings |= json.loads(named)
    return f"{target}-compacted" if f"{target}-compacted" in named else target


@pytest.mark.slow
def test_a_file_that_is_mended_is_sent(pipeline: EgressPipeline) -> None:
    """A truncated Parquet file is detected by planning, a bad row by Spark: one run sends the rest
    and names both, and what is mended is sent by the next.
    """
    parquet(good=SIX, poisoned={"id": [0, 99]}, short=SIX)(pipeline)
    path = pipeline.source / "short.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    pipeline.settings["columns"] = {"partition": "if(id > 9, id, id % 3)"}
    with pytest.raises(
        PartitionsLeftOut, match=r"poisoned\.parquet: row 1: partition 99 is out of"
    ):
        pipeline.run_all("one")
    with pytest.raises(PartitionsLeftOut) as left_out:
        pipeline.run_all("two")
    assert {each["file"] for each in left_out.value.numbers["left_out"]} == {
        "poisoned.parquet", "short.parquet",
    }  # fmt: skip
    assert {each.row[0] for each in pipeline.records()} == {0}
    parquet(poisoned={"id": [0, 9]}, short=SIX)(pipeline)
    assert pipeline.run_all("three")["rows"] == 8


def test_the_columns_of_the_first_commit_count(pipeline: EgressPipeline) -> None:
    """Not those of the file that comes first, or of most; and not for what declares its own."""
    parquet(d={"id": [1]})(pipeline)
    assert pipeline.run_all("one")["rows"] == 1
    assert pipeline.entries()[-1]["columns"] == [["id", "int64"]]
    parquet(a={"no": [1]}, b={"no": [1]}, e={"id": [1]})(pipeline)
    with pytest.raises(PartitionsLeftOut) as left_out:
        pipeline.run_all("two")
    assert [each["file"] for each in left_out.value.numbers["left_out"]] == [
        "a.parquet", "b.parquet",
    ]  # fmt: skip
    assert "columns" not in pipeline.entries()[-1]
    assert [record.value for record in pipeline.records()] == [b'{"id":1}'] * 2
    pipeline.settings["source"]["columns"] = "no BIGINT"
    assert pipeline.run_all("three")["rows"] == 2


@pytest.mark.slow
def test_a_committed_name_with_other_content(pipeline: EgressPipeline) -> None:
    """It is excluded by name; `--resend` sends it with a new plan."""
    texts("json", a=GOOD, b=GOOD)(pipeline)
    first = pipeline.run_all("one")
    pipeline.put("a.json", GOOD * 2)
    ends = pipeline.ends()
    with pytest.raises(PartitionsLeftOut, match=r"a\.json: sent before, with other content"):
        pipeline.run_all("two")
    assert pipeline.ends() == ends
    again = pipeline.run_all("three", resend=True)
    assert (again["files"], again["rows"]) == (["a.json"], 2)
    plans = [each.plan for each in pipeline.records()]
    assert sorted(plans) == sorted([first["plan_id"]] * 2 + [again["plan_id"]] * 2)
    assert pipeline.run_all("four")["commit"] is None
