"""DDL and Avro schemas are read as Spark reads them, and changes of columns are judged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import avro
from tidegate.core.schema import Field, SchemaError, Type, changes, ddl, parse, union

SIMPLE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
          "date", "timestamp", "timestamp_ntz")  # fmt: skip
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
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
    assert parse(ddl(fields)) == fields


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
        assert ddl(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: a name of a column was expected, not the end"),
        ("a", "character 2: a type was expected, not the end"),
        ("a INT,", "character 7: a name of a column was expected, not the end"),
        ("a STRIN", "character 3: unknown type STRIN; did you mean 'string'?"),
        ("a INT b INT", "character 7: a comma was expected, not 'b'"),
        ("a\nINT,\n  b FOO", "line 3, character 5: unknown type FOO; the types are: "),
        ("a INT, A STRING", "character 8: A stands twice (case does not matter)"),
        ("a DECIMAL(39,2)", "character 11: DECIMAL has 1 to 38 digits"),
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
        parse(text)
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
    assert changes(parse(old), parse(new)) == []
    assert set(union(parse(old), parse(new))) == set(parse(new))
    assert set(union(parse(new), parse(old))) == set(parse(new))


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
    (found,) = changes(parse(old), parse(new))
    assert said in found


@pytest.mark.parametrize(("one", "other"), [("a INT", "a STRING"), ("a INT", "A INT")])
def test_columns_that_do_not_fit_together(one: str, other: str) -> None:
    with pytest.raises(SchemaError, match="column a INT, and"):
        union(parse(one), parse(other))


def record(**fields: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "namespace": "x",
         "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )  # fmt: skip


def test_avro() -> None:
    """The columns of each kind of type; tests/spark/test_decoding.py compares them with Spark's."""
    part = {"type": "record", "name": "P", "fields": [{"name": "p", "type": "float"}]}
    text = record(a="long", b=["null", "string"], c=part, d=["null", "P"], e=["int", "long"])
    assert ddl(avro.columns(text)) == (
        "a BIGINT, b STRING, c STRUCT<p: FLOAT>, d STRUCT<p: FLOAT>, e BIGINT"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "an Avro schema is JSON"),
        ('"string"', "the schema is not of a record"),
        (record(a="strin"), "unknown type 'strin'"),
        (record(a=["null", "x.R"]), "record x.R contains itself"),
        ('{"type": "record", "name": "R"}', "record R has no fields"),
        (record(a="null"), 'no Avro schema: "null"'),
        (record(a=["null"]), "a field of type null alone"),
        (record(a={"type": "array"}), "no Avro schema: {"),
        (record(a=7), "no Avro schema: 7"),
        (record(**{"a-b": "int"}), "'a-b' is no name of a field in Avro"),
        (record(a="int", A="int"), "record x.R has a field twice (case does not matter)"),
        (record(a={"type": "enum", "symbols": ["A"]}), "'' is no name of a type in Avro"),
    ],
)
def test_avro_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        avro.columns(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, "field a: precision null: a decimal of th"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, "field a: precision 0"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 64}, "1 to 38 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": "10"}, 'precision "10"'),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 6}, "scale 6"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10},
         "1 to 9 digits"),
        (["string", "string"], "the union has string twice"),
        (["int", {"type": "int", "logicalType": "date"}], "the union has int twice"),
        (["null", ["int"]], "a union within a union"),
        ({"type": "enum", "name": "E"}, "an enum has symbols"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "each once"),
        ({"type": "fixed", "name": "F"}, "a fixed has a size"),
        ({"type": "fixed", "name": "F", "size": 0}, "a fixed has a size"),
        ({"type": {"type": "int"}}, "no Avro schema"),
        ({"type": "fixed", "name": "tidegate.Boolean", "size": 1}, "is taken"),
        ({"type": "array", "items": {"type": "fixed", "name": "F"}}, "field a.items: a fixed"),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]},
         "the name x.R is defined twice"),
    ],
)  # fmt: skip
def test_avro_that_spark_would_refuse_in_each_run(kind: Any, says: str) -> None:
    """It is refused when the file is read, with the place."""
    with pytest.raises(SchemaError, match="field a") as error:
        avro.columns(record(a=kind))
    assert says in str(error.value)


def test_a_union_of_records_is_no_record() -> None:
    one = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    with pytest.raises(SchemaError, match="not of a record"):
        avro.columns(json.dumps([one, "null"]))


def test_an_int_in_another_form_widens_a_union() -> None:
    (field,) = avro.columns(record(a=["null", {"type": "int"}, "long"]))
    assert str(field) == "a BIGINT"


def test_how_a_schema_is_read() -> None:
    """What Spark would cut is read as it is, and 16 bytes show that nothing is left."""
    whole = json.loads(avro.reading_form(record(
        a="boolean", b=["null", "boolean"], c={"type": "int", "logicalType": "date"},
        d=["int", "long"], e={"type": "bytes", "logicalType": "decimal", "precision": 4},
    )))  # fmt: skip
    value, end = whole["fields"]
    types = [field["type"] for field in value["type"]["fields"]]
    assert types == [
        {"type": "fixed", "name": "tidegate.Boolean", "size": 1}, ["null", "tidegate.Boolean"],
        "long", ["int", "long"],
        {"type": "bytes", "logicalType": "decimal", "precision": 38},
    ]  # fmt: skip
    assert end["type"]["size"] == len(avro.END) == 16
    assert not any(avro.END.endswith(avro.END[:n]) for n in range(1, 16))
