"""Source files by seed, with the traps of the world's writers, and what independent readers say.

The judges are Python's `csv` and `json`, and PyArrow: never the reader under test.
"""

import base64
import csv
import gzip
import io
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

BAD = "bad"
"""In place of a row's value: it must be a bad row."""
COLUMNS = ("a", "b", "c")
JSON_COLUMNS = "s STRING, n BIGINT, d DOUBLE, t BOOLEAN"


class Made(NamedTuple):
    """A file, and the values of its rows; `is_open`: behind the last of them a row is bad, and what
    else there is, nobody can tell.
    """

    content: bytes
    rows: list[Any]
    is_open: bool = False


_VALUES = (
    "", "a", "1", " x ", "ü€😀", "\ufffd", "NULL", "null", r"\N", '"', '""', "a,b", "a;b", "a\nb",
    "a\r\nb", "a\rb", "\n", "it's", "C:\\", "\\", '\\"', "#", "#x", "0010", "1,5", "-", "\x00",
    "\x1f", "\u2028", "\u0085", "\u00a0", "=1+1", "<x/>", "x" * 3000,
)  # fmt: skip
_CSV_PIECES = ('"', '"a"', '"a', 'a"', ",", ",,", "\n", "\r\n", "\r", " ", '"\n"', '""', "x", "ü")


def csv_file(rng: random.Random) -> Made:
    """Return CSV of COLUMNS: written well, or with pieces of rows that no writer closes."""
    end = rng.choice(["\n", "\r\n"])
    text = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerow(COLUMNS)
    for _ in range(rng.randint(0, 6)):
        if rng.random() < 0.3:
            text.write("".join(rng.choices(_CSV_PIECES, k=rng.randint(1, 6))) + end)
        else:
            writer.writerow(rng.choices(_VALUES, k=rng.choice([3, 3, 3, 3, 2, 4])))
    content = text.getvalue()
    if rng.random() < 0.2:
        content = content.removesuffix(end)
    lines = [f"{line}\n" for line in content.split("\n")]
    lines[-1:] = [lines[-1][:-1]] if lines[-1] != "\n" else []
    found, is_open = [], False
    try:
        for row in csv.reader(lines, strict=True):
            if row:
                found.append(row if len(row) == len(COLUMNS) else BAD)
    except csv.Error:
        is_open = True
    data = content.encode()
    return Made(b"\xef\xbb\xbf" * (rng.random() < 0.1) + data, found[1:], is_open)


_JSON_VALUES = (
    '"x"', '""', '"1.50"', r'"\u00fc\n\"\\ \/"', r'"\ud83d\ude00"', r'"\\udada?"', '"ü😀?"',
    "1", "-0",
    "0", "10.10", "1e2", "-1.5e-400", "9223372036854775807", "true", "false", "null", "{}", "[]",
    '{"x": 1.10, "y": [1e0, "1e0", -0], "z": {}}', "[1.0, [2]]", '"\ufffd\u2028"', "-17", "0.5",
)  # fmt: skip
_ODD_VALUES = (
    r'"\udada"',
    "1E+400",
    "9223372036854775808",
    "123456789012345678901234567890",
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "'x'",
    "x",
    '"a\tb"',
    r'"\x"',
    '"',
    "Infinity",
    "-",
    "1 2",
    "[1,]",
    '{"x":1,}',
)
_TAILS = ("}", ",", "x", '{"s":1}', "\u00a0", "\ufeff", "]")
_FOR = {
    "s": _JSON_VALUES, "n": ("1", "-0", "9223372036854775807", "null", "-17"),
    "d": ("1", "10.10", "1e2", "-1.5e-400", "-0", "null", "0.5"), "t": ("true", "false", "null"),
}  # fmt: skip


def json_file(rng: random.Random) -> Made:
    """Return lines of JSON; a row is its line, and its keys of JSON_COLUMNS by Python."""
    lines: list[bytes] = []
    for _ in range(rng.randint(0, 6)):
        names = rng.sample(["s", "n", "d", "t", "other"], k=rng.randint(0, 4))
        if rng.random() < 0.1:
            names += rng.choice(["s", "S", "N", "other", "other"])
        pairs = []
        for name in names:
            odd = rng.random() < 0.05
            value = rng.choice(_ODD_VALUES if odd else _FOR.get(name, _JSON_VALUES))
            pairs.append(f'"{name}":{rng.choice(["", " "])}{value}')
        tail = rng.choice(_TAILS) if rng.random() < 0.05 else rng.choice(["", " "])
        line = f"{{{', '.join(pairs)}}}{tail}".encode()
        lines.append(line if rng.random() < 0.95 else line.replace(b"x", b"\xff"))
    content = rng.choice([b"\n", b"\r\n"]).join(lines)
    return Made(content, [judged_line(line) for line in lines])


class _Object(list[tuple[str, Any]]):
    """An object of JSON, with all of its keys."""


class _Number(str):
    """A number as it was written."""


def judged_line(line: bytes) -> Any:
    """Return `[line, s, n, d, t]` by Python's reader, or BAD."""

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        text = line.decode()
        row = json.loads(
            text.strip(" \t\r"), object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number,
            parse_constant=refuse,
        )  # fmt: skip
    except ValueError:
        return BAD
    if not isinstance(row, _Object):
        return BAD
    known = [name for name, _ in row if name.lower() in ("s", "n", "d", "t")]
    if len({name.lower() for name in known}) < len(known) or any(n.lower() != n for n in known):
        return BAD
    values = dict(row)
    try:
        found = [line, *(_AS[name](values.get(name)) for name in ("s", "n", "d", "t"))]
        json.dumps(found[1:], ensure_ascii=False).encode()
    except (ValueError, UnicodeEncodeError):
        return BAD
    return found


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return _compact(value)


def _compact(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case _Object():
            return "{" + ",".join(f"{json.dumps(k)}:{_compact(v)}" for k, v in value) + "}"
        case list():
            return "[" + ",".join(map(_compact, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _as_long(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, _Number) or not re.fullmatch("-?[0-9]+", value):
        raise ValueError
    if not -(2**63) <= int(value) < 2**63:
        raise ValueError
    return int(value)


def _as_double(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, _Number):
        raise ValueError
    if not math.isfinite(found := float(value)):
        raise ValueError
    return found


def _as_boolean(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError
    return value


_AS: dict[str, Callable[[Any], Any]] = {
    "s": _as_text, "n": _as_long, "d": _as_double, "t": _as_boolean,
}  # fmt: skip


def text_file(rng: random.Random) -> Made:
    """Return lines of any bytes; Spark ends them at CR, LF and CRLF."""
    content = b"".join(
        rng.choice(
            [b"a", b"\n", b"\r", b"\r\n", b"\xff\xfe", "ü".encode(), b"\x00", b" ", b"x" * 99]
        )
        for _ in range(rng.randint(0, 12))
    )
    lines = re.split(rb"\r\n|\r|\n", content)
    return Made(content, lines if lines[-1] else lines[:-1])


_KINDS: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.int8(), (0, -128, 127)),
    (pa.int16(), (0, -32768)),
    (pa.int32(), (1, -(2**31))),
    (pa.int64(), (1, 9007199254740993, -(2**63))),
    (pa.uint32(), (0, 2**32 - 1)),
    (pa.bool_(), (True, False)),
    (pa.float64(), (0.0, 0.1, -2.5e300)),
    (pa.string(), ("", "ü😀", 'a"\\\n', "\x00")),
    (pa.large_string(), ("x",)),
    (pa.binary(), (b"", b"\xff\x00")),
    (pa.decimal128(10, 2), ()),
    (pa.list_(pa.int64()), ([], [1, None])),
    (pa.struct([("x", pa.string()), ("y", pa.int64())]), ({"x": "a", "y": None},)),
    (pa.dictionary(pa.int32(), pa.string()), ("k", "l")),
)


def parquet_file(rng: random.Random, kinds: list[int]) -> Made:
    """Return Parquet of these kinds of columns, as PyArrow's writer may lay it out."""
    count = rng.choice([0, 1, 3, 50])
    table = {}
    for i, kind in enumerate(kinds):
        type_, values = _KINDS[kind]
        table[f"c{i}"] = pa.array(rng.choices([None, *values], k=count), type_)
    made = io.BytesIO()
    pq.write_table(
        pa.table(table),
        made,
        row_group_size=rng.choice([1, 7, 1000]),
        compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
        use_dictionary=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        data_page_size=rng.choice([64, 100_000]),
        write_page_checksum=rng.random() < 0.5,
        write_statistics=rng.random() < 0.5,
        version=rng.choice(["1.0", "2.6"]),
        store_schema=rng.random() < 0.5,
    )
    return Made(made.getvalue(), [*_as_json(pq.read_table(io.BytesIO(made.getvalue())))])


def kinds(rng: random.Random) -> list[int]:
    return rng.choices(range(len(_KINDS)), k=rng.randint(1, 5))


def _as_json(table: pa.Table) -> Iterator[Any]:
    def plain(value: Any) -> Any:
        match value:
            case bytes():
                return base64.b64encode(value).decode()
            case list():
                return [plain(each) for each in value]
            case dict():
                return {name: plain(each) for name, each in value.items()}
            case _:
                return value

    yield from map(plain, table.to_pylist())


def packed(rng: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """Return name and bytes of a file, compressed or not."""
    if rng.random() < 0.2:
        return f"{name}.gz", gzip.compress(content, mtime=0)
    return name, content
