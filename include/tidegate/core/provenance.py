"""The header by which a sent record names its plan and row.

`tidegate: <plan>:<index>:<row>:<timestamp>`, as text. `index` is the place of the row's file in the
plan's list of names, from 0; `row` its number in there, from 0, or its offset in a lake;
`timestamp` that of a lake's record or of `columns.timestamp`, in ms since the epoch, else empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile

HEADER = "tidegate"
NUMBERS = "([0-9]{1,9}):([0-9]{1,18}):-?[0-9]*"
"""What follows the plan and a colon. No longer numbers, which others may have written."""
_FORM = re.compile(f"([^:]*):{NUMBERS}")


class Provenance(NamedTuple):
    """What a record says of itself: its plan, the index of its file in there, its row."""

    plan: str
    at: int
    row: int


def provenance_of(headers: Iterable[tuple[str, bytes | None]]) -> Provenance | None:
    """Return what the last header of this name says, or None if it is missing or not ours."""
    last = None
    for name, value in headers:
        last = value if name == HEADER else last
    found = _FORM.fullmatch((last or b"").decode(errors="replace"))
    return Provenance(found[1], int(found[2]), int(found[3])) if found else None


def provenance_names(
    files: Sequence[SourceFile], window: Iterable[OffsetRange], topic_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what indexes stand for: the files of a plan, in its order, or the partitions of its
    window of a lake as `<topic id>/<partition>`, sorted by topic id and number.
    """
    partitions = sorted({(topic_ids[r.topic], r.partition) for r in window})
    return (*(file.name for file in files), *(f"{each}/{p}" for each, p in partitions))
