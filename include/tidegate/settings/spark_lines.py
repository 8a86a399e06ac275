"""Minor versions of Spark, called lines: which are supported, and which lack a part.

What was tried with each is in docs/versions.md.
"""

from __future__ import annotations

from collections.abc import Collection

# It is not the newest line, because not every jar of 4.1 and 4.2 can be had everywhere
# (`spark-hadoop-cloud` 4.1.3 and 4.2).
PINNED = "4.0"
"""The line of the PySpark that the extra `spark` and the lock have."""
OLDEST = "3.5"
_WHOLE = "4.0"


def line_of(version: str) -> str:
    """Return the line of a version: "4.0" of "4.0.4"."""
    return ".".join(version.split(".")[:2])


def is_too_old(version: str) -> bool:
    """Return whether Tidegate refuses a Spark of this version, or line."""
    return _number(version) < _number(OLDEST)


def is_partial(version: str) -> bool:
    """Return whether a Spark lacks what JSON, S3 and the size of tasks need."""
    return _number(version) < _number(_WHOLE)


def version_complaint(version: str, columns: Collection[str], *, is_typed: bool) -> str | None:
    """Return why a Spark cannot read files, or compute their columns. None: it can.

    `*` among the columns is the row as JSON. `is_typed`: values of the files are texts that
    become values of other types.
    """
    # This is refused, and not done by a replacement that gives nearly the same: it would send other
    # records.
    if is_partial(version) and (is_typed or "*" in columns):
        return (
            f"Spark {version}: files of JSON, columns of CSV other than STRING, and rows as JSON "
            "(columns.value: '*', the default of Parquet and CSV), need Spark "
            f"{_WHOLE} or later"
        )
    return None


def complaint_of_decoding(version: str) -> str | None:
    """Return why a Spark cannot decode keys and values into columns. None: it can."""
    if is_partial(version):
        return f"Spark {version}: `decode` needs Spark {_WHOLE} or later"
    return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
