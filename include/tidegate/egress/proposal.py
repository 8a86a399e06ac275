"""A proposal of `source.columns`, by the first lines of some files."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from tidegate.core.plan import Plan, SourceFile
from tidegate.core.source_root import Root
from tidegate.egress.planning import root_of
from tidegate.errors import TidegateError
from tidegate.lake import sources
from tidegate.lake.store_protocol import SourceFiles, Stores
from tidegate.runs.run import EgressRun
from tidegate.spark.egress_job import LINE, WHOLE
from tidegate.spark.format_protocol import FileFormat

_BYTES = 1 << 20  # of each file
_FILES = 10
_GZIP = 31  # zlib's number for it


def missing_columns(run: EgressRun, plan: Plan) -> list[str]:
    """Return what `source.columns` could be, if expressions need columns that are not declared."""
    source, files = run.spec.source, run.spec.source.file_format
    named = [sql for sql in run.spec.expressions.values() if sql not in (WHOLE, LINE, "null")]
    named += run.spec.order_by
    if not (files and plan.files and files.complaint(source.columns, whole=False, named=named)):
        return []
    proposed = proposed_columns(run.stores.source(root_of(plan)), plan.files, files)
    return (
        [
            "source.columns: expressions on JSON need the columns that they name. The first lines "
            f"have {proposed}"
        ]
        if proposed
        else []
    )


def proposed_columns(
    source: SourceFiles, files: Sequence[SourceFile], file_format: FileFormat
) -> str | None:
    """Return Spark's DDL for the first lines of some files, if their format proposes columns."""
    return file_format.propose_columns(_first_lines(source, files))


def columns_below(path: str, file_format: FileFormat, stores: Stores) -> str | None:
    """Return the DDL for a `source.path`. None if no file can be read there."""

    def lines() -> Iterator[bytes]:
        source = stores.source(Root.of(path))
        yield from _first_lines(source, sources.list_source(source, settle=0).files)

    try:
        return file_format.propose_columns(lines())
    except (TidegateError, ValueError, zlib.error):
        return None


def _first_lines(source: SourceFiles, files: Sequence[SourceFile]) -> Iterator[bytes]:
    for file in files[:_FILES]:
        yield from _lines(sources.read_beginning(source, file.name, _BYTES))


def _lines(data: bytes) -> list[bytes]:
    """Return the whole lines of a file's beginning, plain or of gzip."""
    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(_GZIP).decompress(data, _BYTES)
    lines = data.splitlines()
    return lines[:-1] if len(data) >= _BYTES else lines
