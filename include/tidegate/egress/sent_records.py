"""Records of egress plans in a target: read by their provenance, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.broker.consumer import Reader, Record
from tidegate.core import provenance, row_digest
from tidegate.core.offsets import OffsetRange

ISOLATION = "read_uncommitted"


def records_of(
    read: Reader, target: OffsetRange, plan_id: str, names: Sequence[str]
) -> Iterator[tuple[str, int, Record]]:
    """Yield file, row and record of a plan's records in a range of the target.

    `names` are those of the plan's indexes.
    """
    for record in read(target, ISOLATION):
        said = provenance.of(record.headers)
        if said and said.plan == plan_id and said.at < len(names):
            yield names[said.at], said.row, record


def own_headers(headers: row_digest.Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers before the last one of provenance; an agent in the producer may append
    more after it.
    """
    own = list(headers)
    names = [name for name, _ in own]
    return own[: len(names) - 1 - names[::-1].index(provenance.HEADER)]
