"""Avro schemas are read as Spark reads them."""

import json
from typing import Any

import pytest

from tidegate.core.schema import SchemaError, render_ddl
from tidegate.spark.formats import avro_schema


def record(**fields: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "namespace": "x",
         "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )  # fmt: skip


def test_avro() -> None:
    """The columns of each kind of type; tests/spark/test_decoding.py compares them with Spark's."""
    part = {"type": "record", "name": "P", "fields": [{"name": "p", "type": "float"}]}
    text = record(a="long", b=["null", "string"], c=part, d=["null", "P"], e=["int", "long"])
    assert render_ddl(avro_schema.columns_of_schema(text)) == (
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
        (record(a={"type": "enum", "symbols": ["A"]}), "'x.' is no name of a type in Avro"),
    ],
)
def test_avro_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        avro_schema.columns_of_schema(text)
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
        ({"type": "fixed", "name": "F", "size": 1 << 31}, "a fixed has a size, 1 to 67,108,864"),
        ({"type": "enum", "name": "E", "symbols": [True]}, "True is no symbol"),
        ({"type": "enum", "name": "E", "namespace": "a-b", "symbols": ["A"]}, "'a-b.E' is no"),
        ({"type": "enum", "name": "E", "namespace": "a..b", "symbols": ["A"]}, "'a..b.E' is no"),
        ({"type": "enum", "name": "long", "namespace": "", "symbols": ["A"]}, "that of a type"),
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
        avro_schema.columns_of_schema(record(a=kind))
    assert says in str(error.value)


def test_a_union_of_records_is_no_record() -> None:
    one = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    with pytest.raises(SchemaError, match="not of a record"):
        avro_schema.columns_of_schema(json.dumps([one, "null"]))


def test_an_int_in_another_form_widens_a_union() -> None:
    (field,) = avro_schema.columns_of_schema(record(a=["null", {"type": "int"}, "long"]))
    assert str(field) == "a BIGINT"


def test_how_a_schema_is_read() -> None:
    """What Spark would cut is read as it is, and 16 bytes show that nothing is left."""
    whole = json.loads(avro_schema.reading_form(record(
        a="boolean", b=["null", "boolean"], c={"type": "int", "logicalType": "date"},
        d=["int", "long"], e={"type": "bytes", "logicalType": "decimal", "precision": 4},
    )))  # fmt: skip
    value, end = whole["fields"]
    types = [field["type"] for field in value["type"]["fields"]]
    assert types == [
        {"type": "fixed", "name": "tidegate.Boolean", "size": 1}, ["null", "tidegate.Boolean"],
        "long", ["int", "long"],
        {"type": "bytes", "scale": 0, "logicalType": "decimal", "precision": 38},
    ]  # fmt: skip
    assert end["type"]["size"] == len(avro_schema.END) == 16
    assert not any(avro_schema.END.endswith(avro_schema.END[:n]) for n in range(1, 16))


def test_what_spark_has_no_use_for_is_not_given_to_it() -> None:
    """Spark checks it all the same: an alias that is no name would fail each run."""
    odd = {"aliases": ["order-v1"], "x": float("nan"), "doc": "d"}
    named = {
        "e": {"type": "enum", "name": "E", "symbols": ["A"], "default": "B", **odd},
        "f": {"type": "fixed", "name": "F", "size": 4, **odd},
        "d": {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 3,
              **odd},
        "r": {**odd, "type": "record", "name": "P", "fields": [{"name": "p", "type": "int"}]},
        "n": {"type": "long", "logicalType": "custom-decimal", "precision": 10, "scale": 2},
        "i": {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
        "t": {"type": "long", "logicalType": "timestamp-micros", **odd},
    }  # fmt: skip
    text = record(**named)
    assert render_ddl(avro_schema.columns_of_schema(text)) == (
        "e STRING, f BINARY, d DECIMAL(3,0), r STRUCT<p: INT>, n BIGINT, i BIGINT, t TIMESTAMP"
    )
    whole = json.loads(avro_schema.reading_form(text))
    fields = whole["fields"][0]["type"]["fields"]
    assert [field["type"] for field in fields] == [
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "fixed", "name": "F", "size": 4},
        {"type": "fixed", "name": "D", "size": 4, "scale": 0, "logicalType": "decimal",
         "precision": 9},
        {"type": "record", "name": "P", "fields": [{"name": "p", "type": "long"}]},
        "long", "long", {"type": "long", "logicalType": "timestamp-micros"},
    ]  # fmt: skip


def test_a_namespace_that_is_no_text_is_none() -> None:
    kind = {"type": "enum", "name": "E", "namespace": None, "symbols": ["A"]}
    assert render_ddl(avro_schema.columns_of_schema(record(a=kind, b="E"))) == "a STRING, b STRING"


@pytest.mark.parametrize("depth", [31, 300])
def test_types_are_not_nested_deeper_than_sql_has_them(depth: int) -> None:
    """The place is named, whatever the depth."""
    kind: Any = "int"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    with pytest.raises(SchemaError, match=r"field a\.items.*: types are nested deeper than 30"):
        avro_schema.columns_of_schema(record(a=kind))
