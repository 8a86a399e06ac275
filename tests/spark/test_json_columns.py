"""Columns of JSON lines: declared by the pipeline, never found in the files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.rows_of_files import put, rows, select, values
from tidegate.spark.egress_job import LINE, WHOLE
from tidegate.spark.expressions import NotAllowed


def test_an_expression_names_keys_that_are_declared(session: SparkSession, tmp_path: Path) -> None:
    """Else it is refused, also within a lambda; one that names none needs no columns."""
    path = put(tmp_path / "a", '{"id":1}')
    for key in ("cast(id as string)", "transform(array('k'), y -> y || cast(id as string))[0]"):
        columns = {"value": LINE, "key": key}
        with pytest.raises(
            NotAllowed, match=r"columns: id(, y)?: expressions on JSON need source\.columns"
        ):
            select(session, "json", path, columns=columns)
        (row,) = select(session, "json", path, columns=columns, ddl="id BIGINT").collect()
        assert row.key in ("1", "k1")
    (row,) = select(session, "json", path, columns={"value": LINE, "key": "'k'"}).collect()
    assert (row.key, row.value) == ("k", '{"id":1}')


def test_no_file_decides_how_another_is_read(session: SparkSession, tmp_path: Path) -> None:
    """One line's 1.5 made 12345678901234567 and the next number one key."""
    ids = ('{"id":12345678901234567}', '{"id":12345678901234568}')
    one, other = put(tmp_path / "a", "\n".join(ids)), put(tmp_path / "b", '{"id":1.5}')
    found = rows(session, "json", one, other, value="cast(id as string)", ddl="id BIGINT")
    assert [row.value for row in found if row.fault is None] == [
        "12345678901234567", "12345678901234568",
    ]  # fmt: skip
    assert [row.text for row in found if row.fault is not None] == [b'{"id":1.5}']


def test_a_line_with_a_key_twice_is_bad_if_it_is_declared(
    session: SparkSession, tmp_path: Path
) -> None:
    """Also in another case, alone or beside it; other keys may be there as often as they like."""
    good = ('{"id": 1, "a": 1}', '{"id":2,"dup":1,"dup":2,"DUP":3}', '{"a":1}', '{"id":null}')
    bad = ('{"id":6,"id":8}', '{"id":7,"ID":7}', '{"ID":9}')
    path = put(tmp_path / "a", "\n".join([*bad, *good]))
    columns = {"value": LINE, "key": "cast(id as string)"}
    found = select(session, "json", path, columns=columns, ddl="id BIGINT").collect()
    there = sorted(found, key=lambda row: int(row.row))
    assert [row.value for row in there] == [*bad, *good]
    assert [row.key for row in there if row.fault is None] == ["1", "2", None, None]
    assert [row.text for row in there] == [*map(str.encode, bad), None, None, None, None]
    assert {row.fault for row in there[:3]} == {
        "a key of source.columns is there twice, or in another case"
    }


def test_a_number_as_text_is_as_it_was_written(session: SparkSession, tmp_path: Path) -> None:
    """Also within an object that is read as text; Spark would compute it."""
    texts = (
        ("1.10", "1.10"), ("1.5e+9999", "1.5e+9999"), ("123e-10000000", "123e-10000000"),
        ("-1.7976931348623157e308", "-1.7976931348623157e308"),
        ("-1.23456789012345678e-308", "-1.23456789012345678e-308"),
        ("1.00000000000000000000000000000e5", "1.00000000000000000000000000000e5"),
        ("0.1000000000000000000000000000000", "0.1000000000000000000000000000000"),
        ("-0", "-0"), ("-1E2", "-1E2"), ("12345678901234567890123456789", None), ("true", None),
        ('{"a": 1.10, "b":"1.10","c": [1e2,"-0"]}', '{"a":1.10,"b":"1.10","c":[1e2,"-0"]}'),
        ('"1.10"', "1.10"), (r'"a \"1.50\" b\\", "w": 1.50', 'a "1.50" b\\'),
        ("null", "?"),
    )  # fmt: skip
    path = put(tmp_path / "a", "\n".join(f'{{"v": {written}}}' for written, _ in texts))
    found = rows(session, "json", path, value="coalesce(v, '?')", ddl="v STRING")
    assert values(found) == [written if text is None else text for written, text in texts]


def test_text_that_spark_would_change(session: SparkSession, tmp_path: Path) -> None:
    """Half a surrogate pair in a declared key, and what is no character."""
    good = (
        r'{"v":"\uD83D\uDE00?"}',
        r'{"v":"\\uDADA?"}',
        '{"v":"?"}',
        r'{"other":"\uDADA","v":"?","p":{"t":"1.10","n":1.10}}',
        '{"p":{"t":5},"l":["1.0"]}',
        '{"p":{"t":1.10},"l":["x",-0]}',
    )
    bad = (r'{"v":"\uDADA"}', r'{"v":"\uDE00\uD83D"}', r'{"v":"\ufdd0#15"}')
    path = put(tmp_path / "a", "\n".join([*good, *bad]))
    ddl = "v STRING, p STRUCT<t: STRING, n: DOUBLE>, l ARRAY<STRING>"
    found = rows(session, "json", path, value="'x'", ddl=ddl)
    assert [row.fault is None for row in found] == [True] * len(good) + [False] * len(bad)
    assert [row.text for row in found] == [None] * len(good) + [*map(str.encode, bad)]
    assert {row.fault for row in found if row.fault} == {
        "half a surrogate pair: Spark would change it", "U+FDD0 or U+FDD1, which is no character"
    }  # fmt: skip


def test_what_only_spark_takes_for_json(session: SparkSession, tmp_path: Path) -> None:
    """A bad row with columns, as it is without, for the same reason."""
    path = put(tmp_path / "a", '{\'v\': \'single quotes\'}\n{"v": NaN}\n{"v": "x"}')
    found = rows(session, "json", path, value="v", ddl="v STRING")
    no_json = "not one JSON object in UTF-8 of at most 100 levels"
    assert [row.fault for row in found] == [no_json, no_json, None]


def test_the_row_beside_the_line(session: SparkSession, tmp_path: Path) -> None:
    """Of `'*'` only the declared columns."""
    path = put(tmp_path / "a", '{"id": 1, "card": "4111"}')
    columns = {"value": LINE, "key": WHOLE}
    (row,) = select(session, "json", path, columns=columns, ddl="id BIGINT").collect()
    assert (row.key, row.value) == ('{"id":1}', '{"id": 1, "card": "4111"}')


def test_all_columns_beside_the_line(session: SparkSession, tmp_path: Path) -> None:
    path = put(tmp_path / "a", '{"id":1}')
    columns = {"value": LINE, "key": "to_json(struct(*))"}
    with pytest.raises(NotAllowed, match=r"`\*` in an expression, beside the line of a file"):
        select(session, "json", path, columns=columns, ddl="id BIGINT")
