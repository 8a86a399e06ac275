"""Types of the keys of JSON that expressions name: from which lines, and whether files agree."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from support.rows_of_files import TYPED, put, rows, select, source
from tidegate.spark import source_rows
from tidegate.spark.egress_job import LINE
from tidegate.spark.expressions import NotAllowed
from tidegate.spark.json_lines import IncompatibleFiles


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
