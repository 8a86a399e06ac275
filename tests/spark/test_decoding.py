"""Typed columns: each is what Python's own readers say, or null with a reason; no row is lost."""

import json
import math
import random
import re
import struct
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from tidegate.core import schema
from tidegate.core.decoding import Decoder, Decoding
from tidegate.spark import formats
from tidegate.spark.decoded_rows import decode_rows
from tidegate.spark.session import configure_session

avro = formats.format_of_records("avro").decoder
csv = formats.format_of_records("csv").decoder

COLUMNS = """a INT, b STRING, d DOUBLE, t TIMESTAMP, day DATE, n DECIMAL(5,2), ok BOOLEAN,
    raw BINARY, l ARRAY<INT>, m MAP<STRING, INT>, f ARRAY<FLOAT>, deep ARRAY<STRUCT<p: INT>>,
    s STRUCT<p: INT, r: STRUCT<u: INT>, x: DOUBLE, at: TIMESTAMP>"""
NO_JSON = "no JSON, more than one value, or a key that occurs twice in an object"


def read(
    spark: SparkSession, values: Sequence[bytes | None], value: Decoder | None, **more: Any
) -> list[Row]:
    """Return the decoded rows of values, in their order."""
    rows = [(n, None, None if v is None else bytearray(v)) for n, v in enumerate(values)]
    frame = spark.createDataFrame(rows, "at INT, key BINARY, value BINARY")
    found = decode_rows(frame, Decoding(value, **more)).collect()
    return sorted(found, key=lambda row: int(row.at))


def given(row: Row) -> dict[str, Any]:
    """Return the columns of a row that are not null, without the bytes."""
    form = row.asDict(recursive=True)
    return {
        k: v for k, v in form.items()
        if v is not None and k not in ("at", "key", "value", "_undecodable")
    }  # fmt: skip


FITS = {
    b'{"a": 1, "b": "x", "more": [1]}': {"a": 1, "b": "x"},
    b' {"a":-0} ': {"a": 0},
    b"{}": {},
    b'{"b":"tidegate end"}': {"b": "tidegate end"},
    b'{"a":null,"A":7}': {},
    b'{"b":7,"d":7}': {"b": "7", "d": 7.0},
    b'{"b":{"k":[1]}}': {"b": '{"k":[1]}'},
    b'{"b":"\\ud83d\\ude00"}': {"b": "\U0001f600"},
    b'{"b":"\\\\uDADA"}': {"b": "\\uDADA"},
    b'{"raw":"aGk="}': {"raw": b"hi"},
    b'{"n":1.5,"ok":true}': {"n": Decimal("1.50"), "ok": True},
    b'{"n":"1.50","b":"\\u0041"}': {"n": Decimal("1.50"), "b": "A"},
    b'{"\\u006e":1.50}': {"n": Decimal("1.50")},
    b'{"b":1.10}': {"b": "1.10"},
    b'{"b":-0}': {"b": "-0"},
    b'{"b":12345678901234567890.10}': {"b": "12345678901234567890.10"},
    b'{"b":{"k":[1.50,"1.50"]}}': {"b": '{"k":[1.50,"1.50"]}'},
    b'{"b":"1.50","n":12e-1}': {"b": "1.50", "n": Decimal("1.20")},
    b'{"t":"2024-02-29T10:00Z"}': {"t": datetime(2024, 2, 29, 10)},
    b'{"b":"\\\\ufdd0"}': {"b": "\\ufdd0"},
    b'{"day":"2024-02-29"}': {"day": date(2024, 2, 29)},
    b'{"l":[1,null],"m":{"k":2}}': {"l": [1, None], "m": {"k": 2}},
    b'{"s":{"p":1,"r":{"u":2}}}': {"s": {"p": 1, "r": {"u": 2}, "x": None, "at": None}},
}
UNFIT = {
    b'{"a":3000000000,"b":"x"}': ("a: no INT", {"b": "x"}),
    b'{"a":"5"}': ("a: no INT", {}),
    b'{"a":1.0,"ok":"true"}': ("a: no INT, ok: no BOOLEAN", {}),
    b'{"d":1e400}': ("d: no DOUBLE", {}),
    b'{"d":"NaN"}': ("d: no DOUBLE", {}),
    b'{"s":{"x":-1e400}}': ("s.x: no DOUBLE", {"s": dict.fromkeys(("p", "r", "x", "at"))}),
    b'{"f":[1e400]}': ("f: no ARRAY<FLOAT>", {"f": [None]}),
    b'{"n":12345.6}': ("n: no DECIMAL(5,2)", {}),
    b'{"t":"today","day":"2024-02-30"}': ("t: no TIMESTAMP, day: no DATE", {}),
    b'{"t":1700000000}': ("t: no TIMESTAMP", {}),
    b'{"t":9223372036854775807}': ("t: no TIMESTAMP", {}),
    b'{"\\u0074" : 1.5e9}': ("t: no TIMESTAMP", {}),
    b'{"s":{"at":17}}': ("s.at: no TIMESTAMP", {"s": dict.fromkeys(("p", "r", "x", "at"))}),
    b'{"n":1e1000000000,"a":1e1000000000}': ("a: no INT, n: no DECIMAL(5,2)", {}),
    b'{"raw":"not base64!"}': ("raw: no BINARY", {}),
    b'{"raw":true}': ("raw: no BINARY", {}),
    b'{"raw":1234}': ("raw: no BINARY", {}),
    b'{"s":"{}"}': ("s: no STRUCT<p: INT, r: STRUCT<u: INT>, x: DOUBLE, at: TIMESTAMP>", {}),
    b'{"l":[1,"x"]}': ("l: no ARRAY<INT>", {}),
    b'{"m":{"k":"x"}}': ("m: no MAP<STRING, INT>", {}),
    b'{"deep":[{"p":"x"}]}': ("deep: no ARRAY<STRUCT<p: INT>>", {"deep": [{"p": None}]}),
    b'{"s":{"p":"x","x":1}}': ("s.p: no INT", {"s": {"p": None, "r": None, "x": 1.0, "at": None}}),
    b'{"s":{"r":{"u":"x"}}}': (
        "s.r.u: no INT",
        {"s": {"p": None, "r": {"u": None}, "x": None, "at": None}},
    ),
    b'{"a":1,"a":2}': (NO_JSON, {}),
    b'{"other":{"a":1,"a":2}}': (NO_JSON, {}),
    b"": (NO_JSON, {}),
    b"plain": (NO_JSON, {}),
    b'{"a":1},"tidegate end"],[{}': (NO_JSON, {}),
    b'{"a":1},"tidegate \\u0065nd"],[{}': (NO_JSON, {}),
    b'{"a":1': (NO_JSON, {}),
    b"{'a':1}": (NO_JSON, {}),
    b'{"a":01}': (NO_JSON, {}),
    b'{"d":NaN}': (NO_JSON, {}),
    b'\xef\xbb\xbf{"a":1}': (NO_JSON, {}),
    b'{"x":' * 1100 + b"1" + b"}" * 1100: (NO_JSON, {}),
    b'{"b":"\xef\xb7\x90"}': ("U+FDD0, which is no character", {}),
    b'{"b":"\\uFdd0"}': ("U+FDD0, which is no character", {}),
    b'{"a":1},"x":{"a":2}': (NO_JSON, {}),
    b'{"a":1},"\xef\xb7\x90value":{"a":2}': ("U+FDD0, which is no character", {}),
    b'{"a":1},"\xef\xb7\x90end"],["': ("U+FDD0, which is no character", {}),
    b'{"n":1.234}': ("n: no DECIMAL(5,2)", {}),
    b'{"n":1e10000000}': ("n: no DECIMAL(5,2)", {}),
    b'{"n":"1,5","day":"45678","t":"12:30"}': (
        "t: no TIMESTAMP, day: no DATE, n: no DECIMAL(5,2)",
        {},
    ),
    b'{"s":5,"l":5,"m":[1]}': (
        "l: no ARRAY<INT>, m: no MAP<STRING, INT>, "
        "s: no STRUCT<p: INT, r: STRUCT<u: INT>, x: DOUBLE, at: TIMESTAMP>",
        {},
    ),
    b'{"a":1} behind': (NO_JSON, {}),
    b'{"a":1}{"a":2}': (NO_JSON, {}),
    b'{"a":1}}': (NO_JSON, {}),
    b"{},0],[{}": (NO_JSON, {}),
    b'[{"a":1}]': ("no JSON object", {}),
    b"3": ("no JSON object", {}),
    b"null": ("no JSON object", {}),
    b'{"b":"\xff"}': ("no UTF-8", {}),
    b'{"b":"\\uDADA"}': ("half a surrogate pair", {}),
}


def test_json(spark: SparkSession) -> None:
    """A record that fits has its values; of another one the fields that fit, and the reason."""
    rows = read(spark, [*FITS, *UNFIT, None], Decoder("json", COLUMNS))
    for (value, expected), row in zip(FITS.items(), rows, strict=False):
        assert (given(row), row._undecodable) == (expected, None), value
    for (value, (reason, expected)), row in zip(UNFIT.items(), rows[len(FITS) :], strict=False):
        assert (given(row), row._undecodable) == (expected, f"value: {reason}"), value
        assert row.value == value
    assert (given(rows[-1]), rows[-1]._undecodable) == ({}, None)


def test_a_key_with_escapes_is_looked_at(spark: SparkSession) -> None:
    """Its number is not put in quotes, so Spark computes with it: this one would become 1.23."""
    number = b"1.2300000000000000001"
    values = [b'{"\\u006e":' + number + b"}", b'{"n":' + number + b"}", b'{"\\u006e":1.5}']
    rows = read(spark, values, Decoder("json", "n DECIMAL(5,2)"))
    assert [row.n for row in rows] == [None, None, Decimal("1.50")]
    assert [row._undecodable for row in rows] == ["value: n: no DECIMAL(5,2)"] * 2 + [None]


def test_timestamps_are_utc(spark: SparkSession) -> None:
    """Also where a cluster has another time zone: a retry on another machine decodes alike."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    configure_session(mine)
    values = [b'{"t":"2024-01-01T00:00:00"}', b'{"t":"2024-01-01T01:00:00+01:00"}']
    rows = read(mine, values, Decoder("json", "t TIMESTAMP"))
    of_csv = read(mine, [b"2024-01-01 00:00:00"], csv("t TIMESTAMP"))
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert [row.t.astimezone(UTC) for row in [*rows, *of_csv]] == [moment] * 3


def test_random_json(spark: SparkSession) -> None:
    """2,000 values, half of them damaged: Python's reader says which are whole, and what is in
    them.
    """
    rng = random.Random(7)
    values = [_random_json(rng) for _ in range(2_000)]
    rows = read(spark, values, Decoder("json", "a INT, b STRING, c BOOLEAN, d DOUBLE"))
    fitting = 0
    for value, row in zip(values, rows, strict=True):
        expected = _judge(value)
        assert (row._undecodable is None) == (expected is not None), value
        if expected is not None:
            fitting += 1
            assert given(row) == expected, value
    assert 300 < fitting < 1_700


def _random_json(rng: random.Random) -> bytes:
    kinds: list[Any] = [None, True, 0, -7, 2**31, 2**40, 1.5, -0.25, 1e20, "", "x", "5", "true",
                        "\u20ac", "\U0001f600", 'q"\\', [1], {"a": 1}]  # fmt: skip
    fitting: dict[str, list[Any]] = {"a": [0, -7], "c": [True, None], "d": [1.5, 7, -0.25]}
    form = {
        name: rng.choice(fitting.get(name, kinds) if rng.random() < 0.9 else kinds)
        for name in "abcde"
        if rng.random() < 0.7
    }
    text = json.dumps(form, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.5:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "{", "}", '"', ",", " ", "\\", "1", "]", "\n"]) + text[
            at + rng.randrange(2) :
        ]  # fmt: skip
    return text.encode()


def _judge(value: bytes) -> dict[str, Any] | None:
    """Return what the columns must be, by Python's own reader; None for a damaged value."""

    def no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    try:
        form = json.loads(value, object_pairs_hook=no_twice, parse_float=_Number, parse_int=_Number)
    except ValueError:
        return None
    if not isinstance(form, dict) or re.search(
        "[\ud800-\udfff]", json.dumps(form, ensure_ascii=False)
    ):
        return None
    found: dict[str, Any] = {}
    for name, fits in (("a", _int), ("b", _text), ("c", _bool), ("d", _double)):
        if (given_ := form.get(name)) is not None:
            if (typed := fits(given_)) is None:
                return None
            found[name] = typed
    return found


class _Number(str):
    __slots__ = ()


def _int(value: Any) -> int | None:
    if isinstance(value, _Number) and value.lstrip("-").isdecimal():
        return int(value) if -(2**31) <= int(value) < 2**31 else None
    return None


def _text(value: Any) -> Any:
    """Return a text; of another value something that equals any text that Spark may make of it."""
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    return value if is_text else _Any()


class _Any:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    __hash__ = None  # type: ignore[assignment]


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _double(value: Any) -> float | None:
    if isinstance(value, _Number):
        return float(value) if math.isfinite(float(value)) else None
    return None


ODD = "U+0000, U+FDD0 or a first U+FEFF, which Spark's reader changes"
CSV_FITS = {
    b"1,x,2.5": (1, "x", 2.5),
    b'1,"a ""q"" b",2': (1, 'a "q" b', 2.0),
    b'1,"a\r\nb",2\r\n': (1, "a\r\nb", 2.0),
    b"1,,": (1, None, None),
    b'1,"",2': (1, "", 2.0),
    b",,": (None, None, None),
    b"1,\xe2\x82\xac,-2e3": (1, "\u20ac", -2000.0),
    b'1,"' + b"x" * 3_000_000 + b'",2': (1, "x" * 3_000_000, 2.0),
}
CSV_UNFIT = {
    b"x,y,2": ("a: no INT", (None, "y", 2.0)),
    b"3000000000,b,1": ("a: no INT", (None, "b", 1.0)),
    b"1,b,1d": ("c: no DOUBLE", (1, "b", None)),
    b"1,b,NaN": ("c: no DOUBLE", (1, "b", None)),
    b"1,b,1e999": ("c: no DOUBLE", (1, "b", None)),
    b"1,b": ("not 3 values", (None, None, None)),
    b"1,b,2,3": ("not 3 values", (None, None, None)),
    b"," * 30_000: ("not 3 values", (None, None, None)),
    b'1,"open,2': ("no record of CSV by RFC 4180", (None, None, None)),
    b'1,"a"b,2': ("no record of CSV by RFC 4180", (None, None, None)),
    b'1,b"c,2': ("no record of CSV by RFC 4180", (None, None, None)),
    b"1,b,2\n2,c,3": ("no record of CSV by RFC 4180", (None, None, None)),
    b"1,\xff,2": ("no UTF-8", (None, None, None)),
    b'1,"a\0b",2': (ODD, (None, None, None)),
    b"1,\xef\xb7\x90null,2": (ODD, (None, None, None)),
    b"\xef\xbb\xbf1,b,2": (ODD, (None, None, None)),
}


def test_csv(spark: SparkSession) -> None:
    """A record of CSV is what RFC 4180 says, with the null and the empty text apart."""
    rows = read(spark, [*CSV_FITS, *CSV_UNFIT], csv("a INT, b STRING, c DOUBLE"))
    for (value, expected), row in zip(CSV_FITS.items(), rows, strict=False):
        assert ((row.a, row.b, row.c), row._undecodable) == (expected, None), value[:50]
    for (value, (reason, expected)), row in zip(
        CSV_UNFIT.items(), rows[len(CSV_FITS) :], strict=True
    ):
        assert ((row.a, row.b, row.c), row._undecodable) == (expected, f"value: {reason}"), value


def test_another_separator(spark: SparkSession) -> None:
    rows = read(spark, [b"1;a,b", b'2;"c;d"'], csv("a INT, b STRING", separator=";"))
    assert [(row.a, row.b, row._undecodable) for row in rows] == [
        (1, "a,b", None),
        (2, "c;d", None),
    ]


def record(*fields: tuple[str, Any]) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "R", "fields": named})


def test_avro(spark: SparkSession) -> None:
    """A value is exactly one record of the schema, or has a reason. The bytes are by hand."""
    fits = {b"\x02\x00": (1, None), b"\x04\x02\x02x": (2, "x")}
    unfit = [b"", b"zzz", b"\x02", b"\x02\x00behind", b"\x02\x02\x08ab", b"\x02\x04"]
    of_two = record(("id", "long"), ("name", ["null", "string"]))
    rows = read(spark, [*fits, *unfit, None], avro(of_two))
    for (value, expected), row in zip(fits.items(), rows, strict=False):
        assert (row.id, row.name, row._undecodable) == (*expected, None), value
    for value, row in zip(unfit, rows[2:], strict=False):
        found = row.id, row.name, row._undecodable
        assert found == (None, None, "value: no Avro of this schema"), value
    assert rows[-1]._undecodable is None


def test_avro_of_nulls_alone(spark: SparkSession) -> None:
    """Spark returns a record of nulls for what it cannot read, too."""
    of_nulls = record(("a", ["null", "int"]), ("b", ["int", "null"]))
    rows = read(spark, [b"\x00\x02", b"", b"\x00\x09"], avro(of_nulls))
    assert [row._undecodable for row in rows] == [None, *["value: no Avro of this schema"] * 2]


def test_avro_leaves(spark: SparkSession) -> None:
    """What Spark would cut, guess or leave unreadable does not fit, and says which field it is."""
    of = record(
        ("text", "string"), ("ok", ["null", "boolean"]), ("n", "int"), ("x", "double"),
        ("paid", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("tags", {"type": "array", "items": "string"}), ("m", {"type": "map", "values": "int"}),
    )  # fmt: skip

    def value(**more: bytes) -> bytes:
        fields = {
            "text": b"\x02a", "ok": b"\x02\x01", "n": b"\x0e", "x": struct.pack("<d", math.nan),
            "paid": b"\x04\x04\xd2", "at": b"\x00", "tags": b"\x02\x02b\x00",
            "m": b"\x02\x02k\x04\x00",
        } | more  # fmt: skip
        return b"".join(fields.values())

    frame = b"\0\0\0\0\x2a"
    unfit = {
        value(text=b"\x02\xff"): "text: no UTF-8",
        value(ok=b"\x02\x07"): "ok: no BOOLEAN",
        value(n=b"\xfe\xff\xff\xff\x1f"): "n: no INT",
        value(paid=b"\x12\x01" + b"\0" * 7 + b"\x64"): "paid: no DECIMAL(9,2)",
        value(at=_long(300_000_000_000_000)): "at: no TIMESTAMP",
        value(tags=b"\x02\x02\xff\x00"): "tags: no ARRAY<STRING>",
        value(m=b"\x02\x02\xff\x04\x00"): "m: no MAP<STRING, INT>",
        value() + b"\0": "no Avro of this schema",
        frame + value(): "begins with a registry's frame: 00 and a schema's number",
        # Lengths beyond the record: the application is not to end.
        value(text=_long(1_900_000_000) + b"abc"): "no Avro of this schema",
        value(tags=_long(1_900_000_000) + b"\x02b\x00"): "no Avro of this schema",
    }
    row, *others = read(spark, [value(), *unfit], avro(of))
    assert (row.text, row.ok, row.n, row.paid) == ("a", True, 7, Decimal("12.34"))
    assert (math.isnan(row.x), row.tags, row.m, row._undecodable) == (True, ["b"], {"k": 2}, None)
    for (damaged, why), found in zip(unfit.items(), others, strict=True):
        assert found._undecodable == f"value: {why}", damaged
        assert found.value == damaged


def test_avro_of_java(spark: SparkSession) -> None:
    """Doubles of an array, which Avro 1.12.0 makes floats, and texts that Java would mend."""
    of = record(
        ("x", {"type": "array", "items": "double"}),
        ("y", ["null", {"type": "array", "items": {"type": "double"}}]),
        ("s", {"type": "string", "avro.java.string": "String"}),
    )
    numbers = 0.1, 1e300, -3e300, math.inf
    array = bytes([2 * len(numbers)]) + b"".join(struct.pack("<d", n) for n in numbers) + b"\0"
    good, bad = array + b"\x02" + array + b"\x02a", array + b"\x00" + b"\x02\xff"
    row, other = read(spark, [good, bad], avro(of))
    assert (tuple(row.x), tuple(row.y), row.s, row._undecodable) == (numbers, numbers, "a", None)
    assert (tuple(other.x), other._undecodable) == (numbers, "value: s: no UTF-8")


def test_names_of_avro(spark: SparkSession) -> None:
    """A name with a dot is a full one, whatever the namespace."""
    first = {"type": "fixed", "name": "x.a.B", "size": 1}
    second = {"type": "enum", "name": "a.B", "symbols": ["S"]}
    named = [("f", first), ("e", second), ("r", "a.B")]
    fields = [{"name": name, "type": kind} for name, kind in named]
    of = json.dumps({"type": "record", "name": "R", "namespace": "x", "fields": fields})
    (row,) = read(spark, [b"z\0\0"], avro(of))
    assert (bytes(row.f), row.e, row.r, row._undecodable) == (b"z", "S", "S", None)


def test_texts_within_arrays_are_not_rewritten(spark: SparkSession) -> None:
    """Where a number is put in quotes for a DECIMAL, no text may hold the same key."""
    ddl = "price DECIMAL(5,2), l ARRAY<ARRAY<STRING>>, d ARRAY<STRUCT<s: STRING>>"
    value = b'{"price":1.50,"l":[[{"price":5}]],"d":[{"s":{"price":5}}]}'
    (row,) = read(spark, [value], Decoder("json", ddl))
    assert (row.price, row.l, row.d) == (Decimal("1.50"), [['{"price":5}']], [('{"price":5}',)])
    ddl = 'price DECIMAL(5,2), `x"price` DOUBLE'
    (row,) = read(spark, [b'{"x\\"price":1.5,"price":2}'], Decoder("json", ddl))
    assert (row.price, row[-2], row._undecodable) == (Decimal("2.00"), 1.5, None)


def test_a_map_with_many_keys(spark: SparkSession) -> None:
    """Its keys are not looked for one by one: 20,000 took minutes."""
    number, size = 1.5, 20_000
    value = json.dumps({"m": {f"k{n}": number for n in range(size)}}).encode()
    began = time.monotonic()
    for kind in ("DOUBLE", "DECIMAL(5,2)"):
        (row,) = read(spark, [value], Decoder("json", f"m MAP<STRING, {kind}>"))
        assert len(row.m) == size
        assert {*row.m.values()} == {number}
    assert time.monotonic() - began < 60


def _long(number: int) -> bytes:
    """Return a positive number as Avro writes it."""
    left, found = 2 * number, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def test_types_of_avro_are_those_of_spark(spark: SparkSession) -> None:
    """The columns that are planned, and checked in the files, are those that Spark makes."""
    part = {"type": "record", "name": "P", "fields": [{"name": "p", "type": "float"}]}
    logical = [
        ("bytes", "decimal", {"precision": 10, "scale": 2}), ("int", "date", {}),
        ("long", "timestamp-millis", {}), ("long", "timestamp-micros", {}),
        ("long", "local-timestamp-millis", {}), ("int", "time-millis", {}), ("string", "uuid", {}),
    ]  # fmt: skip
    kinds: list[Any] = [
        "boolean", "int", "long", "float", "double", "bytes", "string",
        {"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "fixed", "name": "F", "size": 4},
        {"type": "array", "items": ["null", "int"]}, {"type": "map", "values": "double"},
        part, ["null", "P"], ["int", "long"],
        [{"type": "int"}, "null", "long"], ["float", "double"], ["int", "string"], ["null", "E"],
        *({"type": kind, "logicalType": name, **more} for kind, name, more in logical),
    ]  # fmt: skip
    decoder = avro(record(*((f"f{n}", kind) for n, kind in enumerate(kinds))))
    frame = spark.createDataFrame([], "key BINARY, value BINARY")
    made = decode_rows(frame, Decoding(decoder)).drop("key", "value", "_undecodable").schema
    planned = StructType.fromDDL(schema.render_ddl(decoder.columns))
    assert made.simpleString() == planned.simpleString()


def test_key_and_value(spark: SparkSession) -> None:
    """Both are decoded, by prefixed names; of two reasons a record has both."""
    frame = spark.createDataFrame(
        [(bytearray(b"k"), bytearray(b'{"id":1}')), (bytearray(b"\xff"), bytearray(b"no"))],
        "key BINARY, value BINARY",
    )
    how = Decoding(
        value=Decoder("json", "id BIGINT", "v_"), key=Decoder("string", "text STRING", "k_")
    )
    one, two = decode_rows(frame, how).collect()
    assert one.asDict() == {
        "key": b"k", "value": b'{"id":1}', "v_id": 1, "k_text": "k", "_undecodable": None,
    }  # fmt: skip
    assert (two.v_id, two.k_text) == (None, None)
    assert two._undecodable == f"value: {NO_JSON}; key: no UTF-8"


def test_hard_names(spark: SparkSession) -> None:
    """Names with blanks, dots and back quotes, and those of columns that decoding needs itself."""
    names = ["a b", "a.b", "tick`s", "_bad", "_value", "_json_value_", "\u20ac"]
    ddl = ", ".join("`{}` INT".format(name.replace("`", "``")) for name in names)
    value = json.dumps({name: n for n, name in enumerate(names)}).encode()
    (row,) = read(spark, [value], Decoder("json", ddl))
    assert given(row) == {name: n for n, name in enumerate(names)}


@pytest.mark.parametrize("columns", ["a INT", "a INT, b STRING, c DOUBLE"])
def test_nothing_is_decoded_twice(spark: SparkSession, columns: str) -> None:
    """The parser of a value is in the plan once, whatever the number of columns."""
    frame = spark.createDataFrame([], "key BINARY, value BINARY")
    plan = decode_rows(frame, Decoding(Decoder("json", columns)))._jdf.queryExecution()
    text = plan.optimizedPlan().toString()
    assert text.count("from_json(StructField(a,IntegerType") == 1, text
    assert text.count("parseJson") == 1, text
