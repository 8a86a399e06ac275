"""The key `decode`: what it says, and each complaint with its place."""

from pathlib import Path
from typing import Any

import pytest

from tidegate.core.decoding import Decoder, Decoding
from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.spark import formats

by_avro = formats.format_of_records("avro").decoder
by_csv = formats.format_of_records("csv").decoder

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'


def spec(decode: Any, **more: Any) -> Ingest:
    given = {"name": "p", "kind": "ingest", "topics": ["orders"], "lake": "/lake"}
    found = parse_spec({**given, **more, "decode": decode})
    assert isinstance(found, Ingest)
    return found


def of_value(**decoder: Any) -> dict[str, Any]:
    return {"orders": {"value": decoder}}


def test_what_it_says() -> None:
    """Schemas are in one form: another layout of the text is no other decoding."""
    decode = {
        "orders": {"value": {"format": "json", "schema": "id long,\n `a b` Struct<x:int>"}},
        "*": {
            "key": {"format": "string"},
            "value": {"format": "csv", "schema": "k INT", "separator": ";", "prefix": "v_"},
        },
    }
    assert spec(decode).decoding == {
        "orders": Decoding(value=Decoder("json", "id BIGINT, `a b` STRUCT<x: INT>")),
        "*": Decoding(
            value=by_csv("k INT", "v_", separator=";"),
            key=Decoder("string", "text STRING"),
        ),
    }
    avro = spec(of_value(format="avro", schema=AVRO)).decoding["orders"].value
    assert avro == by_avro(AVRO.replace(" ", ""))


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({}, None),
        ({"refunds": {"value": {"format": "string"}}}, "decode: not among the topics: ['refunds']"),
        ({"orders": {}}, "decode.orders: give value, key or both"),
        (of_value(), "decode.orders.value.format: missing"),
        (of_value(format="jsn"), "decode.orders.value.format: 'jsn': must be json, csv, avro or "
         "string; did you mean 'json'?"),
        (of_value(format="json"), "decode.orders.value.schema: missing; for example id BIGINT"),
        (of_value(format="avro"), 'decode.orders.value.schema: missing; for example \'{"type"'),
        (of_value(format="json", schema="id INTT"), "decode.orders.value.schema: character 4: "
         "unknown type INTT; did you mean 'int'?"),
        (of_value(format="avro", schema="id INT"), "value.schema: an Avro schema is JSON"),
        (of_value(format="string", schema="id INT"), "value.schema: a text is one STRING"),
        (of_value(format="csv", schema="a ARRAY<INT>"), "value.schema: CSV has no ARRAY<INT>: a"),
        (of_value(format="csv", schema="a BINARY"), "value.schema: CSV has no BINARY: a"),
        (of_value(format="json", schema="Offset INT"), "decode.orders: value: the lake has a "
         "column Offset of its own: give a `prefix`"),
        (of_value(format="json", schema="window_date DATE"), "the lake has a column window_date"),
        (of_value(format="json", schema="id INT", prefix="1"), "prefix: '1': must begin a name"),
        (of_value(format="json", schema="id INT", separator=";"), "separator: json has none"),
        (of_value(format="csv", schema="id INT", separator=";;"), "';;': must be one character"),
        (of_value(format="csv", schema="id INT", separator='"'), "up to U+FFFF, and no quote"),
        (of_value(format="json", scema="id INT"), "scema: unknown key; did you mean 'schema'?"),
        ({"orders": {"vale": {}}}, "decode.orders.vale: unknown key; did you mean 'value'?"),
        ({"orders": {"key": {"format": "string"}, "value": {"format": "string"}}},
         "decode.orders: key: column text occurs twice: give a `prefix`"),
        ({"a b": {"value": {"format": "string"}}}, "a topic's name has letters"),
    ],
)  # fmt: skip
def test_complaints(decode: Any, said: str | None) -> None:
    if said is None:
        assert spec(decode).decoding == {}
        return
    with pytest.raises(ValueError) as raised:
        spec(decode)
    assert said in str(raised.value)


def test_topics_of_a_pattern() -> None:
    decode = {"orders.eu": {"value": {"format": "string"}}}
    assert spec(decode, topics=[], pattern="orders[.].*").decoding
    with pytest.raises(ValueError, match="not among the topics"):
        spec(decode, topics=[], pattern="refunds")


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    """Beside the pipeline's; one that is not there is a complaint by its name."""
    text = "name: p\nkind: ingest\ntopics: [orders]\nlake: /lake\ndecode:\n  orders:\n"
    text += "    value: {format: json, schema: {file: orders.ddl}}\n"
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        pipeline_files.load_spec(pipeline)
    missing = "decode.orders.value.schema: orders.ddl cannot be read: No such file or directory"
    assert missing in str(raised.value)
    (tmp_path / "orders.ddl").write_text("id BIGINT,\nname STRING\n")
    found = pipeline_files.load_spec(pipeline)
    assert isinstance(found, Ingest)
    assert found.decoding["orders"].value == Decoder("json", "id BIGINT, name STRING")
    (tmp_path / "orders.ddl").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"orders\.ddl cannot be read"):
        pipeline_files.load_spec(pipeline)
