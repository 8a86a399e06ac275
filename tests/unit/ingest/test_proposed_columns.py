"""Columns that are proposed for a topic: those by which its sampled values fit."""

import json
from typing import Any

import pytest

from tidegate.core import sampled_columns, schema
from tidegate.core.decoding import Decoder, Decoding
from tidegate.pipelines import scaffold
from tidegate.pipelines.pipeline_files import examine_text
from tidegate.pipelines.spec import Ingest
from tidegate.samples.proposed_decoder import better_than, propose_decoder
from tidegate.spark import formats

by_csv = formats.format_of_records("csv").decoder


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"id": 1, "ok": True, "name": "a", "share": 0.5}],
         "id BIGINT, ok BOOLEAN, name STRING, share DOUBLE"),
        ([{"n": 1}, {"n": 1.5}], "n DOUBLE"),
        ([{"n": 1}, {"n": "x"}], "n STRING"),
        ([{"n": 2**63}], "n STRING"),
        ([{"n": 12345678901234567}, {"n": 0.5}], "n STRING"),
        ([{"n": None}, {}], "n STRING"),
        ([{"t": "2024-01-01T00:00:00Z"}, {"t": "2024-01-01 05:00:00.25+01:00"}], "t TIMESTAMP"),
        ([{"d": "2024-01-01"}], "d DATE"),
        ([{"d": "2024-01-01"}, {"d": "soon"}], "d STRING"),
        ([{"s": {"a": 1}}, {"s": {"b": [1, 2.5]}}], "s STRUCT<a: BIGINT, b: ARRAY<DOUBLE>>"),
        ([{"s": {"a": 1}}, {"s": 1}], "s STRING"),
        ([{"l": []}, {"l": [None]}], "l ARRAY<STRING>"),
        ([{"l": [{"a": 1}, {"b": "x"}]}], "l ARRAY<STRUCT<a: BIGINT, b: STRING>>"),
        ([{"e": {}}], "e STRING"),
        ([{"a": 1, "A": "x"}], "a BIGINT"),
        ([{"a b": 1}], "`a b` BIGINT"),
    ],
)  # fmt: skip
def test_columns(rows: list[Any], columns: str) -> None:
    assert schema.render_ddl(sampled_columns.columns_of_objects(map(json.dumps, rows))) == columns


@pytest.mark.parametrize(
    ("rows", "remarks"),
    [
        ([{"n": 1}, {"n": 2.5}, {"n": "x"}], ["n: STRING (2 numbers, 1 text)"]),
        ([{"n": 1}, {"n": 2.5}, {"n": None}, {}], []),
        ([{"d": "2024-01-01"}] * 2 + [{"d": "soon"}], ["d: STRING (2 dates, 1 text)"]),
        ([{"b": True}, {"b": {}}, {"b": []}], ["b: STRING (1 boolean, 1 object, 1 array)"]),
        ([{"a": 1, "A": "x"}], []),
        ([{"${X}": 1}, {"${X}": "x"}, {"a\nb": 1}, {"a\nb": "x"}], []),
    ],
)
def test_columns_that_are_text_because_their_values_differ(
    rows: list[Any], remarks: list[str]
) -> None:
    texts = [json.dumps(row) for row in rows]
    assert sampled_columns.mixed_columns(texts) == remarks
    columns = schema.render_ddl(sampled_columns.columns_of_objects(texts))
    assert all(f"{remark.partition(':')[0]} STRING" in columns for remark in remarks)


def test_a_long_schema_has_a_line_for_each_column() -> None:
    """And the file means the same. A short one stands in one line; remarks are comments."""
    names = ["`a,  b`", "`#c`", "`: d`", *(f"column_{n}" for n in range(30))]
    long = Decoder("json", ", ".join(f"{name} STRING" for name in names), "v_")
    remarks = ["column_1: STRING (2 numbers, 1 text)"]
    proposals = {
        "long": scaffold.Proposal(long, 3, remarks),
        "short": scaffold.Proposal(Decoder("json", "id BIGINT"), 3),
        "none": scaffold.Proposal(None, 0),
    }
    text = scaffold.ingest_text("p", ["long", "short", "none"], "/lake", "k", proposals)
    lines = text.splitlines()
    assert f"    # {remarks[0]}" in lines
    assert "        column_29 STRING" in lines
    assert any(line.endswith("schema: id BIGINT}") for line in lines)
    found = examine_text(text, "p", {})
    assert isinstance(found.spec, Ingest), found.complaints
    assert found.spec.decoding["long"].value == long
    assert set(found.spec.decoding) == {"long", "short"}


@pytest.mark.parametrize(
    ("values", "proposed"),
    [
        ([b'{"id": 1}', b'{"id": 2}'], Decoder("json", "id BIGINT")),
        ([b'{"id": 1}'] * 9 + [b"poison"], Decoder("json", "id BIGINT")),
        ([b'{"id": 1}', b"text"], Decoder("string", "text STRING")),
        ([b"a,b", b"c,d"], Decoder("string", "text STRING")),
        ([b"[1]"], Decoder("string", "text STRING")),
        ([b"\xff"], None),
        ([], None),
        ([b'{"Timestamp": 1, "b": 2}'], Decoder("json", "Timestamp BIGINT, b BIGINT", "value_")),
    ],
)
def test_decoders(values: list[bytes], proposed: Decoder | None) -> None:
    assert propose_decoder(values) == proposed


@pytest.mark.parametrize(
    ("declared", "value", "fault", "better"),
    [
        ("id INT", {"id": 1}, "", None),
        ("id INT", {"id": 2**40}, "value: id: no INT", "id BIGINT"),
        ("id INT, n INT", {"id": 1, "n": 2**40}, "value: id: no INT, n: no INT",
         "id BIGINT, n BIGINT"),
        ("id FLOAT", {"id": 0.5}, "value: id: beyond FLOAT", "id DOUBLE"),
        ("id INT", {"id": 1}, "key: id: no INT", None),
        ("id INT", {"id": 1}, "value: no JSON; key: id: no INT", None),
        ("a INT, `a.b` INT", {"a": 1, "a.b": 2**40}, "value: a.b: no INT", "a INT, `a.b` BIGINT"),
        ("floor INT, gate STRUCT<name: STRING, floor: INT>", {"floor": 1},
         "value: gate: no STRUCT<name: STRING, floor: INT>", None),
        ("id INT", {"id": 1, "new": "x"}, "", "id INT, new STRING"),
        ("id INT", {"id": 2**40, "timestamp": 5}, "value: id: no INT", "id BIGINT"),
        ("id INT", {"id": 1, "Topic": 5}, "", None),
        ("id INT", {"id": 1, "of_key": 5}, "", None),
    ],
)  # fmt: skip
def test_better_columns(declared: str, value: Any, fault: str, better: str | None) -> None:
    """What does not fit is wider, no other column is; what the lake has is not proposed."""
    decoding = Decoding(Decoder("json", declared), Decoder("string", "of_key STRING"))
    found = better_than(decoding, [json.dumps(value).encode()], [fault])
    assert found == (Decoder("json", better) if better else None)


def test_another_format() -> None:
    """Text is proposed as text, names that the lake has with a prefix; Avro stays as it is."""
    assert better_than(Decoding(), [b"a,b"], []) == Decoder("string", "text STRING")
    named = better_than(Decoding(), [b'{"offset": 1}'], [])
    assert named == Decoder("json", "offset BIGINT", "value_")
    assert better_than(Decoding(by_csv("a INT")), [b"x"], ["value: a: no INT"]) is None
