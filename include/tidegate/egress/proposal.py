"""A proposal of `source.columns` for JSON files, by the lines at their beginning."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.errors import TidegateError
from tidegate.lake import sources

LINES = 100
_BYTES = 1 << 20  # of each file
_FILES = 10
_NAME = re.compile(r"[A-Za-z_]\w*")
_GZIP = 31  # zlib's number for it
_EXACT_DIGITS = 15  # a double keeps so many digits of a number
_LARGE = "BIGINT that no double keeps"


def proposed_columns(root: Root, files: Sequence[SourceFile]) -> str | None:
    """Return Spark's DDL of the keys in the first lines of some files; None if there are none.

    A key that has values of two types, or objects or arrays, is a STRING: their JSON. So is one
    with numbers that its type would change: two of them could become one.
    """
    lines: list[bytes] = []
    for file in files[:_FILES]:
        lines += _lines(sources.beginning(root, file.name, _BYTES))
    return columns_of(lines[:LINES])


def columns_below(path: str) -> str | None:
    """Return the DDL for a `source.path`; None if no file can be read there."""
    try:
        root = Root.of(path)
        return proposed_columns(root, sources.listing(root, settle=0).files)
    except (TidegateError, ValueError):
        return None


def columns_of(lines: Iterable[bytes]) -> str | None:
    """Return Spark's DDL for lines of JSON; what is no object is ignored."""
    kinds: dict[str, set[str]] = {}
    for line in lines:
        try:
            row = json.loads(line, parse_float=Decimal)
        except (ValueError, RecursionError):
            continue
        for name, value in row.items() if isinstance(row, dict) else ():
            kinds.setdefault(name, set()).update(_kind(value))
    columns = (f"{_quoted(name)} {_merged(found)}" for name, found in kinds.items())
    return ", ".join(columns) or None


def _kind(value: Any) -> list[str]:
    match value:
        case None:
            return []
        case bool():
            return ["BOOLEAN"]
        case int():
            if abs(value) < 10**_EXACT_DIGITS:
                return ["BIGINT"]
            return [_LARGE if -(2**63) <= value < 2**63 else "STRING"]
        case Decimal():
            is_exact = len(value.as_tuple().digits) <= _EXACT_DIGITS and (
                not value or -300 < value.adjusted() < 300
            )
            return ["DOUBLE" if is_exact else "STRING"]
        case _:
            return ["STRING"]


def _merged(kinds: set[str]) -> str:
    if kinds == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    if kinds <= {"BIGINT", _LARGE}:
        return "BIGINT" if kinds else "STRING"
    return kinds.pop() if len(kinds) == 1 else "STRING"


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _lines(data: bytes) -> list[bytes]:
    """Return the whole lines of a file's beginning, plain or of gzip."""
    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(_GZIP).decompress(data, _BYTES)
    lines = data.splitlines()
    return lines[:-1] if len(data) >= _BYTES else lines
