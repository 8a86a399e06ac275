"""DDL is read as Spark reads it, and changes of columns are judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.schema import (
    Field,
    SchemaError,
    Type,
    column_changes,
    merge_columns,
    parse_columns,
    render_ddl,
)

SIMPLE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
          "date", "timestamp", "timestamp_ntz")  # fmt: skip
# Two characters are marks of the parsers, and refused in names.
of_names = st.characters(codec="utf-8", exclude_characters="\0\ufdd0\ufdd1")
names = st.text(of_names, min_size=1, max_size=8)
simple = st.sampled_from(SIMPLE).map(Type) | st.tuples(st.integers(1, 38), st.integers(0, 38)).map(
    lambda d: Type("decimal", (d[0], min(d)))
)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    parts = st.dictionaries(names.map(str.lower), inner, min_size=1, max_size=3)
    return (
        inner.map(lambda t: Type("array", parts=(Field("element", t),)))
        | inner.map(lambda t: Type("map", parts=(Field("key", Type("string")), Field("value", t))))
        | parts.map(lambda p: Type("struct", parts=tuple(Field(n, t) for n, t in p.items())))
    )


types = st.recursive(simple, nested, max_leaves=6)


@given(st.dictionaries(names.map(str.lower), types, min_size=1, max_size=5))
def test_what_is_printed_is_read_again(columns: dict[str, Type]) -> None:
    if len({name.lower() for name in columns}) < len(columns):
        return
    fields = tuple(Field(name, kind) for name, kind in columns.items())
    assert parse_columns(render_ddl(fields)) == fields


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("id BIGINT, tags ARRAY<STRING>", "id BIGINT, tags ARRAY<STRING>"),
        ("a: int,\n b long COMMENT 'it''s'", None),
        ("a int, b long comment 'a, b'", "a INT, b BIGINT"),
        ("d DEC, e NUMERIC(3), f decimal(5,2)", "d DECIMAL(10,0), e DECIMAL(3,0), f DECIMAL(5,2)"),
        ("s STRUCT<x:int, `y z`: string>", "s STRUCT<x: INT, `y z`: STRING>"),
        ("m MAP<STRING,ARRAY<DATE>>", "m MAP<STRING, ARRAY<DATE>>"),
        ("`int` INT, comment STRING", "int INT, comment STRING"),
    ],
)
def test_forms(text: str, printed: str | None) -> None:
    if printed is not None:
        assert render_ddl(parse_columns(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: a name of a column was expected, not the end"),
        ("a", "character 2: a type was expected, not the end"),
        ("a INT,", "character 7: a name of a column was expected, not the end"),
        ("a STRIN", "character 3: unknown type STRIN; did you mean 'string'?"),
        ("a INT b INT", "character 7: a comma was expected, not 'b'"),
        ("a\nINT,\n  b FOO", "line 3, character 5: unknown type FOO; the types are: "),
        ("a INT, A STRING", "character 8: A occurs twice (case does not matter)"),
        ("ad\u0131 INT, adi INT", "character 10: adi occurs twice"),
        ("`\u03c3` INT, `\u03c2` INT", "character 11: \u03c2 occurs twice"),
        ("`\xb5` INT, `\u03bc` INT", "occurs twice"),
        ("`\ufdd0bad` INT", "has U+FDD0 or U+FDD1, which is no character"),
        ("a DECIMAL(39,2)", "character 11: DECIMAL has 1 to 38 digits"),
        (
            "a BIGNT, b DECIMAL(50,2), c DAT INT",
            "character 3: unknown type BIGNT; did you mean 'bigint'? "
            "character 20: DECIMAL has 1 to 38 digits, its scale no more. "
            "character 29: unknown type DAT; did you mean 'date'? "
            "character 33: a comma was expected, not 'INT'",
        ),
        ("a FOO(3), b BAR", "character 3: unknown type FOO; the types are: "),
        ("a DECIMAL(3,4)", "character 11: DECIMAL has 1 to 38 digits"),
        ("a INT NOT NULL", "character 7: every column may be null: leave NOT NULL out"),
        ("a ARRAY<INT", "character 12: '>' was expected, not the end"),
        ("a MAP<INT, INT>", "character 7: the key of a map is a STRING"),
        ("a INT; b INT", "character 6: ';' was not expected; quote names with `"),
        ("1a INT", "character 1: '1' was not expected; quote names with `"),
        ("a VARIANT", "character 3: unknown type VARIANT"),
        ("a " + "ARRAY<" * 40 + "INT" + ">" * 40, "types are nested deeper than 30"),
    ],
)
def test_the_place_of_an_error(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        parse_columns(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a INT", "b STRING, a INT"),
        ("a TINYINT, b INT", "a BIGINT, b INT"),
        ("a FLOAT", "a DOUBLE"),
        ("a DECIMAL(5,2)", "a DECIMAL(7,3)"),
    ],
)
def test_changes_that_are_allowed(old: str, new: str) -> None:
    assert column_changes(parse_columns(old), parse_columns(new)) == []
    assert set(merge_columns(parse_columns(old), parse_columns(new))) == set(parse_columns(new))
    assert set(merge_columns(parse_columns(new), parse_columns(old))) == set(parse_columns(new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a BIGINT", "a INT", "column a was BIGINT and is INT"),
        ("a INT", "a DOUBLE", "column a was INT and is DOUBLE"),
        ("a DECIMAL(5,2)", "a DECIMAL(6,4)", "column a was DECIMAL(5,2)"),
        ("a DECIMAL(5,2)", "a DECIMAL(6,1)", "column a was DECIMAL(5,2)"),
        ("a STRUCT<x: INT>", "a STRUCT<x: BIGINT>", "column a was STRUCT<x: INT>"),
        ("user_id INT", "userid INT", "is gone; is it renamed to 'userid'?"),
        ("a INT, b INT", "a INT", "column b INT is gone. It cannot be removed or renamed"),
    ],
)
def test_changes_that_are_not(old: str, new: str, said: str) -> None:
    (found,) = column_changes(parse_columns(old), parse_columns(new))
    assert said in found


@pytest.mark.parametrize(("one", "other"), [("a INT", "a STRING"), ("a INT", "A INT")])
def test_columns_that_do_not_fit_together(one: str, other: str) -> None:
    with pytest.raises(SchemaError, match="column a INT, and"):
        merge_columns(parse_columns(one), parse_columns(other))
