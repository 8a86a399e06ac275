"""Texts of typed columns: each is what Python's own readers say, or does not fit."""

import base64
import binascii
import json
import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.core.decoding import Decoder, Decoding
from tidegate.spark import formats
from tidegate.spark.decoded_rows import decode_rows

by_csv = formats.format_of_records("csv").decoder

TEXTS = 10_000
"""Of each type."""
GIVEN = [json.loads(line) for line in Path(__file__).with_name("typed_texts.jsonl").open()]
"""Texts that Spark's own parsers take for other values, and what is right."""
ODD = (
    "", " ", "1 ", " 1", "\u0661\u0662", "1_000", "0x10", "1d", "NaN", "Infinity", "-", ".", "1.",
    ".5", "00", "-0", "0.0", "now", "today", "epoch", "2026-W11-6", "20260314", "2026-073", "24:00",
    "2026-03-14T24:00:00", "2026-03-14T23:59:60Z", "0000-01-01", "10000-01-01", "+2026-01-01",
    "2026-03-14T05:00:00Z\n", "12.50\n", "1e", "1e+", "\ufdd01", "a" * 3_000, "9" * 900,
    "0." + "0" * 900, "1e-999", "1e999",
)  # fmt: skip
ZONES = (
    "", "", "Z", "z", "+00:00", "-00:00", "+05:45", "-0800", "+02", "+17:59", "+18:00", "+5",
    " Europe/Berlin", "UTC", "+01:00:00",
)  # fmt: skip
POWERS = 0, 1, 2, 5, 12, 30, 300, 999, 1000, 10**7
NUMBERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
EXPONENT = 18, 19, 3
"""Digits before and behind the point, and of the exponent, of a DECIMAL that has one."""


def number(text: str) -> Decimal | None:
    """Return a number as JSON writes it."""

    def none(_: str) -> None:
        raise ValueError("no number")

    try:
        found = json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=none)
    except (ValueError, ArithmeticError):
        return None
    return found if isinstance(found, Decimal) and text.strip() == text else None


def decimal(text: str, digits: int, scale: int) -> Decimal | None:
    if "e" in text.lower():
        mantissa, _, power = text.lower().partition("e")
        before, _, behind = mantissa.lstrip("-").partition(".")
        sizes = len(before), len(behind), len(power.lstrip("+-"))
        if any(size > most for size, most in zip(sizes, EXPONENT, strict=True)):
            return None
    if (found := number(text)) is None:
        return None
    if not found:
        return Decimal(0)
    with localcontext(prec=5_000):
        scaled = found.scaleb(scale)
        is_whole = scaled == scaled.to_integral_value()
        return found if is_whole and abs(scaled) < 10**digits else None


def whole_number(text: str, bits: int) -> int | None:
    found = number(text) if set(text) <= {*"-0123456789"} else None
    return int(found) if found is not None and -(1 << bits - 1) <= found < 1 << bits - 1 else None


def fraction(text: str) -> float | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    is_finite = is_number and math.isfinite(float(text)) and text.strip() == text
    return float(text) if is_finite else None


def day(text: str) -> date | None:
    if not (text.isascii() and len(text) == 10 and text[4] == text[7] == "-"):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def moment(text: str, *, zoned: bool = True) -> datetime | None:
    """Return a time that is written in one of the ways of the table."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo and not zoned:
        return None
    clock, _, fraction = (
        text[11:].partition("Z")[0].partition("+")[0].partition("-")[0]
    ).partition(".")
    offset = found.utcoffset() or timedelta()
    if abs(offset) >= timedelta(hours=18):
        return None
    minutes = int(abs(offset).total_seconds()) // 60
    sign = "-" if offset < timedelta() else "+"
    hours, rest = f"{sign}{minutes // 60:02d}", f"{minutes % 60:02d}"
    zones = {f"{hours}:{rest}", f"{hours}{rest}"} | ({hours} if rest == "00" else set())
    if not offset:
        zones |= {each.replace("+", "-") for each in zones} | {"Z"}
    zones = zones if found.tzinfo else {""}
    clocks = {f"{found:%H:%M:%S}"} | ({f"{found:%H:%M}"} if not fraction else set())
    digits = f".{fraction}" if fraction else ""
    if (
        not text.isascii()
        or clock not in clocks
        or len(fraction) > 9
        or not (fraction or "0").isdigit()
    ):
        return None
    written = {
        f"{found.date().isoformat()}{between}{clock}{digits}{zone}"
        for between in "T "
        for zone in zones
    }
    if text not in written:
        return None
    try:
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except OverflowError:
        return None


def in_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if len(text) % 4 == 0 else None
    except (ValueError, binascii.Error):
        return None


def made_numbers(rng: random.Random) -> str:
    digits = rng.choice([1, 2, 3, 5, 8, 9, 10, 11, 15, 17, 18, 19, 20, 30, 38, 39, 45])
    text = str(rng.randrange(10**digits))
    if rng.random() < 0.5:
        text += "." + "".join(rng.choices("0123456789", k=rng.choice([1, 2, 3, 6, 10, 19, 20, 25])))
    if rng.random() < 0.3:
        text += "0" * rng.randrange(30) if "." in text else ""
    if rng.random() < 0.25:
        text += rng.choice("eE") + rng.choice(["", "+", "-"]) + str(rng.choice(POWERS))
    return rng.choice(["", "", "", "-", "+", "0"]) + text


def made_times(rng: random.Random) -> str:
    at = datetime(rng.choice([1, 1582, 1969, 1970, 2024, 2026, 9999]), 1, 1) + timedelta(
        days=rng.randrange(365), seconds=rng.randrange(86_400), microseconds=rng.randrange(10**6)
    )
    text = f"{at.date().isoformat()}{rng.choice('TTT t_')}"
    text += rng.choice([f"{at:%H:%M}", f"{at:%H:%M:%S}", f"{at:%H:%M:%S}"])
    if text.count(":") == 2 and rng.random() < 0.6:
        text += "." + "".join(rng.choices("0123456789", k=rng.randrange(1, 11)))
    return text + rng.choice(ZONES)


def made_days(rng: random.Random) -> str:
    return (date(1, 1, 1) + timedelta(days=rng.randrange(3_652_059))).isoformat()


def made_base64(rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(rng.randrange(12))).decode()


def made_words(rng: random.Random) -> str:
    return rng.choice(["true", "false", "True", "TRUE", "t", "yes", "1", "0", "null", "on"])


KINDS: dict[str, tuple[Callable[[random.Random], str], Callable[[str], Any]]] = {
    "DECIMAL(10,2)": (made_numbers, lambda text: decimal(text, 10, 2)),
    "DECIMAL(38,19)": (made_numbers, lambda text: decimal(text, 38, 19)),
    "DECIMAL(5,0)": (made_numbers, lambda text: decimal(text, 5, 0)),
    "DECIMAL(4,4)": (made_numbers, lambda text: decimal(text, 4, 4)),
    **{
        kind: (made_numbers, lambda text, bits=bits: whole_number(text, bits))
        for kind, bits in NUMBERS.items()
    },
    "DOUBLE": (made_numbers, fraction),
    "BOOLEAN": (made_words, lambda text: {"true": True, "false": False}.get(text)),
    "DATE": (made_days, day),
    "TIMESTAMP": (made_times, moment),
    "TIMESTAMP_NTZ": (made_times, lambda text: moment(text, zoned=False)),
    "BINARY": (made_base64, in_base64),
}
OF_STRINGS = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY"}
"""Types whose values are texts in JSON; of a DECIMAL, they may be."""


def made(kind: str) -> Iterator[str]:
    """Yield texts of a type: as it is written, damaged, of other types, and of no type."""
    rng, make = random.Random(kind), KINDS[kind][0]
    odd = [*(each["text"] for each in GIVEN), *ODD]
    yield from odd
    for _ in range(TEXTS - len(odd)):
        text = make(rng)
        if rng.random() < 0.4:
            at = rng.randrange(len(text) + 1)
            mark = rng.choice("0123456789-+.:,TZeE /=xA\u0661\u2212\x00\x7f")
            text = text[:at] + rng.choice(["", mark]) + text[at + rng.randrange(2) :]
        if rng.random() < 0.05:
            text = rng.choice(list(KINDS.values()))[0](rng)
        yield text


def token(kind: str, text: str) -> str | None:
    """Return a text as JSON has it for a type; None for one that only a text could have."""
    if kind in OF_STRINGS:
        return json.dumps(text)
    if kind.startswith("DECIMAL") and len(text) % 2:
        return json.dumps(text)
    try:
        found = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        if text != text.strip():
            return None
    except (ValueError, ArithmeticError):
        return json.dumps(text) if kind.startswith("DECIMAL") else None
    is_long = isinstance(found, Decimal) and len(text) > 900  # Spark's own limit is 1,000
    return None if is_long or text in ("NaN", "Infinity", "-Infinity") else text


def expected(kind: str, text: str) -> Any:
    value = KINDS[kind][1](text)
    if isinstance(value, datetime):
        fraction = f"{value.microsecond:06d}".rstrip("0")
        return f"{value.isoformat(' ', 'seconds')}" + (f".{fraction}" if fraction else "")
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_json(spark: SparkSession, kind: str) -> None:
    """At the top, in a structure, in an array and in a map."""
    texts = [(text, made_) for text in made(kind) if (made_ := token(kind, text)) is not None]
    ddl = f"a {kind}, s STRUCT<b: {kind}>, l ARRAY<{kind}>, m MAP<STRING, {kind}>"
    values = [f'{{"a":{t},"s":{{"b":{t}}},"l":[{t}],"m":{{"k":{t}}}}}' for _, t in texts]
    columns = "a", "s.b", "l[0]", "m['k']"
    decoder = Decoder("json", ddl)
    given = [(n, None, bytearray(value.encode())) for n, value in enumerate(values)]
    frame = decode_rows(
        spark.createDataFrame(given, "at INT, key BINARY, value BINARY"), Decoding(decoder)
    )
    shown = [f"cast({c} as STRING)" if kind.startswith("TIMESTAMP") else c for c in columns]
    rows = frame.selectExpr("at", *(f"{c} AS c{n}" for n, c in enumerate(shown)), "_undecodable")
    found = sorted(rows.collect(), key=lambda row: int(row["at"]))
    fitting = 0
    for (text, one), row in zip(texts, found, strict=True):
        is_null = one == "null"
        right = None if "\ufdd0" in text or is_null else expected(kind, text)
        fitting += right is not None
        assert [row.c0, row.c1, row.c2, row.c3] == [right] * 4, text
        assert (row._undecodable is None) == (right is not None or is_null), text
    assert len(texts) > (TEXTS // 20 if kind == "BOOLEAN" else TEXTS // 3)
    assert fitting > 30


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "BINARY"])
def test_csv(spark: SparkSession, kind: str) -> None:
    texts = [text for text in made(kind) if not {*text} & {"\n", "\0"} and "\ufdd0" not in text]
    frame = spark.createDataFrame(
        [(n, None, bytearray(f"{text};x".encode())) for n, text in enumerate(texts)],
        "at INT, key BINARY, value BINARY",
    )
    decoder = by_csv(f"a {kind}, b STRING", separator=";")
    shown = "cast(a as STRING)" if kind.startswith("TIMESTAMP") else "a"
    rows = decode_rows(frame, Decoding(decoder)).selectExpr("at", f"{shown} AS a", "_undecodable")
    for text, row in zip(texts, sorted(rows.collect(), key=lambda r: int(r["at"])), strict=True):
        right = expected(kind, text)
        assert (row.a, row._undecodable is None) == (right, right is not None or not text), text


@pytest.mark.parametrize("kind", sorted({each["type"] for each in GIVEN}))
def test_given(spark: SparkSession, kind: str) -> None:
    """By hand: what other parsers take for another value."""
    given = [each for each in GIVEN if each["type"] == kind]
    for decoder, write in (
        (Decoder("json", f"a {kind}"), lambda text: json.dumps({"a": text})),
        (by_csv(f"a {kind}", separator=";"), str),
    ):
        records = [(n, None, write(each["text"]).encode()) for n, each in enumerate(given)]
        frame = spark.createDataFrame(records, "at INT, key BINARY, value BINARY")
        rows = sorted(
            decode_rows(frame, Decoding(decoder)).collect(), key=lambda row: int(row["at"])
        )
        for each, row in zip(given, rows, strict=True):
            if each["fits"]:
                a = row.a.strftime("%Y-%m-%dT%H:%M:%S.%f") if kind == "TIMESTAMP" else str(row.a)
                right = each["value"].removesuffix("Z"), None
                assert (a.removesuffix(".000000"), row._undecodable) == right, each
            else:
                assert (row.a, row._undecodable) == (None, f"value: a: no {kind}"), each
