"""Minor versions of Spark, called lines: which are supported, and which lack a part.

What was tried with each is in docs/versions.md.
"""

from __future__ import annotations

from collections.abc import Collection

from tidegate.core.schema import Type, parse

PINNED = "4.0"
"""The line of the PySpark that the extra `spark` and the lock have."""
OLDEST = "3.5"
_WHOLE = "4.0"
_STRING = Type("string")


def line(version: str) -> str:
    """Return the line of a version: "4.0" of "4.0.4"."""
    return ".".join(version.split(".")[:2])


def is_too_old(version: str) -> bool:
    """Return whether Tidegate refuses a Spark of this version, or line."""
    return _number(version) < _number(OLDEST)


def is_partial(version: str) -> bool:
    """Return whether a Spark lacks what JSON, S3 and the size of tasks need."""
    return _number(version) < _number(_WHOLE)


def complaint(
    version: str, source: str | None, columns: Collection[str], *, declared: str | None = None
) -> str | None:
    """Return why a Spark cannot read a source of this format, or compute its columns.

    None: it can. `*` among the columns is the row as JSON; `declared` is `source.columns`.
    """
    if not is_partial(version):
        return None
    is_typed = source == "csv" and any(kind != _STRING for _, kind in parse(declared or ""))
    if source == "json" or is_typed or "*" in columns:
        return (
            f"Spark {version}: files of JSON, columns of CSV other than STRING, and rows as JSON "
            "(columns.value: '*', the default of Parquet and CSV), need Spark "
            f"{_WHOLE} or later"
        )
    return None


def complaint_of_decoding(version: str) -> str | None:
    """Return why a Spark cannot decode keys and values into columns; None: it can."""
    if is_partial(version):
        return f"Spark {version}: `decode` needs Spark {_WHOLE} or later"
    return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
