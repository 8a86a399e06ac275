"""The rows of files, their default values, and the SQL allowed on them; no broker is needed."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.spark import expressions, file_rows, source_rows
from tidegate.spark.egress_job import LINE, WHOLE, RowSource
from tidegate.spark.expressions import NotAllowed, NotRepeatable, is_allowed, refuse_disallowed
from tidegate.spark.json_lines import IncompatibleFiles


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Return a session without code generation."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.codegen.wholeStage", "false")
    mine.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    mine.conf.set("spark.sql.shuffle.partitions", "1")
    source_rows.configure(mine)
    return mine


def source(format_: str, *paths: Path, ddl: str | None = None, **options: str) -> RowSource:
    files = tuple((path.name, str(path)) for path in paths)
    return RowSource(format_, options, ddl, files, {}, (), {})


def select(
    session: SparkSession,
    format_: str,
    *paths: Path,
    columns: dict[str, str],
    ddl: str | None = None,
    **options: str,
) -> DataFrame:
    given = source(format_, *paths, ddl=ddl, **options)
    source_rows.json_types(session, given, columns)
    found = source_rows.select(session, given, columns)
    assert file_rows.files_read(given, found) == {path.name for path in paths}
    return found


def rows(
    session: SparkSession, format_: str, *paths: Path, value: str | None = None, **how: Any
) -> list[Row]:
    """Return the rows with a value, by default that of the format, in the order of the files."""
    columns = {"value": value or (LINE if format_ == "json" else WHOLE)}
    found = select(session, format_, *paths, columns=columns, **how)
    return sorted(found.collect(), key=lambda row: (row.file, row.row))


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def values(found: Sequence[Row]) -> list[Any]:
    assert [row.row for row in found] == list(range(len(found)))
    assert {row.fault for row in found} <= {None}
    return [row.value for row in found]


TYPED = "to_json(struct(*))"
"""A value made of the columns that Spark finds in lines of JSON."""
OPTIONS: tuple[tuple[str, str, dict[str, str], str, list[str]], ...] = (
    ("csv", "id,name\n1,x\n#2,y\n3,z\n", {"comment": "#"}, "name", ["x", "z"]),
    ("csv", "id,name\n1,x\n#2,y\n", {}, "id", ["1", "#2"]),
    ("csv", "1,x\n2,y\n", {"header": "false"}, "_c1", ["x", "y"]),
    ("csv", "id;name|1;x|2;y", {"lineSep": "|", "sep": ";"}, "name", ["x", "y"]),
    ("csv", "id;name\n1;x\n", {"delimiter": ";"}, "name", ["x"]),
    ("csv", "id,name\n1,'a,\nb'\n", {"multiLine": "true", "quote": "'"}, "name", ["a,\nb"]),
    ("csv", "id,name\n1, x \n", {"ignoreLeadingWhiteSpace": "true"}, "name", ["x "]),
    ("csv", "id,name\n1,x \n", {"ignoreTrailingWhiteSpace": "true"}, "name", ["x"]),
    ("csv", "id,name\n1,-\n", {"nullValue": "-"}, "coalesce(name, 'null')", ["null"]),
    ("csv", 'id,name\n1,""\n', {"emptyValue": "E"}, "name", ["E"]),
    ("csv", 'id,name\n1,"a\\"b"\n', {"escape": "\\"}, "name", ['a"b']),
    ("text", "a;b\nc;", {"lineSep": ";"}, "value", ["a", "b\nc"]),
    ("text", "a;b\nc;", {"wholetext": "true"}, "value", ["a;b\nc;"]),
    ("json", '{"id":1}|{"id":2}', {"lineSep": "|"}, "cast(id as string)", ["1", "2"]),
    ("json", '{"id":1}', {"primitivesAsString": "true"}, "typeof(id)", ["string"]),
)


@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: f"{case[0]} {case[2]}")
def test_reader_options_that_change_the_rows(
    session: SparkSession, tmp_path: Path, case: tuple[str, str, dict[str, str], str, list[str]]
) -> None:
    """All rows are read, with their numbers, as the option says."""
    format_, content, options, value, expected = case
    path = put(tmp_path / "a", content)
    assert values(rows(session, format_, path, value=value, **options)) == expected


def test_no_line_is_too_long(
    session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever Hadoop's own limit is: it passes over longer lines without a word."""
    limit = "mapreduce.input.linerecordreader.line.maxlength"
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    hadoop.set(limit, "20")
    request.addfinalizer(lambda: hadoop.unset(limit))
    lines = ['{"a":1}', f'{{"a":"{"x" * 30}"}}', '{"a":2}']
    path = put(tmp_path / "a", "\n".join(lines))
    for format_, value, options in (
        ("json", LINE, {}),
        ("text", "value", {}),
        ("csv", "_c0", {"header": "false", "quote": "'"}),
    ):
        assert values(rows(session, format_, path, value=value, **options)) == lines, format_


def test_csv_in_another_encoding(session: SparkSession, tmp_path: Path) -> None:
    """Read with `encoding`; without it, text that is not UTF-8 makes only its own row bad."""
    path = put(tmp_path / "a", "id\nx\nü\n".encode("iso-8859-1"))
    found = rows(session, "csv", path, value="id", encoding="ISO-8859-1")
    assert values(found) == ["x", "ü"]
    assert [row.fault is None for row in rows(session, "csv", path)] == [True, False]


def test_valid_and_invalid_json_lines(session: SparkSession, tmp_path: Path) -> None:
    """A line is one object; anything else, or text after it, is a bad row with its text. Blank
    lines are not rows.
    """
    good = ['{"id":1}', ' {"id":2} ', '{"id":3,"x":"]}{"}']
    bad = [
        '{"id":1}{"id":2}', '{"id":1} x', '{"id":1},{"id":2}', '[{"id":1}]', '[{"id":1},{"id":2}]',
        '{"id":1}]x', '{"id":1},0]x', "null", "7", "never", '{"id":',
    ]  # fmt: skip
    path = put(tmp_path / "a", "\n\n".join([*good, *bad, " "]) + "\n")
    found = rows(session, "json", path, value="cast(id as string)")
    assert [(row.row, row.value) for row in found if row.fault is None] == [
        (0, "1"), (1, "2"), (2, "3"),
    ]  # fmt: skip
    assert [row.text for row in found if row.fault is not None] == bad
    broken = put(tmp_path / "b", b'{"id":"\xff"}\n')
    assert [row.fault for row in rows(session, "json", broken, value="'x'")] == [NO_JSON_OBJECT]


NO_JSON_OBJECT = "not one JSON object in UTF-8 of at most 100 levels"
ODD = (
    rb'{"a": 1}', rb'{"a": 10.10}', rb'{"a": null, "b": 1}', rb'{"b":1,"a":2}',
    rb'{"a":1,"a":"x","A":2}', rb'{"a":"\u00fc\/\ud83d\ude00"}', '{"ü":"😀"}'.encode(),
    b'  {"a" :\t[1, "x", {} ,2.5] } ', rb"{}",
    rb'{"a":123456789012345678901234567890123456789012345}', rb'{"a":1e400,"b":-0,"c":1E+2}',
    rb'{"_corrupt_record":{"_":1}}', rb'{"":"]}{"}', b'{"a":' * 100 + b"1" + b"}" * 100,
)  # fmt: skip
NO_JSON = (
    rb"{'a':1}", rb'{"a":NaN}', rb'{"a":1,}', rb"{a:1}", rb'{"a":01}', b'{"a":"\t"}',
    rb'{"a":"\x"}', rb"x", rb'{"a":1}{"a":2}', rb'{"a":1} x', rb'[{"a":1}]', rb"null", rb"7",
    rb'{"a":1}]x', rb'{"a":1},0]x', rb'{"a":', b'{"a":"\xff"}', b'{"a":' * 101 + b"1" + b"}" * 101,
)  # fmt: skip


def test_lines_of_json_are_sent_as_they_are(session: SparkSession, tmp_path: Path) -> None:
    """Without `source.columns` the value is the line, byte for byte, whatever the other lines are;
    a line that is not one JSON object is a bad row. So it is beside an expression for the key.
    """
    for key, good in (("'k'", ODD), ("b", ODD[:4])):
        path = put(tmp_path / "a", b"\n".join([*good, *NO_JSON]))
        found = select(session, "json", path, columns={"value": LINE, "key": key})
        found = found.withColumn("value", F.col("value").cast("binary"))
        there = sorted(found.collect(), key=lambda row: int(row.row))
        assert [bytes(row.value) for row in there] == [*good, *NO_JSON]
        assert [row.row for row in there] == list(range(len(there)))
        assert [row.value for row in there if row.fault is None] == [*good]
        assert {row.fault for row in there} == {None, NO_JSON_OBJECT}


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ['{"a": 1}', ' {"a":2}', '{"a":3}', '{"a":4} ']),
        ({"lineSep": "\n"}, ['{"a": 1}\r', ' {"a":2}\r', None]),
        ({"lineSep": "}"}, [None, None, None, None]),
    ],
)
def test_a_line_of_json_ends_where_spark_ends_it(
    session: SparkSession,
    tmp_path: Path,
    name: str,
    options: dict[str, str],
    expected: list[str | None],
) -> None:
    """At CR, LF or both, or at `lineSep`; line ends, and a byte order mark at the beginning of the
    file, belong to no value, and a blank line is no row.
    """
    content = b'\xef\xbb\xbf{"a": 1}\r\n\r\n \t\r\n {"a":2}\r\n{"a":3}\r{"a":4} '
    path = put(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    found = rows(session, "json", path, **options)
    assert [None if row.fault else row.value for row in found] == expected
    assert [row.row for row in found] == list(range(len(found)))
    if None not in expected:
        theirs = session.read.schema("a INT").options(**options).json(str(path))
        assert [row.a for row in theirs.collect()] == [1, 2, 3, 4]


def test_only_named_columns_have_types(session: SparkSession, tmp_path: Path) -> None:
    """What an expression does not name is not compared between files; all of it is, by `*`."""
    one = put(tmp_path / "x", '{"k":"1","a":1,"b":{"A":1}}')
    other = put(tmp_path / "y", '{"k":"2","a":"x","b":[2.5]}')
    found = select(session, "json", one, other, columns={"value": LINE, "key": "upper(k)"})
    assert sorted((row.key, row.value) for row in found.collect()) == [
        ("1", one.read_text()), ("2", other.read_text()),
    ]  # fmt: skip
    with pytest.raises(IncompatibleFiles, match="y has 'a'"):
        select(session, "json", one, other, columns={"value": LINE, "key": "k || a"})
    with pytest.raises(NotAllowed, match=r"`\*` in an expression, beside the line of a file"):
        select(session, "json", one, columns={"value": LINE, "key": "to_json(struct(*))"})
    columns = {"value": LINE, "key": "a"}
    found = select(session, "json", one, other, columns=columns, ddl="a STRING")
    assert sorted((row.key, row.value) for row in found.collect()) == [
        ("1", one.read_text()), ("x", other.read_text()),
    ]  # fmt: skip


def test_a_line_with_a_key_twice_is_bad_only_if_it_is_named(
    session: SparkSession, tmp_path: Path
) -> None:
    """Also in two cases, of which that of most lines counts, or of what was sent before. No such
    line decides how another is read.
    """
    good = (
        b'{"id": 1, "a": 1}', b'{"id":2,"dup":1,"dup":2}', b'{"id":3,"a":1,"A":2}',
        b'{"id":4,"A":null}', b'{"id":5,"o":{"x":1,"x":2,"y":[{"z":1,"Z":"1"}]}}',
    )  # fmt: skip
    bad = (b'{"id":6.5,"id":8.5}', b'{"id":7.5,"ID":7}', b'{"ID":"y"}')
    path = put(tmp_path / "a", b"\n".join([*bad, *good]))
    columns = {"value": LINE, "key": "cast(id + 0 as string)"}
    found = select(session, "json", path, columns=columns).collect()
    there = sorted(found, key=lambda row: int(row.row))
    assert [row.value.encode() for row in there] == [*bad, *good]
    assert [row.row for row in there] == list(range(8))
    assert [row.key for row in there if row.fault is None] == ["1", "2", "3", "4", "5"]
    assert [row.text and row.text.encode() for row in there] == [*bad] + [None] * 5
    types = source_rows.json_types(session, source("json", path), columns)
    assert types is not None
    assert types.simpleString() == "struct<id:bigint>"
    before = StructType().add("ID", "string").jsonValue()
    given = replace(source("json", path), types=before)
    found = source_rows.select(session, given, {**columns, "key": "id"}).collect()
    assert [(row.row, row.key) for row in found if row.fault is None] == [(2, "y")]


BAD_LINES = (
    '{"x":1.5}{"y":1}', "{'x':1.5}", '[{"x":1.5}]', '{"x":NaN}', '{"x":1.5}\0', '[{"X":"s"}]',
)  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_decides_no_type(session: SparkSession, tmp_path: Path, bad: str) -> None:
    """Keys of good lines, in its file and in others, are as they are without it."""
    one = put(tmp_path / "a", f'{{"x":1}}\n{bad}\n{{"x":2}}')
    other = put(tmp_path / "b", '{"x":3}')
    columns = {"value": LINE, "key": "cast(x as string)"}
    found = select(session, "json", one, other, columns=columns).collect()
    assert sorted(row.key for row in found if row.fault is None) == ["1", "2", "3"]
    assert [row.row for row in found if row.fault is not None] == [1]


def test_a_bad_line_hides_no_type(session: SparkSession, tmp_path: Path) -> None:
    """The other lines of its file are compared with other files, and with what was sent."""
    one, other = put(tmp_path / "a", '{"x":1}'), put(tmp_path / "b", '{"x":2.5}\n5')
    columns = {"value": LINE, "key": "cast(x as string)"}
    with pytest.raises(IncompatibleFiles, match="b has 'x'"):
        select(session, "json", one, other, columns=columns)
    before = StructType().add("x", "long").jsonValue()
    with pytest.raises(IncompatibleFiles, match=r"b has 'x' .* what was sent before"):
        source_rows.json_types(session, replace(source("json", other), types=before), columns)


def test_a_column_within_a_lambda_is_named(session: SparkSession, tmp_path: Path) -> None:
    """So that it is there, and its types are compared."""
    one, other = put(tmp_path / "a", '{"x":1}'), put(tmp_path / "b", '{"x":2.5}')
    columns = {"value": LINE, "key": "transform(array('k'), y -> y || cast(x as string))[0]"}
    (row,) = select(session, "json", one, columns=columns).collect()
    assert row.key == "k1"
    with pytest.raises(IncompatibleFiles, match="b has 'x'"):
        select(session, "json", one, other, columns=columns)


def test_a_key_that_only_former_files_have(session: SparkSession, tmp_path: Path) -> None:
    """Its type is known, so expressions can be computed: it is null."""
    path = put(tmp_path / "a", '{"y":1}\nno JSON')
    before = StructType().add("x", "long").jsonValue()
    given = replace(source("json", path), types=before)
    columns = {"value": LINE, "key": "coalesce(cast(x as string), 'none')"}
    found = source_rows.select(session, given, columns).collect()
    assert [(row.row, row.key) for row in found if row.fault is None] == [(0, "none")]
    assert [row.row for row in found if row.fault is not None] == [1]


def test_a_plan_of_an_earlier_release_does_not_send_other_bytes(
    session: SparkSession, tmp_path: Path
) -> None:
    """It froze `'*'` also where `source.columns` was not given."""
    path = put(tmp_path / "a", '{"a":1}')
    with pytest.raises(NotAllowed, match="of an earlier release"):
        rows(session, "json", path, value=WHOLE)
    assert values(rows(session, "json", path, value=WHOLE, ddl="a STRING")) == ['{"a":"1"}']


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ('{"a":1}', '{"a":2,"b":"x"}', True),
        ('{"a":null}', '{"a":2}', True),
        ('{"a":{"b":1}}', '{"a":{"c":"x"}}', True),
        ('{"a":2.5}', '{"a":2.55}', True),
        ('{"a":1}', '{"a":2.5}', False),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":1.0}', '{"a":2.5}', True),
        ('{"a":12345678901234567890123}', '{"a":22345678901234567890123}', True),
        ('{"a":12345678901234567890123}', '{"a":0.5}', False),
        ('{"a":12345678901234567890123}', '{"a":123456789012345678901234}', False),
        ('{"a":1}', '{"a":12345678901234567890123}', False),
        ('{"a":1}', '{"a":"x"}', False),
        ('{"a":{"b":1}}', '{"a":{"b":"x"}}', False),
        ('{"a":[1]}', '{"a":[2.5]}', False),
        ('{"a":1}', '{"A":1}', False),
    ],
)
def test_no_file_decides_how_another_is_read(
    session: SparkSession, tmp_path: Path, one: str, other: str, *, alike: bool
) -> None:
    """If one would, both are named and none is read; `source.columns` resolves the conflict."""
    paths = [put(tmp_path / name, text) for name, text in (("x", one), ("y", other))]
    if alike:
        alone = [rows(session, "json", path, value=TYPED)[0].value for path in paths]
        both = rows(session, "json", *paths, value=TYPED)
        assert [row.value for row in both] == alone
        return
    with pytest.raises(
        IncompatibleFiles, match=r"y has 'a' .*and x has 'a'|y has 'A' .*and x has 'a'"
    ) as odd:
        rows(session, "json", *paths, value=TYPED)
    assert odd.value.files == []
    if "A" not in other:
        assert len(rows(session, "json", *paths, value=TYPED, ddl="a STRING")) == 2


def test_a_key_within_a_value_that_only_two_of_three_files_have(
    session: SparkSession, tmp_path: Path
) -> None:
    lines = {"x": '{"a":{"b":1}}', "y": '{"a":{"c":"x"}}', "z": '{"a":{"c":1}}'}
    paths = [put(tmp_path / name, line) for name, line in lines.items()]
    with pytest.raises(IncompatibleFiles, match=r"z has 'a' .* and x has 'a' "):
        rows(session, "json", *paths, value=TYPED)


def test_types_are_those_of_what_was_sent_before(session: SparkSession, tmp_path: Path) -> None:
    """A file with others is named, and does not stop the others; new keys, and types of what was
    null, are added.
    """
    columns = {"value": TYPED}
    first = put(tmp_path / "a", '{"id":1,"o":{"b":1},"n":null,"l":[],"x":1}\n{"x":"1"}')
    before = source_rows.json_types(session, source("json", first), columns)
    assert before is not None
    assert source_rows.json_types(session, source("json", first), {"value": LINE}) is None
    good = '{"id":2,"o":{"c":"x"},"n":2,"l":[2.5],"x":[],"new":null}\n{"x":2}\n{"id":null}'
    bad = ('{"id":"2"}', '{"id":2.0}', '{"o":{"b":"x"}}', '{"ID":1}', '{"x":1}', '{"id":[1]}')
    paths = [put(tmp_path / f"{n}", line) for n, line in enumerate((good, *bad))]

    def types(*paths: Path) -> StructType | None:
        given = replace(source("json", *paths), types=before.jsonValue())
        return source_rows.json_types(session, given, columns)

    with pytest.raises(
        IncompatibleFiles, match=r"1 has 'id' .* and what was sent before has"
    ) as of:
        types(*paths)
    assert of.value.files == [path.name for path in paths[1:]]
    both = types(paths[0])
    assert both is not None
    assert {field.name: field.dataType.simpleString() for field in both.fields} == {
        "id": "bigint", "l": "array<decimal(2,1)>", "n": "bigint", "new": "void",
        "o": "struct<b:bigint,c:string>", "x": "variant",
    }  # fmt: skip


def test_parquet_is_exact(session: SparkSession, tmp_path: Path) -> None:
    """Microseconds, nulls, long integers, bytes, columns of any name; a value that JSON cannot
    represent makes its row bad.
    """
    at = datetime(2026, 1, 1, 0, 0, 0, 123456)
    table = pa.table(
        {
            "id": pa.array([9007199254740993, None], pa.int64()),
            "f": pa.array([2.5, 0.1]),
            "at": pa.array([at.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "local": pa.array([at, None], pa.timestamp("us")),
            "_metadata": ["x", None],
            "a`b": [["y", None], []],
            "bytes": [b"\xff", None],
            "map": pa.array([[("k", None)], None], pa.map_(pa.string(), pa.string())),
        }
    )
    path = tmp_path / "a"
    pq.write_table(table, path)
    assert values(rows(session, "parquet", path)) == [
        '{"id":9007199254740993,"f":2.5,"at":"2026-01-01T00:00:00.123456Z",'
        '"local":"2026-01-01T00:00:00.123456","_metadata":"x","a`b":["y",null],"bytes":"/w==",'
        '"map":{"k":null}}',
        '{"id":null,"f":0.1,"at":null,"local":null,"_metadata":null,"a`b":[],"bytes":null,'
        '"map":null}',
    ]
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(bytes((0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0))),
                         pa.py_buffer(b"\xffx")],
    )  # fmt: skip
    pq.write_table(pa.Table.from_arrays([text], ["s"]), path)
    found = rows(session, "parquet", path)
    assert [row.fault is None for row in found] == [False, True]
    years = pa.array([-719_529, 0], pa.date32())  # the year 0, and 1970
    pq.write_table(pa.table({"l": pa.ListArray.from_arrays([0, 1, 2], years)}), path)
    assert [row.fault is None for row in rows(session, "parquet", path)] == [False, True]


def test_columns_of_any_name(session: SparkSession, tmp_path: Path) -> None:
    """In CSV with nulls, in JSON without."""
    path = put(tmp_path / "a.csv", "a`b,_metadata\n1,\n")
    assert values(rows(session, "csv", path)) == ['{"a`b":"1","_metadata":null}']
    path = put(tmp_path / "a.json", '{"_metadata":1,"_corrupt":2,"a`b":3}')
    there = values(rows(session, "json", path, value=TYPED))
    assert there == ['{"_corrupt":2,"_metadata":1,"a`b":3}']


@pytest.mark.parametrize("number", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_columns(session: SparkSession, tmp_path: Path, number: int) -> None:
    """Whatever the format, a row holds all of its columns."""
    names = [f"c{n}" for n in range(number)]
    many = {name: str(n) for n, name in enumerate(names)}
    path = put(tmp_path / "b.csv", f"{','.join(names)}\n{','.join(many.values())}\n")
    assert [json.loads(each) for each in values(rows(session, "csv", path))] == [many]
    path = put(tmp_path / "b.json", json.dumps(many))
    assert [json.loads(x) for x in values(rows(session, "json", path, value=TYPED))] == [many]
    pq.write_table(pa.table({name: [value] for name, value in many.items()}), tmp_path / "b")
    assert [json.loads(x) for x in values(rows(session, "parquet", tmp_path / "b"))] == [many]


GOOD_SQL = (
    "value", "`value` || 'x'", "upper(trim(both 'x' from value))", "cast(value as binary)",
    "case when value like 'x%' then 1 end", "transform(split(value, ','), x -> x || 'a')[0]",
    "to_json(struct(*))", "extract(year from date'2020-01-01')", "sha2(value, 256)",
    "date_add(date'2020-01-01', 1) - interval 1 day", "value in ('a', 'b')", "if(1 = 1, 2, 3)",
    "raise_error('x')", "aes_decrypt(unhex(value), '0000111122223333')", "parse_json('{}')",
)  # fmt: skip
BAD_SQL = (
    "(select 1)", "exists(select 1)", "value in (select value from t)", "max(value)",
    "max(value) over ()", "any_value(value)", "row_number() over (order by value)",
    "explode(array(1, 2))", "stack(2, 1, 2)", "json_tuple(value, 'a', 'b')",
    "window(now(), '1 day')", "reflect('java.util.UUID', 'randomUUID')",
    "java_method('java.util.UUID', 'randomUUID')", "try_reflect('java.util.UUID', 'randomUUID')",
    "identifier('reflect')('java.util.UUID', 'randomUUID')", "REFLECT('a', 'b')", "`reflect`('a')",
    "upper(cast(reflect('a', 'b') as string))", "transform(array(1), x -> reflect('a', 'b'))",
    "from_xml(value, 'a INT', map('rowValidationXSDPath', '/etc/passwd'))", "xpath(value, 'a')",
    "from_avro(cast(value as binary), '{}')", "to_avro(value)", "input_file_name()", "uuid()",
    "aes_encrypt(value, '0000111122223333')", "spark_catalog.default.f(value)", "nosuch(value)",
    "version()", "user()", "current_database()", "monotonically_increasing_id()",
)  # fmt: skip
CHANGING_SQL = (
    "rand()", "randn(1)", "random()", "randstr(5, 1)", "uniform(0, 1, 42)", "shuffle(array(1, 2))",
    "now()", "current_date", "current_timestamp()", "unix_timestamp()", "current_user",
    "localtimestamp()", "curdate()",
)  # fmt: skip


def _use(frame: DataFrame, sql: str) -> None:
    refuse_disallowed(frame.sparkSession, "columns", sql)
    frame.select(F.expr(sql))


def test_allowed_sql_expressions(session: SparkSession) -> None:
    """Only built-in functions of the row's own values are allowed, and only deterministic ones."""
    frame = session.sql("select 'x' as value")
    for sql in GOOD_SQL:
        refuse_disallowed(session, "columns", sql)
        expressions.refuse_nondeterministic(frame, F.expr(sql), "columns")
    for sql in BAD_SQL:
        # Spark's parser itself refuses some subqueries.
        with pytest.raises((NotAllowed, ParseException)):
            _use(frame, sql)
    for sql in CHANGING_SQL:
        refuse_disallowed(session, "columns", sql)
        with pytest.raises(NotRepeatable, match=r"columns: .* each time"):
            expressions.refuse_nondeterministic(frame, F.expr(sql), "columns")


def test_every_function_of_spark_was_reviewed(session: SparkSession) -> None:
    """Functions outside the allowed groups are refused, except five; new groups, and new functions
    of mixed groups, are refused until they are reviewed.
    """
    registry = session._jsparkSession.sessionState().functionRegistry()
    allowed: dict[str, set[str]] = {}
    listed = registry.listFunction()
    for n in range(listed.size()):
        name = listed.apply(n).funcName()
        group = registry.lookupFunction(listed.apply(n)).get().getGroup()
        allowed.setdefault(group, set())
        if is_allowed(session, name):
            allowed[group].add(name)
    assert allowed["misc_funcs"] == {
        "aes_decrypt", "assert_true", "raise_error", "try_aes_decrypt", "typeof",
    }  # fmt: skip
    for group in ("agg_funcs", "generator_funcs", "window_funcs", "xml_funcs"):
        assert allowed[group] == set()
    assert sum(map(len, allowed.values())) > 300
