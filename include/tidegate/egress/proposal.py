"""A proposal of `source.columns` for files of JSON or CSV, by the lines at their beginning."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Sequence

from tidegate.core import sampled_columns, schema
from tidegate.core.plan import SourceFile
from tidegate.core.schema import Field, Type
from tidegate.core.source_root import Root
from tidegate.errors import TidegateError
from tidegate.lake import sources
from tidegate.lake.store_protocol import SourceFiles, Stores

LINES = 100
_BYTES = 1 << 20  # of each file
_FILES = 10
_GZIP = 31  # zlib's number for it


def proposed_columns(source: SourceFiles, files: Sequence[SourceFile]) -> str | None:
    """Return Spark's DDL of the keys in the first lines of some files; None if there are none.

    A key that has values of two types, or objects or arrays, is a STRING: their JSON. So is one
    with numbers that its type would change: two of them could become one.
    """
    lines: list[bytes] = []
    for file in files[:_FILES]:
        lines += _lines(sources.beginning(source, file.name, _BYTES))
    return columns_of(lines[:LINES])


def columns_below(path: str, file_format: str, stores: Stores) -> str | None:
    """Return the DDL for a `source.path` of JSON or CSV; None if no file can be read there."""
    try:
        source = stores.source(Root.of(path))
        files = sources.listing(source, settle=0).files
        if file_format == "json":
            return proposed_columns(source, files)
        return columns_of_header(_lines(sources.beginning(source, files[0].name, _BYTES))[:1])
    except (TidegateError, ValueError, IndexError, csv.Error, zlib.error):
        return None


def columns_of_header(lines: Iterable[bytes]) -> str | None:
    """Return Spark's DDL for the first line of a CSV file: each column is a STRING.

    None if it is not surely a header with commas: each name begins with a letter or an underscore,
    and has no other separator and no control character.
    """
    names = next(csv.reader((line.decode("utf-8-sig") for line in lines), strict=True), [])
    if len({name.lower() for name in names}) < len(names) or not all(map(_is_name, names)):
        return None
    return schema.ddl([Field(name, Type("string")) for name in names]) or None


def columns_of(lines: Iterable[bytes]) -> str | None:
    """Return Spark's DDL for lines of JSON; what is no object is ignored."""
    return schema.ddl(sampled_columns.of_objects(lines, as_text=True)) or None


def _lines(data: bytes) -> list[bytes]:
    """Return the whole lines of a file's beginning, plain or of gzip."""
    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(_GZIP).decompress(data, _BYTES)
    lines = data.splitlines()
    return lines[:-1] if len(data) >= _BYTES else lines


def _is_name(text: str) -> bool:
    begins = text[:1].isalpha() or text[:1] == "_"
    return begins and text.isprintable() and not set(text) & set(";\t|")
