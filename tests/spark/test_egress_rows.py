"""The rows of files, their default values, and the SQL allowed on them; no broker is needed."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.rows_of_files import TYPED, put, rows, select, values
from tidegate.spark import expressions
from tidegate.spark.egress_job import LINE
from tidegate.spark.expressions import NotAllowed, NotRepeatable, is_allowed, refuse_disallowed

OPTIONS: tuple[tuple[str, str, dict[str, str], str, list[str]], ...] = (
    ("csv", "id,name\n1,x\n#2,y\n3,z\n", {"comment": "#"}, "name", ["x", "z"]),
    ("csv", "id,name\n1,x\n#2,y\n", {}, "id", ["1", "#2"]),
    ("csv", "1,x\n2,y\n", {"header": "false"}, "_c1", ["x", "y"]),
    ("csv", "id;name|1;x|2;y", {"lineSep": "|", "sep": ";"}, "name", ["x", "y"]),
    ("csv", "id;name\n1;x\n", {"delimiter": ";"}, "name", ["x"]),
    ("csv", "id,name\n1,'a,\nb'\n", {"quote": "'"}, "name", ["a,\nb"]),
    ("csv", "id,name\n1, x \n", {"ignoreLeadingWhiteSpace": "true"}, "name", ["x "]),
    ("csv", "id,name\n1,x \n", {"ignoreTrailingWhiteSpace": "true"}, "name", ["x"]),
    ("csv", "id,name\n1,-\n", {"nullValue": "-"}, "coalesce(name, 'null')", ["null"]),
    ("csv", 'id,name\n1,""\n', {"emptyValue": "E"}, "name", ["E"]),
    ("csv", 'id,name\n1,"a\\"b"\n', {"escape": "\\"}, "name", ['a"b']),
    (
        "csv",
        'id,name\n1,"a ""b"" c"\n2,"C:\\dir\\"\n3,"x,\\"\n4,""\n5,\n6,\\N\n',
        {},
        "coalesce(name, 'null')",
        ['a "b" c', "C:\\dir\\", "x,\\", "", "null", "\\N"],
    ),
    ("csv", "id,name\n1,'it''s'\n2,a\"b\n", {"QUOTE": "'"}, "name", ["it's", 'a"b']),
    ("csv", 'id,name\n1,""\n2,\n', {"nullValue": ""}, "coalesce(name, 'null')", ["null"] * 2),
    ("text", "a;b\nc;", {"lineSep": ";"}, "value", ["a", "b\nc"]),
    ("text", "a;b\nc;", {"wholetext": "true"}, "value", ["a;b\nc;"]),
    ("json", '{"id":1}|{"id":2}', {"lineSep": "|"}, "id", ["1", "2"]),
)


@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: f"{case[0]} {case[2]}")
def test_reader_options_that_change_the_rows(
    session: SparkSession, tmp_path: Path, case: tuple[str, str, dict[str, str], str, list[str]]
) -> None:
    """All rows are read, with their numbers, as the option says."""
    format_, content, options, value, expected = case
    path = put(tmp_path / "a", content)
    ddl = "id STRING" if format_ == "json" else None
    assert values(rows(session, format_, path, value=value, ddl=ddl, **options)) == expected


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


def test_csv_with_a_byte_order_mark(session: SparkSession, tmp_path: Path) -> None:
    """As spreadsheets write it: it is no part of the first column's name."""
    path = put(tmp_path / "a", b"\xef\xbb\xbfid,name\r\n1,x\r\n")
    assert values(rows(session, "csv", path, value="id", ddl="id STRING, name STRING")) == ["1"]


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
    found = rows(session, "json", path, value="cast(id as string)", ddl="id BIGINT")
    assert [(row.row, row.value) for row in found if row.fault is None] == [
        (0, "1"), (1, "2"), (2, "3"),
    ]  # fmt: skip
    assert [row.text for row in found if row.fault is not None] == [*map(str.encode, bad)]
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
    for key, ddl, good in (("'k'", None, ODD), ("cast(b as string)", "b BIGINT", ODD[:4])):
        path = put(tmp_path / "a", b"\n".join([*good, *NO_JSON]))
        found = select(session, "json", path, columns={"value": LINE, "key": key}, ddl=ddl)
        found = found.withColumn("value", F.col("value").cast("binary"))
        there = sorted(found.collect(), key=lambda row: int(row.row))
        assert [bytes(row.value) for row in there] == [*good, *NO_JSON]
        assert [row.row for row in there] == list(range(len(there)))
        assert [row.value for row in there if row.fault is None] == [*good]
        faults = {(row.fault or "").partition(", or")[0] for row in there}
        assert faults == {"", NO_JSON_OBJECT}


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
    ddl = "_metadata INT, _corrupt INT, `a``b` INT"
    assert values(rows(session, "json", path, value=TYPED, ddl=ddl)) == [
        '{"_metadata":1,"_corrupt":2,"a`b":3}'
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [100, 1_000])
def test_many_columns(session: SparkSession, tmp_path: Path, number: int) -> None:
    """Whatever the format, a row holds all of its columns."""
    names = [f"c{n}" for n in range(number)]
    many = {name: str(n) for n, name in enumerate(names)}
    path = put(tmp_path / "b.csv", f"{','.join(names)}\n{','.join(many.values())}\n")
    assert [json.loads(each) for each in values(rows(session, "csv", path))] == [many]
    path = put(tmp_path / "b.json", json.dumps(many))
    ddl = ", ".join(f"{name} STRING" for name in names)
    found = values(rows(session, "json", path, value=TYPED, ddl=ddl))
    assert [json.loads(x) for x in found] == [many]
    pq.write_table(pa.table({name: [value] for name, value in many.items()}), tmp_path / "b")
    assert [json.loads(x) for x in values(rows(session, "parquet", tmp_path / "b"))] == [many]


GOOD_SQL = (
    "value", "`value` || 'x'", "upper(trim(both 'x' from value))", "cast(value as binary)",
    "case when value like 'x%' then 1 end", "transform(split(value, ','), x -> x || 'a')[0]",
    "to_json(struct(*))", "extract(year from date'2020-01-01')", "sha2(value, 256)",
    "date_add(date'2020-01-01', 1) - interval 1 day", "value in ('a', 'b')", "if(1 = 1, 2, 3)",
    "timestamp'2020-01-01' < timestamp'epoch'", "'now'", "cast('2020-01-01' as date)",
    "cast(value as timestamp)", "to_timestamp(value)", "cast('now' as binary)",
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
    "../../etc", "/etc/passwd", "{{ conn.x }}", "$(id)", "'; DROP TABLE t", "%2e%2e/", "${x}",
    "169.254.169.254:80", "value in (select * from text.`/etc/passwd`)",
    "version()", "user()", "current_database()", "monotonically_increasing_id()",
)  # fmt: skip
CHANGING_SQL = (
    "rand()", "randn(1)", "random()", "randstr(5, 1)", "uniform(0, 1, 42)", "shuffle(array(1, 2))",
    "now()", "current_date", "current_timestamp()", "unix_timestamp()", "current_user",
    "localtimestamp()", "curdate()",
    "cast('now' as timestamp)", "cast(' Tomorrow ' as date)", "'today' :: timestamp_ntz",
    "try_cast('now' as timestamp)", "timestamp('now')", "date('yesterday')", "to_date('today')",
    "to_timestamp('now')", "try_to_timestamp('now')", "cast(concat('n', 'ow') as timestamp)",
    "timestamp'2020-01-01' < 'now'", "date_add('today UTC', 1)",
    "transform(array(1), x -> cast('now' as timestamp))",
)  # fmt: skip
CLOCK_SQL = (
    "timestamp'now'", "TIMESTAMP_NTZ ' Tomorrow '", "timestamp_ltz'today UTC'", "date 'yesterday'",
    'date"today"', "upper(cast(timestamp r'now' as string))",
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
    for sql in CLOCK_SQL:
        with pytest.raises(NotRepeatable, match=r"columns: .* each time"):
            refuse_disallowed(session, "columns", sql)
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
